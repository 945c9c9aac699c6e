//! All checks together, and the line that says how they ended.

use std::fmt;
use std::time::Instant;

use anyhow::Result;

use crate::bounds::{Bounds, Moves, Progress};
use crate::check::{Report, check};
use crate::mutation::mutations;

/// The largest world; the line tells its size.
const LARGEST: Bounds = Bounds {
    appliers: 3,
    nodes: 3,
    disturbances: 2,
    ..Bounds::SMALL
};

/// Worlds in which no block may ever be given twice.
pub const WORLDS: [Bounds; 7] = [
    LARGEST,
    Bounds {
        disturbances: 4,
        moves: Moves::Planned,
        ..Bounds::SMALL
    },
    Bounds {
        nodes: 3,
        blocks: 3,
        disturbances: 1,
        batch: 1,
        ..Bounds::SMALL
    },
    Bounds {
        disturbances: 3,
        batch: 1,
        moves: Moves::Planned,
        ..Bounds::SMALL
    },
    Bounds {
        nodes: 3,
        disturbances: 1,
        progress: Progress::Checked,
        ..Bounds::SMALL
    },
    Bounds::SMALL_CREATION,
    Bounds {
        appliers: 3,
        nodes: 3,
        disturbances: 1,
        ..Bounds::SMALL_CREATION
    },
];

/// How all checks ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Worlds that were checked, each to its last state.
    pub worlds: usize,
    /// States of all of them.
    pub states: usize,
    /// Worlds in which a violation was found.
    pub violations: usize,
    /// Rules that were taken away, one at a time.
    pub mutations: usize,
    /// Those that were missed.
    pub caught: usize,
}

/// Whether the protocol is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No violation, and each rule is needed.
    Holds,
    /// A violation, or a rule that nothing shows to be needed.
    Fails,
}

impl Proof {
    /// What follows from it.
    pub fn verdict(&self) -> Verdict {
        if self.violations == 0 && self.caught == self.mutations {
            Verdict::Holds
        } else {
            Verdict::Fails
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bounds {
            appliers,
            nodes,
            blocks,
            disturbances,
            ..
        } = LARGEST;
        let Proof {
            worlds,
            states,
            violations,
            mutations,
            caught,
        } = self;
        write!(
            f,
            "model: appliers={appliers} nodes={nodes} blocks={blocks} disturbances={disturbances} "
        )?;
        write!(
            f,
            "worlds={worlds} states={states} mutations={mutations} caught={caught} duplicates={violations}"
        )
    }
}

/// Checks every world, and every mutation within its bounds. `tell` hears of each.
///
/// # Errors
/// Those of [`check`].
pub fn prove(tell: &mut dyn FnMut(&str)) -> Result<Proof> {
    let mut proof = Proof {
        worlds: 0,
        states: 0,
        violations: 0,
        mutations: 0,
        caught: 0,
    };
    for mutation in mutations() {
        let bounds = mutation.bounds();
        let report = told(
            tell,
            &format!("without a rule, {mutation:?}: {bounds}"),
            || check(&bounds, Some(mutation)),
        )?;
        proof.mutations += 1;
        proof.caught += usize::from(report.violation.is_some());
    }
    for bounds in WORLDS {
        let report = told(tell, &format!("whole: {bounds}"), || check(&bounds, None))?;
        proof.worlds += 1;
        proof.states += report.unique_states;
        if let Some(violation) = report.violation {
            proof.violations += 1;
            tell(&violation);
        }
    }
    Ok(proof)
}

fn told(
    tell: &mut dyn FnMut(&str),
    what: &str,
    check: impl FnOnce() -> Result<Report>,
) -> Result<Report> {
    let begin = Instant::now();
    let report = check()?;
    let Report {
        states,
        unique_states,
        depth,
        violation,
    } = &report;
    let outcome = if violation.is_some() {
        "violated"
    } else {
        "no violation"
    };
    let seconds = begin.elapsed().as_secs_f64();
    tell(&format!(
        "{what}: {outcome}, states={unique_states} of {states} depth={depth} seconds={seconds:.1}"
    ));
    Ok(report)
}
