//! The cluster behind a mirror: lists are its own, and writes are made known to the mirror.

use jiff::Timestamp;

use super::Mirror;
use crate::cluster::{
    Cluster, ClusterError, Follow, LeaseName, Listener, LockSeen, Moment, Seen, Write, WriteError, Written,
};
use crate::observed::ObservedKind;

/// What a mirror mirrors.
#[derive(Debug)]
pub struct Direct<'m, C>(&'m Mirror<C>);

impl<'m, C: Follow> Direct<'m, C> {
    pub(super) fn new(mirror: &'m Mirror<C>) -> Direct<'m, C> {
        Direct(mirror)
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
        self.0.cluster.list(kind, namespace, moment, listener).await
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
