//! One moment of a mirror, as a cluster that can be read and written.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::ClusterCache;
use super::kept::Kept;
use super::state::State;
use crate::{
    Cluster, ClusterError, Follow, LeaseName, Listener, LockSeen, Moment, Seen, Write, WriteError,
    Written,
};
use ipam_cilium::observed::ObservedKind;
use ipam_core::net::Block;

/// Everything at one moment. It does not move; what is written goes to the cluster itself.
#[derive(Debug)]
pub struct Snapshot<'m, C> {
    cache: &'m ClusterCache<C>,
    kinds: BTreeMap<ObservedKind, Kept>,
    lingering: BTreeSet<Block>,
}

impl<'m, C: Follow> Snapshot<'m, C> {
    pub(super) fn new(cache: &'m ClusterCache<C>, state: &State) -> Snapshot<'m, C> {
        Snapshot {
            cache,
            kinds: state.kinds.clone(),
            lingering: state.lingering(),
        }
    }
}

impl<C: Follow> Cluster for Snapshot<'_, C> {
    /// All kinds are of this one moment, whichever is asked for.
    async fn list(
        &self,
        kind: ObservedKind,
        _namespace: &str,
        _moment: &Moment,
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        let Some(kept) = self.kinds.get(&kind) else {
            return Err(ClusterError::Refused {
                resource: kind.resource(),
                message: "it is not followed".to_owned(),
            });
        };
        if kept.seen == Seen::All {
            listener.begun(&kept.shown_version(kind).to_string())?;
            if let Some(api_version) = &kept.served {
                listener.served(api_version);
            }
            if kind == ObservedKind::Node {
                self.lingering
                    .iter()
                    .for_each(|block| listener.lingering(*block));
            }
            in_place(|| kept.give_to(listener))?;
        }
        Ok(kept.seen.clone())
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

/// Does what takes long with many objects. Where another thread can poll everything else meanwhile,
/// it does.
fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}
