//! Creates the objects that changes fill, before their blocks are claimed: an existing object has a
//! version, and a version ends a claim.
//!
//! The created objects are empty, so a create may arrive late, or twice.

use std::num::NonZeroUsize;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use ipam_cluster::{Cluster, Write, WriteError};
use ipam_planner::plan::Change;

/// A batch whose objects exist. Changes are with their index in the plan.
pub(super) struct Prepared {
    pub(super) ready: Vec<(usize, Change)>,
    /// Another process created the object, or may have: these are planned again.
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
