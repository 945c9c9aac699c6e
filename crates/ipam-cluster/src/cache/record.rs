//! Passes lists on and keeps what was in them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use super::kept::Kept;
use crate::{
    Cluster, ClusterError, LeaseName, Listener, LockSeen, Moment, Seen, Write, WriteError, Written,
};
use ipam_cilium::observed::{OWN_NAMESPACE, ObservedKind, ReadError};
use ipam_core::net::Block;

/// A cluster whose lists are kept.
pub(super) struct Recorder<'r, C> {
    cluster: &'r C,
    kinds: Mutex<BTreeMap<ObservedKind, Kept>>,
}

/// Hears of a list before somebody else does.
struct Tee<'l> {
    kind: ObservedKind,
    kept: Kept,
    listener: &'l mut dyn Listener,
}

impl Listener for Tee<'_> {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.kept.begin(version);
        self.listener.begun(version)
    }

    fn served(&mut self, api_version: &str) {
        self.kept.served = Some(api_version.to_owned());
        self.listener.served(api_version);
    }

    fn lingering(&mut self, block: Block) {
        self.listener.lingering(block);
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        let object =
            serde_json::from_str(json).map_err(|error| ReadError::new(self.kind, json, &error))?;
        self.kept.put(self.kind, &object);
        self.listener.object(json)
    }
}

impl<'r, C> Recorder<'r, C> {
    pub(super) fn new(cluster: &'r C) -> Recorder<'r, C> {
        Recorder {
            cluster,
            kinds: Mutex::default(),
        }
    }

    pub(super) fn kinds(self) -> BTreeMap<ObservedKind, Kept> {
        self.kinds
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Cluster> Cluster for Recorder<'_, C> {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        let mut tee = Tee {
            kind,
            kept: Kept::of(namespace),
            listener,
        };
        let seen = self.cluster.list(kind, namespace, moment, &mut tee).await?;
        tee.kept.seen = seen.clone();
        self.kinds
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(kind, tee.kept);
        Ok(seen)
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        self.cluster.write(write).await
    }

    async fn lock(&self, name: LeaseName) -> Result<LockSeen, ClusterError> {
        self.cluster.lock(name).await
    }

    fn now(&self) -> Timestamp {
        self.cluster.now()
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        self.cluster.finish().await
    }
}

/// Hears of nothing.
struct Deaf;

impl Listener for Deaf {
    fn object(&mut self, _: &str) -> Result<(), ReadError> {
        Ok(())
    }
}

/// Keeps the moment of a list.
#[derive(Default)]
struct Dated(Option<u64>);

impl Listener for Dated {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.0 = version.parse().ok();
        Ok(())
    }

    fn object(&mut self, _: &str) -> Result<(), ReadError> {
        Ok(())
    }
}

/// The newest resourceVersion of the cluster: that of a list of one small object.
pub(super) async fn newest_version<C: Cluster>(cluster: &C) -> Result<Option<u64>, ClusterError> {
    let mut dated = Dated::default();
    cluster
        .list(
            ObservedKind::Claims,
            OWN_NAMESPACE,
            &Moment::Latest,
            &mut dated,
        )
        .await?;
    Ok(dated.0)
}

/// How far a kind can be read now.
pub(super) async fn look<C: Cluster>(
    cluster: &C,
    kind: ObservedKind,
    namespace: &str,
) -> Result<Seen, ClusterError> {
    cluster
        .list(kind, namespace, &Moment::Latest, &mut Deaf)
        .await
}
