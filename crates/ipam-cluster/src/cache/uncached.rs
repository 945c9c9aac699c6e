//! The cluster behind a cache: lists come from the server, and the cache waits for the writes.

use jiff::Timestamp;

use super::ClusterCache;
use super::cached_kind::version;
use crate::{
    Cluster, ClusterError, Follow, LeaseName, ListVisitor, LockSeen, Moment, Seen, Write,
    WriteError, Written,
};
use ipam_cilium::observed::{ObservedKind, ReadError};

/// The cluster behind a cache.
#[derive(Debug)]
pub struct Uncached<'m, C>(&'m ClusterCache<C>);

impl<'m, C: Follow> Uncached<'m, C> {
    pub(super) fn new(cache: &'m ClusterCache<C>) -> Uncached<'m, C> {
        Uncached(cache)
    }
}

/// Keeps the resourceVersion of the claims.
struct AtVersion<'l> {
    visitor: &'l mut dyn ListVisitor,
    version: u64,
}

impl ListVisitor for AtVersion<'_> {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.visitor.begun(version)
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        let claims = serde_json::from_str(json)
            .map_err(|error| ReadError::new(ObservedKind::Claims, json, &error))?;
        self.version = version(&claims);
        self.visitor.object(json)
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
        if kind != ObservedKind::Claims {
            return self.0.cluster.list(kind, namespace, moment, visitor).await;
        }
        // A plan made from these lists must not take for free what the cluster forgot since.
        let from = self.0.lock().claims_known();
        let mut dated = AtVersion {
            visitor,
            version: 0,
        };
        let seen = self
            .0
            .cluster
            .list(kind, namespace, moment, &mut dated)
            .await?;
        if seen == Seen::All && dated.version < from {
            self.0.request_relist();
            return Err(ClusterError::WentBack {
                from,
                to: dated.version,
            });
        }
        Ok(seen)
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
