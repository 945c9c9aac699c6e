//! The progress of a migration: a bar on a terminal, otherwise one line for each event.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use jiff::SignedDuration;

use super::super::output::progress;
use crate::render::{Paint, count, printable};
use ipam_controller::migration::{MigrationEvent, Stores};
use ipam_core::model::{NodeName, first_of};
use ipam_migrate::migration::{Direction, NodeRecord, Phase, ScheduleDocument};

/// Nodes whose phase a bar shows.
const SHOWN: usize = 3;

pub(super) struct Progress {
    bar: Option<ProgressBar>,
    schedule: ScheduleDocument,
    done: BTreeSet<NodeName>,
    /// Nodes that are moving, with the step at which they are.
    phases: BTreeMap<NodeName, Phase>,
    /// Lines that were printed about each node since its last step.
    told: BTreeMap<NodeName, BTreeSet<String>>,
    wave: String,
    direction: Direction,
}

impl Progress {
    /// The progress of a migration of which `stores` may show a part as done.
    pub(super) fn new(schedule: &ScheduleDocument, stores: Option<&Stores>) -> Progress {
        let nodes = stores.map(|stores| stores.nodes.values()).into_iter();
        let moved = nodes
            .flatten()
            .map(|stored| &stored.record)
            .filter(|record| record.is_done() && record.direction == Direction::Forward);
        let done: BTreeSet<NodeName> = moved.map(|record| record.node.clone()).collect();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(schedule.moves.len() as u64);
            let style = ProgressStyle::with_template("{bar:25} {pos}/{len} nodes{msg}");
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar.set_position(done.len() as u64);
            bar
        });
        Progress {
            bar,
            schedule: schedule.clone(),
            done,
            phases: BTreeMap::new(),
            told: BTreeMap::new(),
            wave: String::new(),
            direction: Direction::Forward,
        }
    }

    pub(super) fn event(&mut self, event: &MigrationEvent<'_>) {
        let line = self.note(event);
        let is_of_bar = matches!(
            event,
            MigrationEvent::Step { .. } | MigrationEvent::Waiting { .. }
        );
        let Some(bar) = &self.bar else {
            return line.iter().for_each(|line| progress(line));
        };
        if let MigrationEvent::Wave {
            nodes,
            direction: Direction::Back,
            ..
        } = event
        {
            bar.set_length(*nodes as u64);
            bar.set_position(0);
        }
        match event {
            MigrationEvent::Ended { record } if record.failure.is_none() => bar.inc(1),
            _ if is_of_bar => {}
            _ => bar.suspend(|| line.iter().for_each(|line| progress(line))),
        }
        bar.set_message(self.message());
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Keeps what the event says. Returns its line, unless the same was told already.
    fn note(&mut self, event: &MigrationEvent<'_>) -> Option<String> {
        match event {
            MigrationEvent::Wave { direction, .. } => {
                (self.wave, self.direction) = (wave(event)?, *direction);
                self.phases.clear();
                Some(Paint::Bold.on(&self.wave))
            }
            MigrationEvent::Step { record } => {
                self.told.remove(&record.node);
                self.phases.insert(record.node.clone(), record.phase);
                Some(format!("{}  {}", record.node, record.phase))
            }
            MigrationEvent::Waiting { node, phase, why } => {
                self.phases.insert((*node).clone(), *phase);
                let line = format!("{node}  {phase}: waiting: {}", printable(why));
                self.line_if_new(node, line)
            }
            MigrationEvent::EvictionRefused { node, why } => {
                let refused = Paint::Yellow.on("eviction refused");
                let line = format!("{node}  {refused}: {}", printable(why));
                self.line_if_new(node, line)
            }
            MigrationEvent::Ended { record } => Some(self.ended(record)),
            MigrationEvent::WindowClosed { opens } => Some(match opens {
                Some(opens) => {
                    format!("no maintenance window is open: waiting until {opens}")
                }
                None => {
                    "no maintenance window opens any more: change `migration.windows` of the Policy"
                        .to_owned()
                }
            }),
            MigrationEvent::GateFailed { number, why } => {
                let failed = Paint::Red.on(&format!("wave {number} failed and goes back"));
                Some(format!("{failed}: {}", printable(why)))
            }
        }
    }

    fn ended(&mut self, record: &NodeRecord) -> String {
        let node = &record.node;
        self.phases.remove(node);
        self.told.remove(node);
        match (&record.failure, record.direction) {
            (Some(why), _) => {
                let (failed, phase) = (Paint::Red.on("failed"), record.phase);
                format!("{node}  {failed} at {phase}: {}", printable(why))
            }
            (None, Direction::Forward) => {
                self.done.insert(node.clone());
                format!("{node}  {}", Paint::Green.on("moved"))
            }
            (None, Direction::Back) => {
                self.done.remove(node);
                format!("{node}  {}", Paint::Green.on("back"))
            }
        }
    }

    fn line_if_new(&mut self, node: &NodeName, line: String) -> Option<String> {
        let told = self.told.entry(node.clone()).or_default();
        told.insert(line.clone()).then_some(line)
    }

    /// Text of the progress bar after its count.
    fn message(&self) -> String {
        let mut text = format!(", {}", self.wave);
        if self.direction == Direction::Forward {
            let seconds = self.schedule.seconds_left(|node| self.done.contains(node));
            let left = SignedDuration::from_secs(seconds);
            text += &format!(", about {left:#} left");
        }
        if !self.phases.is_empty() {
            let phases = self.phases.iter();
            let phases = phases.map(|(node, phase)| format!("{node} {phase}"));
            text += &format!("; {}", first_of(SHOWN, phases));
        }
        text
    }
}

fn wave(event: &MigrationEvent<'_>) -> Option<String> {
    let MigrationEvent::Wave {
        number,
        of,
        domain,
        nodes,
        direction,
    } = event
    else {
        return None;
    };
    let domain = domain.map_or_else(String::new, |domain| format!(" ({})", printable(domain)));
    let back = match direction {
        Direction::Forward => "",
        Direction::Back => " goes back",
    };
    Some(format!(
        "wave {number} of {of}{domain}{back}: {}",
        count(*nodes, "node")
    ))
}
