//! Printing: data to stdout, talk to stderr, without colours where they do not belong. Nothing else
//! in the terminal program prints, so that no text of others reaches a terminal or a CI log as more
//! than text.

use std::io::Write;

use serde::Serialize;

use crate::render::{self, Detail};
use ipam_controller::Loaded;

/// Data. Colours are stripped unless stdout is a terminal that wants them.
pub(super) fn data(text: &str) -> std::io::Result<()> {
    script(&render::log_text(text))
}

/// Data of our own making, such as a shell script, that must stay as it is to the byte.
pub(super) fn script(text: &str) -> std::io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Data as JSON.
pub(super) fn json(value: &impl Serialize) -> std::io::Result<()> {
    let mut stdout = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    serde_json::to_writer_pretty(Harmless(&mut stdout), value)?;
    stdout.write_all(b"\n")?;
    stdout.flush()?;
    Ok(())
}

/// Passes JSON on with nothing in it that a terminal would take for more than text. What is written
/// must be whole strings at a time, as serde_json does.
struct Harmless<W>(W);

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.0.write_all(render::harmless_json(text).as_bytes())?,
            Err(_) => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Data as one line of JSON.
pub(super) fn json_line(value: &impl Serialize) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let text = serde_json::to_string(value)?;
    stdout.write_all(format!("{}\n", render::harmless_json(&text)).as_bytes())?;
    stdout.flush()
}

/// JSON as text for a file.
pub(super) fn json_text(value: &impl Serialize) -> std::io::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    Ok(render::harmless_json(&text).into_owned() + "\n")
}

/// Talk. A stderr that is gone cannot be told about it.
pub(super) fn talk(text: &str) {
    let _ = anstream::stderr()
        .lock()
        .write_all(render::log_text(text).as_bytes());
}

/// A line of talk.
pub(super) fn warn(line: &str) {
    talk(&format!("{line}\n"));
}

/// All findings of the files as diagnostics, with a count.
pub(super) fn diagnostics(loaded: &Loaded, detail: Detail) -> String {
    render::diagnostics(&loaded.findings, &loaded.documents, detail)
}
