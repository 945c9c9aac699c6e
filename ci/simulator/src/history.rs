//! One history: what happens, step by step, and what must hold after each.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

use fastrand::Rng;
use jiff::SignedDuration;

use crate::applier::{Applier, Ended, Speed, UndoFiles, plan_now};
use crate::cluster::{Clock, Disturbance, Faults, SimClient, SimCluster};
use crate::figures::adds_up;
use crate::sabotage::{Sabotage, Saboteur};
use crate::setup::{Directory, Setup, Setups, node};
use ipam_plan::plan::{BlockedReason, NodeObstacle, Plan};

/// Steps in which things go wrong.
const STEPS: usize = 250;

/// Applies at the same time.
const APPLIERS: usize = 3;

/// Nodes that join in the course of a history, those of its beginning included.
const NODES: usize = 7;

/// Applies in a row after which a calm cluster must match the files.
const SETTLING: usize = 4;

/// Counts of histories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Applies that came to an end.
    pub applies: usize,
    /// Changes that those found in the cluster in the end.
    pub changes: usize,
    /// Undo plans that came to an end.
    pub undos: usize,
    /// Changes that those undid.
    pub undone: usize,
    /// Applies and undo plans that crashed.
    pub crashes: usize,
    /// Steps.
    pub steps: usize,
}

adds_up!(Figures {
    applies,
    changes,
    undos,
    undone,
    crashes,
    steps
});

/// A history that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// The step after which it was seen.
    pub step: usize,
    /// What is wrong.
    pub what: Vec<String>,
    /// All that happened, where that was asked for.
    pub log: Vec<String>,
}

/// Whether a failure tells all that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// It does.
    Kept,
    /// It does not.
    None,
}

/// What an applier does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Apply,
    Undo,
}

struct History<'h> {
    rng: Rng,
    setup: &'h Setup,
    cluster: SimCluster,
    sabotage: Sabotage,
    appliers: Vec<(Kind, Applier<'h>)>,
    undo_files: UndoFiles,
    joined: usize,
    /// Steps of a hundred in which a disturbance comes.
    unrest: u32,
    figures: Figures,
}

/// Runs the history of a seed.
///
/// # Errors
/// It went wrong.
pub fn run(seed: u64, setups: &Setups, sabotage: Sabotage, log: Log) -> Result<Figures, Failure> {
    let mut rng = Rng::with_seed(seed);
    let setup = setups.choose(&mut rng);
    let cluster = SimCluster::new(
        rng.u64(..),
        sabotage.provoked_by(faults(&mut rng)),
        setup.objects(),
    );
    if log == Log::Kept {
        cluster.keep_log();
    }
    let joined = rng.usize(2..=NODES);
    (0..joined).for_each(|index| cluster.join(node(index, &mut rng)));
    let unrest = if rng.bool() { 6 } else { rng.u32(6..20) };
    let (appliers, figures) = (Vec::new(), Figures::default());
    let mut history = History {
        rng,
        setup,
        cluster: cluster.clone(),
        sabotage,
        appliers,
        undo_files: UndoFiles::default(),
        joined,
        unrest,
        figures,
    };
    let failure = |step: usize, what: Vec<String>| Failure {
        seed,
        step,
        what,
        log: cluster.log(),
    };
    for step in 0..STEPS {
        history.step();
        history.figures.steps += 1;
        let violations = cluster.violations();
        if !violations.is_empty() {
            return Err(failure(step, violations));
        }
    }
    history.settle().map_err(|what| failure(STEPS, what))?;
    let violations = cluster.violations();
    if violations.is_empty() {
        Ok(history.figures)
    } else {
        Err(failure(STEPS, violations))
    }
}

/// The first of these seeds that shows a broken rule.
#[must_use]
pub fn first_failure(
    sabotage: Sabotage,
    setups: &Setups,
    mut seeds: Range<u64>,
) -> Option<Failure> {
    seeds.find_map(|seed| run(seed, setups, sabotage, Log::None).err())
}

/// Some histories are calm in one way, some in another, and some in none.
fn faults(rng: &mut Rng) -> Faults {
    let mut often = |most: u32| if rng.bool() { rng.u32(..most) } else { 0 };
    Faults {
        lost_answer: often(150),
        lost_request: often(100),
        late_landing: often(150),
        conflict: often(150),
        stale_list: often(200),
        failed_list: often(60),
        late_collection: often(1000),
        ..Faults::default()
    }
}

impl<'h> History<'h> {
    fn step(&mut self) {
        match self.rng.u32(..100) {
            0..4 if self.appliers.len() < APPLIERS => self.start(),
            4..5 if !self.appliers.is_empty() => {
                let crashed = self.rng.usize(..self.appliers.len());
                drop(self.appliers.swap_remove(crashed));
                self.figures.crashes += 1;
            }
            5..7 if !self.appliers.is_empty() => {
                let paused = self.rng.usize(..self.appliers.len());
                self.appliers[paused].1.paused = self.rng.u32(5..80);
            }
            7..9 if self.joined < NODES => {
                let node = node(self.joined, &mut self.rng);
                self.cluster.join(node);
                self.joined += 1;
            }
            9..10 => self
                .cluster
                .advance(SignedDuration::from_secs(self.rng.i64(1..400))),
            98.. if self.appliers.len() < APPLIERS => self.undo(),
            above if above < 10 + self.unrest => {
                self.cluster
                    .disturb(Disturbance::ALL[self.rng.usize(..Disturbance::ALL.len())]);
            }
            _ if self.appliers.is_empty() => self.start(),
            _ => self.let_one_run(),
        }
    }

