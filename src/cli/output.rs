//! Prints data to stdout and messages to stderr. No other module prints, so that foreign text
//! cannot send escape sequences to a terminal or commands to a CI log.

use std::io::Write;
use std::time::Duration;

use serde::Serialize;

use crate::render::{self, Detail};
use ipam_controller::Loaded;
use ipam_core::text::one_line;

/// Strips colours from everything that is printed later.
pub(super) fn without_colours() {
    anstream::ColorChoice::Never.write_global();
}

/// Prints data. Strips colours unless stdout is a terminal that supports them.
pub(super) fn data(text: &str) -> std::io::Result<()> {
    script(&render::log_text(text))
}

/// Data without colours, for a reader that is no terminal.
pub(super) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(&render::log_text(text)).to_string()
}

/// Prints our own text unchanged, such as a shell script.
pub(super) fn script(text: &str) -> std::io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Prints data as JSON.
pub(super) fn json(value: &impl Serialize) -> std::io::Result<()> {
    let mut stdout = Sanitized::new(std::io::stdout().lock());
    serde_json::to_writer_pretty(&mut stdout, value)?;
    stdout.end()
}

/// Size of a part of a text that is escaped at once, in bytes.
const PART: usize = 1 << 16;

/// Escapes everything in JSON that a terminal would interpret. Escapes many lines at once: no string
/// of JSON has a line break.
struct Sanitized<W> {
    inner: W,
    lines: Vec<u8>,
}

impl<W: Write> Sanitized<W> {
    fn new(inner: W) -> Sanitized<W> {
        let lines = Vec::with_capacity(PART + PART / 2);
        Sanitized { inner, lines }
    }

    /// Writes the last line.
    fn end(mut self) -> std::io::Result<()> {
        self.lines.push(b'\n');
        self.write_lines()?;
        self.inner.flush()
    }

    fn write_lines(&mut self) -> std::io::Result<()> {
        match std::str::from_utf8(&self.lines) {
            Ok(text) => self
                .inner
                .write_all(render::sanitized_json(text).as_bytes())?,
            Err(error) => return Err(std::io::Error::other(error)),
        }
        self.lines.clear();
        Ok(())
    }
}

impl<W: Write> Write for Sanitized<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.lines.extend_from_slice(bytes);
        if self.lines.len() >= PART && bytes.ends_with(b"\n") {
            self.write_lines()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Prints data as one line of JSON.
pub(super) fn json_line(value: &impl Serialize) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let text = serde_json::to_string(value)?;
    stdout.write_all(format!("{}\n", render::sanitized_json(&text)).as_bytes())?;
    stdout.flush()
}

/// Prints data as YAML.
pub(super) fn yaml(value: &impl Serialize) -> std::io::Result<()> {
    let text = serde_yaml::to_string(value).map_err(std::io::Error::other)?;
    data(&text)
}

/// JSON as text for a file.
pub(super) fn json_text(value: &impl Serialize) -> std::io::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    Ok(render::sanitized_json(&text).into_owned() + "\n")
}

/// Prints a message. Ignores a closed stderr.
pub(super) fn talk(text: &str) {
    let _ = anstream::stderr()
        .lock()
        .write_all(render::log_text(text).as_bytes());
}

/// Prints a message of one line.
pub(super) fn warn(line: &str) {
    talk(&format!("{line}\n"));
}

/// Prints a request for `--verbose`: method, place, status or failure, and milliseconds. The place
/// must not have a query.
pub(super) fn request(method: &str, place: &str, outcome: &Result<u16, &str>, took: Duration) {
    let outcome = match outcome {
        Ok(status) => status.to_string(),
        Err(why) => format!("failed: {}", one_line(why)),
    };
    let took = took.as_millis();
    warn(&format!("{method} {} {outcome} {took} ms", one_line(place)));
}

/// All findings of the files as diagnostics.
pub(super) fn diagnostics(loaded: &Loaded, detail: Detail) -> String {
    render::diagnostics(&loaded.findings, &loaded.documents, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_text_are_escaped_as_the_whole() {
        let commands = [
            "##[error]",
            "\u{1b}[31m",
            "a\nb",
            "travis_fold:start:x",
            "ä",
        ];
        let texts: Vec<String> = (0..PART / 4)
            .map(|index| format!("{} {index}", commands[index % commands.len()]))
            .collect();
        let mut written = Vec::new();
        let mut sanitized = Sanitized::new(&mut written);
        serde_json::to_writer_pretty(&mut sanitized, &texts).unwrap();
        sanitized.end().unwrap();
        assert!(written.len() > 2 * PART);
        assert_eq!(
            String::from_utf8(written).unwrap(),
            json_text(&texts).unwrap()
        );
    }
}
