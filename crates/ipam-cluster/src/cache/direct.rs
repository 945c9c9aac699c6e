//! The cluster behind a mirror: lists are its own, and writes are made known to the mirror.

use jiff::Timestamp;

use super::ClusterCache;
use super::kept::version;
use crate::{
    Cluster, ClusterError, Follow, LeaseName, Listener, LockSeen, Moment, Seen, Write, WriteError,
    Written,
};
use ipam_cilium::observed::{ObservedKind, ReadError};

/// What a mirror mirrors.
#[derive(Debug)]
pub struct Direct<'m, C>(&'m ClusterCache<C>);

impl<'m, C: Follow> Direct<'m, C> {
    pub(super) fn new(cache: &'m ClusterCache<C>) -> Direct<'m, C> {
        Direct(cache)
    }
}

/// Keeps the version of the claims.
struct Dated<'l> {
    listener: &'l mut dyn Listener,
    version: u64,
}

impl Listener for Dated<'_> {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.listener.begun(version)
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        let claims = serde_json::from_str(json)
            .map_err(|error| ReadError::new(ObservedKind::Claims, json, &error))?;
        self.version = version(&claims);
        self.listener.object(json)
    }
}

impl<C: Follow> Cluster for Direct<'_, C> {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        if kind != ObservedKind::Claims {
            return self.0.cluster.list(kind, namespace, moment, listener).await;
        }
        // Who plans from a fresh look must not take for free what the cluster forgot a moment ago.
        let from = self.0.lock().claims_known();
        let mut dated = Dated {
            listener,
            version: 0,
        };
        let seen = self
            .0
            .cluster
            .list(kind, namespace, moment, &mut dated)
            .await?;
        if seen == Seen::All && dated.version < from {
            self.0.read_anew();
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
