//! The progress of an apply: a bar on a terminal, otherwise one line for each change.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use super::output::warn;
use crate::render::{Paint, printable};
use ipam_controller::apply::{Event, Outcome};
use ipam_planner::plan::ChangeDocument;

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
        if !std::io::stderr().is_terminal() {
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
