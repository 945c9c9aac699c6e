//! Reads everything that a plan needs, in the order that the claims require. It must never decide
//! anything.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use futures_util::future::{try_join, try_join4};
use tokio::sync::oneshot;

use super::{Cluster, ClusterError, ListVisitor, Moment, Seen};
use ipam_cilium::observed::{Definition, Observed, ObservedKind, ReadError, Reader, Understood};
use ipam_core::net::Block;

/// Default for the namespace of Cilium's DaemonSet.
const DEFAULT_NAMESPACE: &str = "kube-system";

/// Attempts, where lists expire or are stale.
const ATTEMPTS: usize = 3;

/// Kinds with few objects, whose order does not matter.
const SMALL: [ObservedKind; 4] = [
    ObservedKind::LoadBalancerPool,
    ObservedKind::CiliumOperator,
    ObservedKind::ControllerManagerPod,
    ObservedKind::ServiceCidr,
];

/// More such kinds, read at the same time.
const SMALL_TOO: [ObservedKind; 5] = [
    ObservedKind::Migration,
    ObservedKind::CiliumConfig,
    ObservedKind::CiliumNodeDefinition,
    ObservedKind::CiliumNodeConfig,
    ObservedKind::PodIpPool,
];

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The kinds that a plan needs.
    Plan,
    /// The kinds that an examination needs.
    Examination,
}

impl Extent {
    /// All kinds that are read.
    pub(super) fn kinds(self) -> impl Iterator<Item = ObservedKind> {
        ObservedKind::OF_PLANS
            .into_iter()
            .chain(self.more().iter().copied())
    }

    /// The kinds that a plan does not need.
    pub(super) fn more(self) -> &'static [ObservedKind] {
        match self {
            Extent::Plan => &[],
            Extent::Examination => &ObservedKind::OF_EXAMINATIONS,
        }
    }
}

/// Observes the cluster. A hidden kind becomes a blind spot. Nodes and CiliumNodes must be visible.
///
/// # Errors
/// Fails if the cluster does not answer, hides Nodes or CiliumNodes, or an answer is malformed.
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
    /// resourceVersion of the claims' list. resourceVersions count up through all kinds
    /// (apimachinery `pkg/util/resourceversion` @ 1.36).
    claims_at: OnceLock<u64>,
}

/// Gives objects to the reader, and reports the moment of the list.
struct Collecting<'r> {
    kind: ObservedKind,
    reader: &'r Mutex<Reader>,
    claims_at: &'r OnceLock<u64>,
    begun: Option<oneshot::Sender<Moment>>,
}

impl ListVisitor for Collecting<'_> {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.is_no_older_than_the_claims(version.parse().ok())?;
        if let Some(begun) = self.begun.take() {
            // The other list may have failed: then nothing waits for this.
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

    fn tombstone(&mut self, block: Block) {
        lock(self.reader).tombstone(block);
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        lock(self.reader).object(self.kind, json)
    }

    fn protobuf(&mut self, kind: ObservedKind, object: &[u8]) -> Result<(), ReadError> {
        lock(self.reader).protobuf(kind, object)
    }

    fn known(&mut self, _: &str, understood: &Understood) -> Result<(), ReadError> {
        lock(self.reader).understood(understood);
        Ok(())
    }
}

impl Collecting<'_> {
    /// A list from a cache that lags behind could show a block as free that another process has
    /// claimed and written since.
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
        let (begun, has_begun) = oneshot::channel();
        let cilium_nodes = self.kind(ObservedKind::CiliumNode, Moment::Latest, Some(begun));
        // Of the very same moment: a block can move from the CiliumNode to the Node. When an agent
        // starts and its Node is deleted, it moves the other way. Two moments could show it in
        // neither.
        let nodes = async {
            let moment = has_begun.await.unwrap_or(Moment::Latest);
            self.kind(ObservedKind::Node, moment, None).await
        };
        let services = self.kind(ObservedKind::Service, Moment::Latest, None);
        let (cilium_nodes, ..) =
            try_join4(cilium_nodes, nodes, services, self.small_kinds()).await?;
        let reader = self
            .reader
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if cilium_nodes == Seen::NotServed
            && reader.definition_of_cilium_node() == Definition::Installed
        {
            let message =
                "its CustomResourceDefinition exists, but the server does not serve it".to_owned();
            return Err(ClusterError::Indispensable {
                resource: ObservedKind::CiliumNode.resource(),
                message,
            });
        }
        Ok(reader.finish(self.cluster.now()))
    }

    /// The namespace of the DaemonSet is the one of Cilium's settings.
    async fn small_kinds(&self) -> Result<(), ClusterError> {
        self.kind(ObservedKind::CiliumDaemonSet, Moment::Latest, None)
            .await?;
        let more = self.extent.more().iter().copied();
        try_join(
            self.one_by_one(SMALL.into_iter()),
            self.one_by_one(SMALL_TOO.into_iter().chain(more)),
        )
        .await
        .map(drop)
    }

    /// Lists one kind after the other: a connection for each would cost more than the lists.
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
        let mut visitor = Collecting {
            kind,
            reader: &self.reader,
            claims_at: &self.claims_at,
            begun,
        };
        let seen = self
            .cluster
            .list(kind, &namespace, &moment, &mut visitor)
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
