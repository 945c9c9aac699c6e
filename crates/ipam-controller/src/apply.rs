//! Sends changes and returns one outcome for each: it reports a failed write, and never replaces
//! it by another one.
//!
//! Objects that changes fill are created before their blocks are claimed: an existing object has a
//! version, and a version ends a claim. The created objects are empty, so a create may arrive
//! late, or twice. Allowed address pairs of VM ports need no claims: Neutron guards each write by
//! the revision of the port.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::concurrency::ConcurrencyLimit;
use ipam_cluster::{Cluster, Write, WriteError};
use ipam_core::model::NodeName;
use ipam_plan::plan::{Change, PortChange, Sequence};

/// What became of a change. As text it is the label `outcome` of the metric `writes`.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Outcome {
    /// The server stored the change.
    Applied,
    /// The object has changed since the plan; nothing was written.
    Superseded(String),
    /// The server refused the change; nothing was written.
    Refused(String),
    /// No answer came, so the change may have been written.
    Unknown(String),
    /// Not sent: a change that it depends on was not applied.
    NotSent(String),
    /// Not sent: the apply stopped before this change.
    NotTried,
}

/// Progress of an apply.
#[derive(Debug)]
pub enum Event<'e> {
    /// The outcome of a change is known.
    Finished {
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

/// Changes that were not applied and on which later changes depend.
#[derive(Debug, Default)]
pub struct Unapplied {
    /// The outcome for the rest of the sequence.
    sequence: Option<Outcome>,
    /// By node, the outcome of ports that wait for a block of the node.
    nodes: BTreeMap<NodeName, Outcome>,
}

impl Unapplied {
    pub(super) fn note(&mut self, change: &Change, outcome: &Outcome) {
        if *outcome == Outcome::Applied {
            return;
        }
        let why = || {
            format!(
                "not sent, because {} before it was not applied",
                change.target()
            )
        };
        // A change that lost a race is planned again, and so are the changes that depend on it.
        let dependent = || match outcome {
            Outcome::Superseded(_) => Outcome::Superseded(why()),
            _ => Outcome::NotSent(why()),
        };
        if change.sequence() == Sequence::AfterThoseBefore {
            self.sequence = Some(dependent());
        } else if let Some(node) = change.as_node() {
            self.nodes.insert(node.node.clone(), dependent());
        }
    }

    /// The changes of nodes that are neither applied nor due.
    pub(super) fn beside(due: &[(usize, Change)], outcomes: &[(Change, Outcome)]) -> Unapplied {
        let due: BTreeSet<usize> = due.iter().map(|(index, _)| *index).collect();
        let mut unapplied = Unapplied::default();
        for (index, (change, outcome)) in outcomes.iter().enumerate() {
            if change.as_node().is_some() && !due.contains(&index) {
                unapplied.note(change, outcome);
            }
        }
        unapplied
    }

    fn outcome_for(&self, change: &Change) -> Option<&Outcome> {
        if change.sequence() == Sequence::AfterThoseBefore {
            return self.sequence.as_ref();
        }
        let port = change.as_port().filter(|_| awaits_a_block(change))?;
        self.nodes.get(&port.node)
    }
}

/// Whether a port comes to allow a block that another change gives to its node.
fn awaits_a_block(change: &Change) -> bool {
    change
        .as_port()
        .is_some_and(|port| !port.awaited.is_empty())
}

/// Sends the changes, as many at a time as `limit` says, and returns their outcomes in the same
/// order. Stops if the server denies all access or does not answer. A single refused write only
/// blocks the later changes that depend on it.
pub async fn apply<C: Cluster>(
    (cluster, ports): (&C, &impl PortWriter),
    changes: &[Change],
    limit: &mut ConcurrencyLimit,
    stop: &Stop,
    unapplied: &mut Unapplied,
    on_event: &mut (dyn FnMut(Event<'_>) + Send),
) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::NotTried; changes.len()];
    let mut waiting = changes.iter().enumerate().peekable();
    let mut in_flight = FuturesUnordered::new();
    let mut nodes_in_flight = 0_usize;
    limit.begin(Instant::now());
    loop {
        while in_flight.len() < limit.now().get() && !stop.is_requested() {
            let must_wait = |change: &Change| match change.sequence() {
                Sequence::AfterThoseBefore => !in_flight.is_empty(),
                Sequence::Any => nodes_in_flight > 0 && awaits_a_block(change),
            };
            let Some((index, change)) = waiting.next_if(|(_, change)| !must_wait(change)) else {
                break;
            };
            if let Some(outcome) = unapplied.outcome_for(change) {
                outcomes[index] = outcome.clone();
                on_event(Event::Finished {
                    change,
                    outcome: &outcomes[index],
                });
                continue;
            }
            nodes_in_flight += usize::from(change.as_node().is_some());
            in_flight.push(async move { (index, write(cluster, ports, change).await) });
        }
        let Some((index, result)) = in_flight.next().await else {
            return outcomes;
        };
        limit.answered(Instant::now());
        if matches!(
            result,
            Err(WriteError::Forbidden(_) | WriteError::Busy(_) | WriteError::Unknown(_))
        ) {
            stop.request();
        }
        nodes_in_flight -= usize::from(changes[index].as_node().is_some());
        outcomes[index] = Outcome::from(result);
        unapplied.note(&changes[index], &outcomes[index]);
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

/// Writes allowed address pairs of ports.
pub trait PortWriter: Sync {
    /// Replaces the pairs of one port if it still has the revision in `change`.
    ///
    /// # Errors
    /// Fails as a write to the cluster does; `Superseded` if the port has changed or is gone.
    fn write_pairs(
        &self,
        change: &PortChange,
    ) -> impl Future<Output = Result<(), WriteError>> + Send;
}

/// A port writer without OpenStack: refuses every write.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPorts;

impl PortWriter for NoPorts {
    async fn write_pairs(&self, _: &PortChange) -> Result<(), WriteError> {
        Err(WriteError::Refused(
            "no OpenStack is configured to write ports to".to_owned(),
        ))
    }
}

/// A batch whose objects exist. Changes are with their index in the plan.
pub(super) struct Prepared {
    pub(super) ready: Vec<(usize, Change)>,
    /// Another process created the object, or may have: these changes are planned again.
    pub(super) superseded: Vec<(usize, String)>,
    /// The server refused to create the object.
    pub(super) refused: Vec<(usize, String)>,
}

pub(super) async fn prepare<C: Cluster>(
    cluster: &C,
    batch: &[(usize, Change)],
    parallelism: NonZeroUsize,
) -> Prepared {
    let mut prepared = Prepared {
        ready: Vec::new(),
        superseded: Vec::new(),
        refused: Vec::new(),
    };
    let mut writes = Vec::new();
    for (index, change) in batch {
        match change
            .as_node()
            .and_then(|node| Some((node, Write::preparing(node)?)))
        {
            Some((node, write)) => writes.push((*index, node, write)),
            None => prepared.ready.push((*index, change.clone())),
        }
    }
    let mut waiting = writes.into_iter();
    let mut in_flight = FuturesUnordered::new();
    loop {
        let free = parallelism.get().saturating_sub(in_flight.len());
        for (index, node, write) in waiting.by_ref().take(free) {
            in_flight.push(async move { (index, node, cluster.write(&write).await) });
        }
        let Some((index, node, answer)) = in_flight.next().await else {
            break;
        };
        match answer {
            Ok(written) => prepared.ready.push((
                index,
                Change::Node(Box::new(node.prepared(written.version))),
            )),
            Err(error @ (WriteError::Superseded(_) | WriteError::Unknown(_))) => {
                prepared.superseded.push((index, error.to_string()));
            }
            Err(error) => prepared.refused.push((index, error.to_string())),
        }
    }
    prepared.ready.sort_by_key(|(index, _)| *index);
    prepared
}
