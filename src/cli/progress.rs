//! How far an apply is: a bar on a terminal, a line for each change otherwise.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use super::output::warn;
use crate::apply::{Event, Outcome};
use crate::render::{Paint, printable};

/// Takes the events of an apply.
pub(super) enum Progress {
    Bar(ProgressBar),
    Lines,
}

impl Progress {
    pub(super) fn new(changes: usize) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress::Lines;
        }
        let bar = ProgressBar::new(changes as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} changes, {eta} left") {
            bar.set_style(style);
        }
        Progress::Bar(bar)
    }

    pub(super) fn event(&mut self, event: &Event<'_>) {
        let Event::Finished { change, outcome } = event;
        let fault = match outcome {
            Outcome::Applied | Outcome::NotTried => None,
            Outcome::Superseded(why) => Some(format!("changed meanwhile, is planned again: {why}")),
            Outcome::Refused(why) | Outcome::Unknown(why) => Some(why.clone()),
        };
        let blocks: Vec<String> = change.after.iter().map(ToString::to_string).collect();
        let line = match fault {
            None => format!("{} Node/{}  {}", Paint::Green.on("written"), change.node, blocks.join(" ")),
            Some(why) => format!("{} Node/{}  {}", Paint::Red.on("failed"), change.node, printable(&why)),
        };
        match (self, outcome) {
            (Progress::Lines, _) => warn(&line),
            (Progress::Bar(bar), Outcome::Applied) => bar.inc(1),
            (Progress::Bar(bar), _) => bar.suspend(|| warn(&line)),
        }
    }

    pub(super) fn finish(&self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
