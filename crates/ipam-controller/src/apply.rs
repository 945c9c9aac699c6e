//! Sends changes and returns one outcome for each.
//!
//! It decides nothing: it reports a failed write, and never replaces it by another one.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::ports::PortWriter;
use ipam_cluster::{Cluster, Write, WriteError};
use ipam_planner::plan::{Change, Sequence};

/// What became of a change. As text it is the label `outcome` of the metric `writes`.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Outcome {
    /// The server stored it.
    Applied,
    /// The object has changed since the plan; nothing was written.
    Superseded(String),
    /// The server refused it; nothing was written.
    Refused(String),
    /// No answer came, so it may have been written.
    Unknown(String),
    /// Not sent: the apply stopped before it.
    NotTried,
}

/// Progress of an apply.
#[derive(Debug)]
pub enum Event<'e> {
    /// A change has its outcome.
    Finished {
        /// Which change.
        change: &'e Change,
        outcome: &'e Outcome,
    },
}

/// Requests the end of an apply.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// From now on no change is sent; the apply waits for writes in flight.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The outcome for the rest of a sequence after one change of it was not applied.
#[derive(Debug, Default)]
pub struct BlockedSequence(Option<Outcome>);

impl BlockedSequence {
    fn note(&mut self, change: &Change, outcome: &Outcome) {
        if change.sequence() == Sequence::AfterThoseBefore && *outcome != Outcome::Applied {
            let before = || {
                format!(
                    "not sent, because {} before it was not applied",
                    change.target()
                )
            };
            // A change that lost a race is planned again, and so are the later ones.
            self.0 = Some(match outcome {
                Outcome::Superseded(_) => Outcome::Superseded(before()),
                _ => Outcome::Refused(before()),
            });
        }
    }
}

/// Sends the changes, at most `parallelism` at a time, and returns their outcomes in the same
/// order. Stops if the server denies all access or does not answer. A single refused write only
/// blocks the later changes of its sequence.
pub async fn apply<C: Cluster>(
    (cluster, ports): (&C, &impl PortWriter),
    changes: &[Change],
    parallelism: NonZeroUsize,
    stop: &Stop,
    blocked_sequence: &mut BlockedSequence,
    on_event: &mut (dyn FnMut(Event<'_>) + Send),
) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::NotTried; changes.len()];
    let mut waiting = changes.iter().enumerate().peekable();
    let mut in_flight = FuturesUnordered::new();
    loop {
        while in_flight.len() < parallelism.get() && !stop.is_requested() {
            let must_wait = |change: &Change| {
                change.sequence() == Sequence::AfterThoseBefore && !in_flight.is_empty()
            };
            let Some((index, change)) = waiting.next_if(|(_, change)| !must_wait(change)) else {
                break;
            };
            if let (Sequence::AfterThoseBefore, Some(outcome)) =
                (change.sequence(), &blocked_sequence.0)
            {
                outcomes[index] = outcome.clone();
                on_event(Event::Finished {
                    change,
                    outcome: &outcomes[index],
                });
                continue;
            }
            in_flight.push(async move { (index, write(cluster, ports, change).await) });
        }
        let Some((index, result)) = in_flight.next().await else {
            return outcomes;
        };
        if matches!(
            result,
            Err(WriteError::Forbidden(_) | WriteError::Busy(_) | WriteError::Unknown(_))
        ) {
            stop.request();
        }
        outcomes[index] = Outcome::from(result);
        blocked_sequence.note(&changes[index], &outcomes[index]);
        on_event(Event::Finished {
            change: &changes[index],
            outcome: &outcomes[index],
        });
    }
}

async fn write(
    cluster: &impl Cluster,
    ports: &impl PortWriter,
    change: &Change,
) -> Result<(), WriteError> {
    let write = match change {
        Change::Port(change) => return ports.write_pairs(change).await,
        Change::AddressPool(change) => Write::from(&**change),
        Change::Service(change) => Write::from(change),
        Change::PodPool(change) => Write::from(&**change),
        Change::Node(change) => Write::from(&**change),
    };
    cluster.write(&write).await.map(drop)
}

impl From<Result<(), WriteError>> for Outcome {
    fn from(result: Result<(), WriteError>) -> Outcome {
        match result {
            Ok(()) => Outcome::Applied,
            Err(WriteError::Superseded(why)) => Outcome::Superseded(why),
            Err(
                error @ (WriteError::Refused(_) | WriteError::Forbidden(_) | WriteError::Busy(_)),
            ) => Outcome::Refused(error.to_string()),
            Err(WriteError::Unknown(why)) => Outcome::Unknown(why),
        }
    }
}
