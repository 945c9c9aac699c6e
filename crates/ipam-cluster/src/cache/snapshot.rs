//! One moment of a cache, as a cluster that can be read and written. It must never list anything
//! from the server.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::ClusterCache;
use super::cached_kind::CachedKind;
use super::state::State;
use crate::{
    Cluster, ClusterError, Follow, LeaseName, ListVisitor, LockSeen, Moment, Seen, Write,
    WriteError, Written,
};
use ipam_cilium::observed::ObservedKind;
use ipam_core::net::Block;

/// The cache at one moment. It does not change; writes go to the cluster itself.
#[derive(Debug)]
pub struct Snapshot<'m, C> {
    cache: &'m ClusterCache<C>,
    kinds: BTreeMap<ObservedKind, CachedKind>,
    /// Every kind that shows blocks has reached this resourceVersion.
    claims_at: u64,
    tombstones: BTreeSet<Block>,
}

impl<'m, C: Follow> Snapshot<'m, C> {
    pub(super) fn new(cache: &'m ClusterCache<C>, state: &State) -> Snapshot<'m, C> {
        Snapshot {
            cache,
            kinds: state.kinds.clone(),
            claims_at: state.must_reach(),
            tombstones: state.tombstones(),
        }
    }
}

impl<C: Follow> Cluster for Snapshot<'_, C> {
    /// Ignores `moment`: all kinds show the moment of the snapshot.
    async fn list(
        &self,
        kind: ObservedKind,
        _namespace: &str,
        _moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        let Some(cached) = self.kinds.get(&kind) else {
            return Err(ClusterError::Refused {
                resource: kind.resource(),
                message: "it is not cached".to_owned(),
            });
        };
        if cached.seen == Seen::All {
            // Our own claims since then are known, and no other process has changed them.
            let shown = match kind {
                ObservedKind::Claims => self.claims_at,
                _ => cached.reached,
            };
            visitor.begun(&shown.to_string())?;
            if let Some(api_version) = &cached.served {
                visitor.served(api_version);
            }
            if kind == ObservedKind::Node {
                self.tombstones
                    .iter()
                    .for_each(|block| visitor.tombstone(*block));
            }
            in_place(|| cached.give_to(visitor))?;
        }
        Ok(cached.seen.clone())
    }

    fn cilium_namespace(&self) -> Option<&str> {
        self.cache.cluster.cilium_namespace()
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        self.cache.write(write).await
    }

    async fn lock(&self, name: LeaseName) -> Result<LockSeen, ClusterError> {
        self.cache.cluster.lock(name).await
    }

    fn now(&self) -> Timestamp {
        self.cache.cluster.now()
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        self.cache.cluster.finish().await
    }
}

/// Runs work that takes long with many objects. Where it can, another thread polls everything else
/// meanwhile.
fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}
