//! Reads everything that a plan needs, in the order in which nothing can be missed.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use futures_util::future::try_join5;
use tokio::sync::oneshot;

use super::{Cluster, ClusterError, Listener, Moment, Seen};
use ipam_cilium::observed::{Definition, Observed, ObservedKind, ReadError, Reader, Understood};
use ipam_core::net::Block;

/// Where Cilium lives unless its DaemonSet says otherwise.
const DEFAULT_NAMESPACE: &str = "kube-system";

/// How often a reading that expired half-way is begun again.
const ATTEMPTS: usize = 3;

/// Kinds whose order does not matter, and of which there are few objects.
const SMALL: [ObservedKind; 4] = [
    ObservedKind::LoadBalancerPool,
    ObservedKind::CiliumOperator,
    ObservedKind::ControllerManagerPod,
    ObservedKind::ServiceCidr,
];

/// More of them, read at the same time.
const SMALL_TOO: [ObservedKind; 4] = [
    ObservedKind::CiliumConfig,
    ObservedKind::CiliumNodeDefinition,
    ObservedKind::CiliumNodeConfig,
    ObservedKind::PodIpPool,
];

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What a plan needs.
    Plan,
    /// All that an examination needs.
    Examination,
}

impl Extent {
    /// The kinds besides those that a plan needs.
    pub(super) fn more(self) -> &'static [ObservedKind] {
        match self {
            Extent::Plan => &[],
            Extent::Examination => &ObservedKind::OF_EXAMINATIONS,
        }
    }
}

/// Observes the cluster. A kind that is hidden becomes a blind spot; Nodes and CiliumNodes must be
/// visible.
///
/// # Errors
/// A cluster that does not answer, answers nonsense, or hides what is indispensable.
pub async fn observe<C: Cluster>(cluster: &C, extent: Extent) -> Result<Observed, ClusterError> {
    for _ in 1..ATTEMPTS {
        match Reading::new(cluster, extent).all().await {
            Err(ClusterError::Expired { .. } | ClusterError::Stale { .. }) => {}
            outcome => return outcome,
        }
    }
    Reading::new(cluster, extent).all().await
}

struct Reading<'c, C> {
    cluster: &'c C,
    extent: Extent,
    reader: Mutex<Reader>,
    /// The moment that the claims show. resourceVersions count up through all kinds (apimachinery
    /// `pkg/util/resourceversion` @ 1.36).
    claims_at: OnceLock<u64>,
}

/// Gives objects to the reader, and says when the list's moment is fixed.
struct Collecting<'r> {
    kind: ObservedKind,
    reader: &'r Mutex<Reader>,
    claims_at: &'r OnceLock<u64>,
    begun: Option<oneshot::Sender<Moment>>,
}

impl Listener for Collecting<'_> {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.is_no_older_than_the_claims(version.parse().ok())?;
        if let Some(begun) = self.begun.take() {
            // Nobody waits any more when the other list has failed.
            let moment = if version.is_empty() {
                Moment::Latest
            } else {
                Moment::Of(version.to_owned())
            };
            let _ = begun.send(moment);
        }
        Ok(())
    }

    fn served(&mut self, api_version: &str) {
        lock(self.reader).served(self.kind, api_version);
    }

    fn lingering(&mut self, block: Block) {
        lock(self.reader).lingering(block);
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        lock(self.reader).object(self.kind, json)
    }

    fn known(&mut self, _: &str, understood: &Understood) -> Result<(), ReadError> {
        lock(self.reader).understood(understood);
        Ok(())
    }
}

impl Collecting<'_> {
    /// A list from a cache that lags behind would show a block as free that somebody claimed and
    /// wrote meanwhile.
    fn is_no_older_than_the_claims(&self, version: Option<u64>) -> Result<(), ClusterError> {
        let resource = self.kind.resource();
        match (self.kind, version, self.claims_at.get()) {
            (ObservedKind::Claims, Some(version), _) => {
                let _ = self.claims_at.set(version);
                Ok(())
            }
            (
                ObservedKind::Node | ObservedKind::CiliumNode | ObservedKind::CiliumNodeConfig,
                Some(list),
                Some(&claims),
            ) if list < claims => Err(ClusterError::Stale {
                resource,
                list,
                claims,
            }),
            _ => Ok(()),
        }
    }
}

fn lock(reader: &Mutex<Reader>) -> MutexGuard<'_, Reader> {
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'c, C: Cluster> Reading<'c, C> {
    fn new(cluster: &'c C, extent: Extent) -> Reading<'c, C> {
        Reading {
            cluster,
            extent,
            reader: Mutex::default(),
            claims_at: OnceLock::new(),
        }
    }

    async fn all(self) -> Result<Observed, ClusterError> {
        self.kind(ObservedKind::Claims, Moment::Latest, None)
            .await?;
        self.kind(ObservedKind::CiliumDaemonSet, Moment::Latest, None)
            .await?;
        let services = self.kind(ObservedKind::Service, Moment::Latest, None);
        let small = self.one_by_one(SMALL.into_iter());
        let small_too = self.one_by_one(
            SMALL_TOO
                .into_iter()
                .chain(self.extent.more().iter().copied()),
        );
        let (begun, has_begun) = oneshot::channel();
        let cilium_nodes = self.kind(ObservedKind::CiliumNode, Moment::Latest, Some(begun));
        // Of the very same moment: a block may go from the CiliumNode to the Node, or, when an
        // agent starts and its Node is deleted, the other way, and two moments could show it in
        // neither.
        let nodes = async {
            let moment = has_begun.await.unwrap_or(Moment::Latest);
            self.kind(ObservedKind::Node, moment, None).await
        };
        let (_, cilium_nodes, ..) =
            try_join5(services, cilium_nodes, nodes, small, small_too).await?;
        let reader = self
            .reader
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if cilium_nodes == Seen::NotServed
            && reader.definition_of_cilium_node() == Definition::Installed
        {
            let message = "its CustomResourceDefinition is there, but the server does not serve it"
                .to_owned();
            return Err(ClusterError::Indispensable {
                resource: ObservedKind::CiliumNode.resource(),
                message,
            });
        }
        Ok(reader.finish(self.cluster.now()))
    }

    /// A connection for each would cost more than these kinds do.
    async fn one_by_one(
        &self,
        kinds: impl Iterator<Item = ObservedKind>,
    ) -> Result<(), ClusterError> {
        for kind in kinds {
            self.kind(kind, Moment::Latest, None).await?;
        }
        Ok(())
    }

    async fn kind(
        &self,
        kind: ObservedKind,
        moment: Moment,
        begun: Option<oneshot::Sender<Moment>>,
    ) -> Result<Seen, ClusterError> {
        let namespace = lock(&self.reader)
            .cilium_namespace()
            .unwrap_or(DEFAULT_NAMESPACE)
            .to_owned();
        let mut listener = Collecting {
            kind,
            reader: &self.reader,
            claims_at: &self.claims_at,
            begun,
        };
        let seen = self
            .cluster
            .list(kind, &namespace, &moment, &mut listener)
            .await?;
        match (&seen, kind) {
            (Seen::Hidden(message), ObservedKind::Node | ObservedKind::CiliumNode) => {
                Err(ClusterError::Indispensable {
                    resource: kind.resource(),
                    message: message.clone(),
                })
            }
            (Seen::Hidden(message), _) => {
                lock(&self.reader).hidden(kind, message.clone());
                Ok(seen)
            }
            (Seen::NotServed, _) => {
                lock(&self.reader).not_served(kind);
                Ok(seen)
            }
            (Seen::All, _) => Ok(seen),
        }
    }
}