    fn start(&mut self) {
        let directory = self.any_directory();
        let speed = self.any_speed();
        self.apply(directory, speed);
    }

    fn apply(&mut self, directory: &'h Directory, speed: Speed) {
        let client = self.client(directory);
        let files = self.undo_files.clone();
        let applier = Applier::start(client, &directory.loaded, speed, files);
        self.appliers.push((Kind::Apply, applier));
    }

    /// Undoes an apply of any time, by the files of any directory.
    fn undo(&mut self) {
        let Some(saved) = self.undo_files.choose(&mut self.rng) else {
            return;
        };
        let directory = self.any_directory();
        let speed = self.any_speed();
        let client = self.sabotaged(self.cluster.client(Arc::default(), Clock::Steps).undoing());
        let applier = Applier::undo(client, &directory.loaded, saved, speed);
        self.appliers.push((Kind::Undo, applier));
    }

    fn any_directory(&mut self) -> &'h Directory {
        let setup = self.setup;
        &setup.directories[self.rng.usize(..setup.directories.len())]
    }

    fn any_speed(&mut self) -> Speed {
        let mut up_to =
            |most: usize| NonZeroUsize::new(self.rng.usize(1..=most)).unwrap_or(NonZeroUsize::MIN);
        Speed {
            batch: up_to(NODES),
            parallelism: up_to(3),
        }
    }

    fn client(&self, directory: &Directory) -> Saboteur {
        self.sabotaged(self.cluster.client(directory.pins.clone(), Clock::Steps))
    }

    fn sabotaged(&self, client: SimClient) -> Saboteur {
        Saboteur {
            client,
            cluster: self.cluster.clone(),
            sabotage: self.sabotage,
        }
    }

    fn let_one_run(&mut self) {
        let index = self.rng.usize(..self.appliers.len());
        for (other, (_, applier)) in self.appliers.iter_mut().enumerate() {
            applier.paused = if other == index {
                applier.paused
            } else {
                applier.paused.saturating_sub(1)
            };
        }
        let (kind, applier) = &mut self.appliers[index];
        if applier.paused > 0 {
            applier.paused -= 1;
        } else if let Poll::Ready(ended) = applier.step() {
            let kind = *kind;
            self.appliers.swap_remove(index);
            self.note(kind, ended);
        }
    }

    fn note(&mut self, kind: Kind, ended: Ended) {
        let figures = &mut self.figures;
        let (ends, changed) = match kind {
            Kind::Apply => (&mut figures.applies, &mut figures.changes),
            Kind::Undo => (&mut figures.undos, &mut figures.undone),
        };
        if let Ended::Applied(changes) = ended {
            *ends += 1;
            *changed += changes;
        }
    }

    /// Without further faults, the running appliers end, and a few more applies reach the desired
    /// state.
    fn settle(&mut self) -> Result<(), Vec<String>> {
        self.cluster.disable_faults();
        while !self.appliers.is_empty() {
            self.let_one_run();
        }
        self.cluster.all_report();
        let directory = &self.setup.directories[0];
        for settled_by in 0..=SETTLING {
            self.cluster.advance(SignedDuration::from_hours(1));
            let plan = plan_now(&self.client(directory), &directory.loaded);
            let (plan, broken) =
                plan.ok_or_else(|| vec!["a calm cluster cannot be read".to_owned()])?;
            if !broken.is_empty() {
                return Err(broken.iter().map(ToString::to_string).collect());
            }
            // Even without changes, the first apply quarantines the blocks of abandoned claims.
            if plan.changes.is_empty() && settled_by > 0 {
                return settled(&plan);
            }
            let speed = Speed {
                batch: NonZeroUsize::MIN,
                parallelism: NonZeroUsize::MIN,
            };
            self.apply(directory, speed);
            while !self.appliers.is_empty() {
                self.let_one_run();
            }
        }
        Err(vec![format!(
            "it does not settle within {SETTLING} applies"
        )])
    }
}

/// Changes that stay blocked must not be blocked by abandoned claims or duplicate blocks.
fn settled(plan: &Plan) -> Result<(), Vec<String>> {
    let is_stuck = |reason: &BlockedReason| {
        matches!(
            reason,
            BlockedReason::Node(NodeObstacle::Claimed(..) | NodeObstacle::DuplicateBlock(..))
        )
    };
    let stuck = plan
        .blocked
        .iter()
        .filter(|blocked| is_stuck(&blocked.reason));
    let stuck: Vec<String> = stuck
        .map(|blocked| format!("{}: {}", blocked.target, blocked.reason))
        .collect();
    if stuck.is_empty() { Ok(()) } else { Err(stuck) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_histories_and_equal_seeds_give_equal_ones() {
        let setups = Setups::new();
        let run_all = || {
            (0..150)
                .map(|seed| run(seed, &setups, Sabotage::None, Log::None))
                .collect::<Vec<_>>()
        };
        let (first, second) = (run_all(), run_all());
        assert_eq!(first, second);
        let failures: Vec<_> = first.iter().filter(|outcome| outcome.is_err()).collect();
        assert!(failures.is_empty(), "{failures:#?}");
    }

    #[test]
    fn broken_rules_are_noticed() {
        let setups = Setups::new();
        // The others need more seeds than a build without optimisations has time for; `prove
        // simulate` tries them all.
        for (sabotage, seeds) in [
            (Sabotage::BlindClaims, 0..1_000),
            (Sabotage::NoClaims, 0..1_000),
            (Sabotage::UnguardedVersion, 0..1_000),
            (Sabotage::UnguardedDeletion, 0..1_000),
        ] {
            assert!(
                first_failure(sabotage, &setups, seeds).is_some(),
                "{sabotage:?}"
            );
        }
    }
}
