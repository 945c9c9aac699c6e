//! The output formats of all commands. Prints data to stdout and messages to stderr. No other module
//! prints, so that foreign text cannot send escape sequences to a terminal or commands to a CI log.
//!
//! Long lists have the first 10 entries and an exact count of the others, or all with
//! `--show-all`. The progress of an apply is a bar on a terminal, otherwise one line for each
//! change.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::render::{self, Detail, PageLimit, Paint, ReportHeader, limit, printable};
use ipam_controller::apply::{Event, Outcome};
use ipam_controller::{Applied, Loaded};
use ipam_core::model::grouped_digits;
use ipam_core::text::one_line;
use ipam_plan::plan::ChangeDocument;

/// How a command prints its result. The parser of its argument allows only what the command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Human,
    Wide,
    Json,
    Yaml,
    Sarif,
    Junit,
    Github,
    /// For an issue, a pull request or a change ticket.
    Markdown,
    /// One file with everything, for a change ticket.
    Html,
}

impl Format {
    pub(super) fn plain() -> impl TypedValueParser<Value = Format> {
        Format::among(&[Format::Human, Format::Json])
    }

    /// Parser for a command that prints a table of objects. The names follow `kubectl get`.
    pub(super) fn table() -> impl TypedValueParser<Value = Format> {
        Format::among(&[Format::Human, Format::Wide, Format::Json, Format::Yaml])
    }

    /// Parser for a command whose result is a report to pass on.
    pub(super) fn report() -> impl TypedValueParser<Value = Format> {
        Format::among(&[Format::Human, Format::Json, Format::Markdown, Format::Html])
    }

    pub(super) fn among(formats: &[Format]) -> impl TypedValueParser<Value = Format> {
        let offered = formats.iter().filter_map(ValueEnum::to_possible_value);
        PossibleValuesParser::new(offered).try_map(|name| Format::from_str(&name, false))
    }
}

/// Strips colours from everything that is printed later.
pub(super) fn without_colours() {
    anstream::ColorChoice::Never.write_global();
}

/// Prints data. Strips colours unless stdout is a terminal that supports them.
pub(super) fn data(text: &str) -> std::io::Result<()> {
    script(&render::log_text(text))
}

/// Prints text for people, with lines as wide as the terminal.
pub(super) fn human(text: &str) -> std::io::Result<()> {
    match render::terminal_width(&std::io::stdout()) {
        Some(width) => data(&render::wrapped(text, width)),
        None => data(text),
    }
}

/// Data without colours, for a reader that is no terminal.
pub(super) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(&render::log_text(text)).to_string()
}

/// Prints a page of Markdown, which fits into a comment, or all of it as one HTML file.
pub(super) fn page(
    format: Format,
    title: &str,
    header: &ReportHeader,
    detail: Detail,
    markdown: impl Fn(Detail, PageLimit) -> String,
) -> std::io::Result<()> {
    data(&match format {
        Format::Html => render::report(title, header, &markdown(Detail::Full, PageLimit::REPORT)),
        _ => markdown(detail, PageLimit::COMMENT),
    })
}

/// Prints text of `cilium-ipam` itself unchanged, such as a shell script.
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

    /// Writes the end of the last line.
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
    let text = match render::terminal_width(&std::io::stderr()) {
        Some(width) => render::wrapped(text, width),
        None => text.into(),
    };
    let _ = anstream::stderr()
        .lock()
        .write_all(render::log_text(&text).as_bytes());
}

/// Whether [`progress`] prints nothing.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Silences progress, for `--quiet`.
pub(super) fn without_progress() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Prints a line about what happens, or what to do next.
pub(super) fn progress(line: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        warn(line);
    }
}

/// Prints a message of one line.
pub(super) fn warn(line: &str) {
    talk(&format!("{line}\n"));
}

/// Prints what a person should know, on one line.
pub(super) fn note(text: &str) {
    warn(&format!(
        "{}: {}",
        Paint::Yellow.on("note"),
        printable(text)
    ));
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

/// All findings about the files, as diagnostics for a terminal.
pub(super) fn diagnostics(loaded: &Loaded, detail: Detail) -> String {
    render::diagnostics(&loaded.findings, &loaded.documents, detail)
}

/// The first entries of a list.
#[derive(Debug)]
pub(super) struct Capped<T> {
    pub(super) shown: Vec<T>,
    /// Number of further entries.
    pub(super) hidden: usize,
}

impl<T> Capped<T> {
    pub(super) fn new(entries: impl IntoIterator<Item = T>, detail: Detail) -> Capped<T> {
        let mut entries = entries.into_iter();
        let shown = entries.by_ref().take(limit(detail)).collect();
        Capped {
            shown,
            hidden: entries.count(),
        }
    }

    /// A line about the further entries; `None` if there are none.
    pub(super) fn more(&self) -> Option<String> {
        (self.hidden > 0).then(|| {
            format!(
                "… and {} more; --show-all shows all",
                grouped_digits(self.hidden)
            )
        })
    }
}

/// Why a change failed; `None` if it was applied or not sent.
pub(super) fn fault(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Applied | Outcome::NotTried => None,
        Outcome::Superseded(why) => Some(format!(
            "changed concurrently, will be planned again: {why}"
        )),
        Outcome::Refused(why) | Outcome::NotSent(why) | Outcome::Unknown(why) => Some(why.clone()),
    }
}

/// The effect of a change that was applied, and its value: what was written, or else taken away.
pub(super) fn written(change: &ChangeDocument) -> (&'static str, String) {
    match change.comes() {
        after if after.is_empty() => ("taken away", change.before.join(" ")),
        after => ("written", after),
    }
}

pub(super) enum Progress {
    Bar(ProgressBar),
    Lines,
}

impl Progress {
    pub(super) fn new(changes: usize) -> Progress {
        if !std::io::stderr().is_terminal() || IS_QUIET.load(Ordering::Relaxed) {
            return Progress::Lines;
        }
        let bar = ProgressBar::new(changes as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} changes, {eta} left")
        {
            bar.set_style(style);
        }
        Progress::Bar(bar)
    }

    pub(super) fn event(&mut self, event: &Event<'_>) {
        let Event::Finished { change, outcome } = event;
        let target = change.target();
        let (action, value) = written(&ChangeDocument::from(*change));
        let line = match fault(outcome) {
            None => {
                let line = format!(
                    "{} {target}  {}",
                    Paint::Green.on(action),
                    printable(&value)
                );
                line.trim_end().to_owned()
            }
            Some(why) => format!("{} {target}  {}", Paint::Red.on("failed"), printable(&why)),
        };
        match (self, outcome) {
            (Progress::Lines, Outcome::Applied) => progress(&line),
            (Progress::Lines, _) => warn(&line),
            (Progress::Bar(bar), Outcome::Applied) => bar.inc(1),
            (Progress::Bar(bar), _) => bar.suspend(|| warn(&line)),
        }
    }

    /// Every change that was tried, with its outcome.
    pub(super) fn events(&mut self, applied: &Applied) {
        for (change, outcome) in &applied.outcomes {
            if *outcome != Outcome::NotTried {
                self.event(&Event::Finished { change, outcome });
            }
        }
    }

    pub(super) fn finish(&self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
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
