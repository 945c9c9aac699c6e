//! Printing: data to stdout, talk to stderr, without colours where they do not belong.

use std::io::Write;

use serde::Serialize;

use crate::render;
use crate::run::Loaded;

/// Data. Colours are stripped unless stdout is a terminal that wants them.
pub(super) fn data(text: &str) -> std::io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Data as JSON.
pub(super) fn json(value: &impl Serialize) -> std::io::Result<()> {
    let mut stdout = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    serde_json::to_writer_pretty(&mut stdout, value)?;
    stdout.write_all(b"\n")?;
    stdout.flush()?;
    Ok(())
}

/// Talk. A stderr that is gone cannot be told about it.
pub(super) fn talk(text: &str) {
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// A line of talk.
pub(super) fn warn(line: &str) {
    talk(&format!("{line}\n"));
}

/// All findings of the files as diagnostics, with a count.
pub(super) fn diagnostics(loaded: &Loaded) -> String {
    render::diagnostics(&loaded.findings, &loaded.documents)
}
