//! Clusters and clients that break a rule on purpose, to show that the simulator would notice.

use cilium_ipam::cluster::sim::{Faults, SimClient, Yield};
use cilium_ipam::cluster::{
    Cluster, ClusterError, LeaseName, Listener, LockSeen, Moment, Operation, Seen, Target, Write, WriteError, Written,
};
use cilium_ipam::observed::{ObservedKind, ReadError};
use jiff::Timestamp;

/// The rule that is broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// Claims are replaced whatever version they have.
    BlindClaims,
    /// Claims are neither read nor written.
    NoClaims,
    /// Nodes are written without their resourceVersion.
    UnguardedVersion,
    /// A list that lags behind passes for a fresh one.
    TrustedCache,
    /// Nodes are listed as of a later moment than CiliumNodes.
    TwoMoments,
}

impl Sabotage {
    /// Every rule.
    pub const ALL: [Sabotage; 5] = [
        Sabotage::BlindClaims,
        Sabotage::NoClaims,
        Sabotage::UnguardedVersion,
        Sabotage::TrustedCache,
        Sabotage::TwoMoments,
    ];

    /// The same faults, and more of those without which the broken rule would not matter.
    pub(crate) fn provoked_by(self, faults: Faults) -> Faults {
        match self {
            Sabotage::TrustedCache => Faults { stale_list: 500, ..faults },
            Sabotage::None
            | Sabotage::BlindClaims
            | Sabotage::NoClaims
            | Sabotage::UnguardedVersion
            | Sabotage::TwoMoments => faults,
        }
    }
}

/// How often others may run between the two moments, so that much can happen there.
const BETWEEN_MOMENTS: u32 = 60;

/// A client with a broken rule.
pub(crate) struct Saboteur {
    pub(crate) client: SimClient,
    pub(crate) sabotage: Sabotage,
}

/// Hides how old a list is.
struct Trusting<'l>(&'l mut dyn Listener);

impl Listener for Trusting<'_> {
    fn begun(&mut self, _: &str) -> Result<(), ClusterError> {
        self.0.begun("")
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        self.0.object(json)
    }
}

impl Cluster for Saboteur {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        match (self.sabotage, kind) {
            (Sabotage::TrustedCache, _) => self.client.list(kind, namespace, moment, &mut Trusting(listener)).await,
            (Sabotage::NoClaims, ObservedKind::Claims) => Ok(Seen::All),
            (Sabotage::TwoMoments, _) => {
                Yield(if kind == ObservedKind::Node { BETWEEN_MOMENTS } else { 0 }).await;
                self.client.list(kind, namespace, &Moment::Latest, listener).await
            }
            _ => self.client.list(kind, namespace, moment, listener).await,
        }
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        let mut write = write.clone();
        let metadata = match &mut write.operation {
            Operation::Patch(patch) => patch["metadata"].as_object_mut(),
            Operation::Apply(_) | Operation::Create(_) | Operation::Delete(_) => None,
        };
        match (self.sabotage, &write.target, metadata) {
            (Sabotage::NoClaims, Target::Claims, _) => {
                let version =
                    cilium_ipam::observed::ObjectVersion { uid: String::new(), resource_version: String::new() };
                return Ok(Written { version });
            }
            (Sabotage::BlindClaims, Target::Claims, Some(metadata))
            | (Sabotage::UnguardedVersion, Target::Node(_), Some(metadata)) => {
                metadata.remove("resourceVersion");
            }
            _ => {}
        }
        self.client.write(&write).await
    }

    async fn lock(&self, name: LeaseName) -> Result<LockSeen, ClusterError> {
        self.client.lock(name).await
    }

    fn now(&self) -> Timestamp {
        self.client.now()
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        self.client.finish().await
    }
}
