//! Executes changes and says what became of each. Decides nothing: a write that does not go through
//! is reported, never replaced by another one.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use ipam_cluster::{Cluster, Write, WriteError, Written};
use ipam_planner::plan::{Change, Sequence};

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server has it.
    Applied,
    /// The node had changed since it was planned; nothing was written.
    Superseded(String),
    /// The server refused; nothing was written.
    Refused(String),
    /// No answer came; it may have been written or not.
    Unknown(String),
    /// It was not sent, because applying stopped before.
    NotTried,
}

/// Something happened while applying.
#[derive(Debug)]
pub enum Event<'e> {
    /// A change has its outcome.
    Finished {
        /// The change.
        change: &'e Change,
        /// Its outcome.
        outcome: &'e Outcome,
    },
}

/// Asks an apply to start nothing further.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// No further change is sent from now on; those under way are waited for.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether that was asked.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What holds back the changes that are sent in their order: one of them that was not applied.
#[derive(Debug, Default)]
pub struct HeldBack(Option<Outcome>);

impl HeldBack {
    fn note(&mut self, change: &Change, outcome: &Outcome) {
        if change.sequence() == Sequence::AfterThoseBefore && *outcome != Outcome::Applied {
            let before = || {
                format!(
                    "not sent, because {} before it was not applied",
                    change.target()
                )
            };
            // One that lost a race is planned again, and so are those behind it.
            self.0 = Some(match outcome {
                Outcome::Superseded(_) => Outcome::Superseded(before()),
                _ => Outcome::Refused(before()),
            });
        }
    }
}

/// Sends the changes, at most `parallelism` at a time, and gives one outcome for each in their
/// order. A server that refuses us altogether, or does not answer, stops it; a single refused write
/// does not, but holds back those that come in order behind it.
pub async fn apply<C: Cluster>(
    cluster: &C,
    changes: &[Change],
    parallelism: NonZeroUsize,
    stop: &Stop,
    held_back: &mut HeldBack,
    on_event: &mut (dyn FnMut(Event<'_>) + Send),
) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::NotTried; changes.len()];
    let mut waiting = changes.iter().enumerate().peekable();
    let mut under_way = FuturesUnordered::new();
    loop {
        while under_way.len() < parallelism.get() && !stop.is_requested() {
            let must_wait = |change: &Change| {
                change.sequence() == Sequence::AfterThoseBefore && !under_way.is_empty()
            };
            let Some((index, change)) = waiting.next_if(|(_, change)| !must_wait(change)) else {
                break;
            };
            if let (Sequence::AfterThoseBefore, Some(outcome)) = (change.sequence(), &held_back.0) {
                outcomes[index] = outcome.clone();
                on_event(Event::Finished {
                    change,
                    outcome: &outcomes[index],
                });
                continue;
            }
            under_way.push(async move { (index, cluster.write(&Write::from(change)).await) });
        }
        let Some((index, result)) = under_way.next().await else {
            return outcomes;
        };
        if matches!(
            result,
            Err(WriteError::Forbidden(_) | WriteError::Busy(_) | WriteError::Unknown(_))
        ) {
            stop.request();
        }
        outcomes[index] = Outcome::from(result);
        held_back.note(&changes[index], &outcomes[index]);
        on_event(Event::Finished {
            change: &changes[index],
            outcome: &outcomes[index],
        });
    }
}

impl From<Result<Written, WriteError>> for Outcome {
    fn from(result: Result<Written, WriteError>) -> Outcome {
        match result {
            Ok(Written { version: _ }) => Outcome::Applied,
            Err(WriteError::Superseded(why)) => Outcome::Superseded(why),
            Err(
                error @ (WriteError::Refused(_) | WriteError::Forbidden(_) | WriteError::Busy(_)),
            ) => Outcome::Refused(error.to_string()),
            Err(WriteError::Unknown(why)) => Outcome::Unknown(why),
        }
    }
}
