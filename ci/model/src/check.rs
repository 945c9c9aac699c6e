//! Runs a check and says what came out. Knows no rule of the protocol.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use anyhow::{Result, anyhow, ensure};
use stateright::{Checker, HasDiscoveries, Model};

use crate::bounds::Bounds;
use crate::mutation::Mutation;
use crate::protocol::{PROGRESSES, Protocol, SERVED, SERVED_AGAIN, UNIQUE};
use crate::trace;

/// What a check has found.
#[derive(Clone, Debug)]
pub struct Report {
    /// States that were reached, each as often as it was.
    pub states: usize,
    /// States that differ by more than which applier is which.
    pub unique_states: usize,
    /// Steps of the longest path; with a violation, of the shortest that leads to one.
    pub depth: usize,
    /// The steps to a violation.
    pub violation: Option<String>,
}

/// Checks the protocol, whole or without one of its rules.
///
/// # Errors
/// Decisions of the program that the model does not understand, and bounds within which too little
/// ever happens.
pub fn check(bounds: &Bounds, mutation: Option<Mutation>) -> Result<Report> {
    if mutation.is_some() {
        return nearest(bounds, mutation);
    }
    let report = exhaustive(bounds)?;
    match report.violation {
        None => Ok(report),
        // What was found lies somewhere deep.
        Some(_) => nearest(bounds, None),
    }
}

/// Every state, in whatever order takes the least memory.
fn exhaustive(bounds: &Bounds) -> Result<Report> {
    let threads = available_parallelism().map_or(1, NonZeroUsize::get);
    let checker = Protocol::new(*bounds, None)?
        .checker()
        .threads(threads)
        .symmetry();
    let checker = checker
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_dfs()
        .join();
    let report = report(&checker)?;
    let is_reached = [SERVED, SERVED_AGAIN]
        .iter()
        .all(|property| checker.discovery(property).is_some());
    ensure!(
        report.violation.is_some() || is_reached,
        "too little ever happens within {bounds}"
    );
    Ok(report)
}

/// The nearest states first; a single thread, or they come out of order.
fn nearest(bounds: &Bounds, mutation: Option<Mutation>) -> Result<Report> {
    let checker = Protocol::new(*bounds, mutation)?
        .checker()
        .finish_when(HasDiscoveries::AnyFailures);
    report(&checker.spawn_bfs().join())
}

fn report(checker: &impl Checker<Protocol>) -> Result<Report> {
    let protocol = checker.model();
    if let Some(error) = protocol.decisions.failure() {
        return Err(anyhow!(
            "the program has answered what the model does not understand: {error:#}"
        ));
    }
    let mut discoveries = checker.discoveries();
    let path = discoveries
        .remove(UNIQUE)
        .or_else(|| discoveries.remove(PROGRESSES));
    let steps = path.map(stateright::Path::into_vec);
    Ok(Report {
        states: checker.state_count(),
        unique_states: checker.unique_state_count(),
        depth: steps.as_ref().map_or(checker.max_depth(), Vec::len) - 1,
        violation: steps.map(|steps| trace::text(protocol, &steps)),
    })
}
