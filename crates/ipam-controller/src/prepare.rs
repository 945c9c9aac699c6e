//! Makes the objects that changes fill, before anything is claimed: an object that is there has a
//! version, and a version ends a claim. What is made is empty, so it may land late, and twice.

use std::num::NonZeroUsize;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use ipam_cluster::{Cluster, Write, WriteError};
use ipam_planner::plan::Change;

/// A batch whose objects are there.
pub(super) struct Prepared {
    /// Places and changes.
    pub(super) ready: Vec<(usize, Change)>,
    /// Those whose object somebody else made meanwhile, or may have made: they are planned again.
    pub(super) beaten: Vec<(usize, String)>,
    /// Those whose object the server does not let us make.
    pub(super) refused: Vec<(usize, String)>,
}

pub(super) async fn prepare<C: Cluster>(
    cluster: &C,
    batch: &[(usize, Change)],
    parallelism: NonZeroUsize,
) -> Prepared {
    let mut prepared = Prepared {
        ready: Vec::new(),
        beaten: Vec::new(),
        refused: Vec::new(),
    };
    let mut writes = Vec::new();
    for (place, change) in batch {
        match change
            .as_node()
            .and_then(|node| Some((node, Write::preparing(node)?)))
        {
            Some((node, write)) => writes.push((*place, node, write)),
            None => prepared.ready.push((*place, change.clone())),
        }
    }
    let mut waiting = writes.into_iter();
    let mut under_way = FuturesUnordered::new();
    loop {
        let free = parallelism.get().saturating_sub(under_way.len());
        for (place, node, write) in waiting.by_ref().take(free) {
            under_way.push(async move { (place, node, cluster.write(&write).await) });
        }
        let Some((place, node, answer)) = under_way.next().await else {
            break;
        };
        match answer {
            Ok(written) => prepared
                .ready
                .push((place, Change::Node(node.prepared(written.version)))),
            Err(error @ (WriteError::Superseded(_) | WriteError::Unknown(_))) => {
                prepared.beaten.push((place, error.to_string()));
            }
            Err(error) => prepared.refused.push((place, error.to_string())),
        }
    }
    prepared.ready.sort_by_key(|(place, _)| *place);
    prepared
}
