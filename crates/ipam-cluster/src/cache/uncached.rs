//! The cluster behind a cache: lists come from the server, and the cache waits for the writes.

use jiff::Timestamp;

use super::ClusterCache;
use super::cached_kind::WITH_BLOCKS;
use super::record::ClaimsVersions;
use crate::{
    Cluster, ClusterError, Follow, LeaseName, ListVisitor, LockSeen, Moment, Seen, Write,
    WriteError, Written,
};
use ipam_cilium::observed::{ObservedKind, ReadError, Understood};
use ipam_core::net::Block;

/// The cluster behind a cache.
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

    fn cilium_namespace(&self) -> Option<&str> {
        self.0.cluster.cilium_namespace()
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        self.0.write(write).await
    }

    async fn lock(&self, name: LeaseName) -> Result<LockSeen, ClusterError> {
        self.0.cluster.lock(name).await
    }

    fn now(&self) -> Timestamp {
        self.0.cluster.now()
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        self.0.cluster.finish().await
    }
}
