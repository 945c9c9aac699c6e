//! The two clusters that a cache offers: a snapshot of one moment, which must never list anything
//! from the server, and the cluster behind the cache, which lists from the server. The cache waits
//! for the writes of both.

use std::collections::{BTreeMap, BTreeSet};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::ClusterCache;
use super::cached_kind::{CachedKind, WITH_BLOCKS};
use super::record::ClaimsVersions;
use super::state::State;
use crate::{Cluster, ClusterError, Follow, ListVisitor, Moment, Seen, Write, WriteError, Written};
use ipam_cilium::observed::{ObservedKind, ReadError, Understood};
use ipam_core::claims::Departure;
use ipam_core::net::Block;

/// The cache at one moment. It does not change; writes go to the cluster itself.
#[derive(Debug)]
pub struct Snapshot<'m, C> {
    cache: &'m ClusterCache<C>,
    kinds: BTreeMap<ObservedKind, CachedKind>,
    /// resourceVersion that every kind that shows blocks has reached.
    claims_at: u64,
    tombstones: BTreeSet<Block>,
    departed: BTreeMap<Block, Departure>,
}

impl<'m, C: Follow> Snapshot<'m, C> {
    pub(super) fn new(cache: &'m ClusterCache<C>, state: &State) -> Snapshot<'m, C> {
        Snapshot {
            cache,
            kinds: state.kinds.clone(),
            claims_at: state.must_reach(),
            tombstones: state.tombstones(),
            departed: state.departed(),
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
                self.departed
                    .iter()
                    .for_each(|(block, departure)| visitor.departed(*block, departure));
            }
            in_place(|| cached.give_to(visitor))?;
        }
        Ok(cached.seen.clone())
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        self.cache.write(write).await
    }

    delegate_others!(self => self.cache.cluster);
}

/// Runs work that takes long with many objects. Where it can, another thread polls everything else
/// meanwhile.
fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// The cluster behind a cache, without the cache.
#[derive(Debug)]
pub struct Uncached<'m, C>(&'m ClusterCache<C>);

impl<'m, C: Follow> Uncached<'m, C> {
    pub(super) fn new(cache: &'m ClusterCache<C>) -> Uncached<'m, C> {
        Uncached(cache)
    }
}

/// Tells the cache how new the lists are that a plan beside it reads.
struct Reported<'l, C> {
    cache: &'l ClusterCache<C>,
    visitor: &'l mut dyn ListVisitor,
}

impl<C: Follow> ListVisitor for Reported<'_, C> {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.cache.read_uncached(version.parse().unwrap_or(0));
        self.visitor.begun(version)
    }

    fn served(&mut self, api_version: &str) {
        self.visitor.served(api_version);
    }

    fn tombstone(&mut self, block: Block) {
        self.visitor.tombstone(block);
    }

    fn departed(&mut self, block: Block, departure: &Departure) {
        self.visitor.departed(block, departure);
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        self.visitor.object(json)
    }

    fn protobuf(&mut self, kind: ObservedKind, object: &[u8]) -> Result<(), ReadError> {
        self.visitor.protobuf(kind, object)
    }

    fn known(&mut self, json: &str, understood: &Understood) -> Result<(), ReadError> {
        self.visitor.known(json, understood)
    }
}

impl<C: Follow> Cluster for Uncached<'_, C> {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        let mut reported = Reported {
            cache: self.0,
            visitor,
        };
        let visitor: &mut dyn ListVisitor =
            if kind == ObservedKind::Claims || WITH_BLOCKS.contains(&kind) {
                &mut reported
            } else {
                reported.visitor
            };
        if kind == ObservedKind::Node {
            let departed = self.0.lock().departed();
            departed
                .iter()
                .for_each(|(block, departure)| visitor.departed(*block, departure));
        }
        if kind != ObservedKind::Claims {
            return self.0.cluster.list(kind, namespace, moment, visitor).await;
        }
        // A plan made from these lists must not take for free what the cluster forgot since.
        let (newest, claims) = {
            let state = self.0.lock();
            (state.newest(), state.claims_known())
        };
        let mut versions = ClaimsVersions {
            visitor: Some(visitor),
            ..ClaimsVersions::default()
        };
        let seen = self
            .0
            .cluster
            .list(kind, namespace, moment, &mut versions)
            .await?;
        let is_older = |listed: &(u64, u64)| listed.1 < listed.0;
        let moment = versions.list.map(|listed| (newest, listed));
        let older = [Some((claims, versions.claims)), moment].into_iter();
        match older.flatten().find(is_older) {
            Some((from, to)) if seen == Seen::All => {
                self.0.request_relist();
                Err(ClusterError::WentBack { from, to })
            }
            _ => Ok(seen),
        }
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        self.0.write(write).await
    }

    delegate_others!(self => self.0.cluster);
}
