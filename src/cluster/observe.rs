//! Reads everything that a plan needs, in the order in which nothing can be missed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::try_join3;
use tokio::sync::oneshot;

use super::{Cluster, ClusterError, Listener, Seen};
use crate::observed::{Definition, Observed, ObservedKind, ReadError, Reader};

/// Where Cilium lives unless its DaemonSet says otherwise.
const DEFAULT_NAMESPACE: &str = "kube-system";

/// How often a reading that expired half-way is begun again.
const ATTEMPTS: usize = 3;

/// Kinds of which there are few; their order does not matter.
const SMALL: [ObservedKind; 5] = [
    ObservedKind::CiliumConfig,
    ObservedKind::CiliumNodeDefinition,
    ObservedKind::ControllerManagerPod,
    ObservedKind::ServiceCidr,
    ObservedKind::LoadBalancerPool,
];

/// Observes the cluster. A kind that is hidden becomes a blind spot; Nodes and CiliumNodes must be visible.
///
/// # Errors
/// A cluster that does not answer, answers nonsense, or hides what is indispensable.
pub async fn observe<C: Cluster>(cluster: &C) -> Result<Observed, ClusterError> {
    for _ in 1..ATTEMPTS {
        match Reading::new(cluster).all().await {
            Err(ClusterError::Expired { .. }) => {}
            outcome => return outcome,
        }
    }
    Reading::new(cluster).all().await
}

struct Reading<'c, C> {
    cluster: &'c C,
    reader: Mutex<Reader>,
}

/// Gives objects to the reader, and says when the list's moment is fixed.
struct Collecting<'r> {
    kind: ObservedKind,
    reader: &'r Mutex<Reader>,
    begun: Option<oneshot::Sender<()>>,
}

impl Listener for Collecting<'_> {
    fn begun(&mut self) {
        if let Some(begun) = self.begun.take() {
            // Nobody waits any more when the other list has failed.
            let _ = begun.send(());
        }
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        lock(self.reader).object(self.kind, json)
    }
}

fn lock(reader: &Mutex<Reader>) -> MutexGuard<'_, Reader> {
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'c, C: Cluster> Reading<'c, C> {
    fn new(cluster: &'c C) -> Reading<'c, C> {
        Reading { cluster, reader: Mutex::default() }
    }

    async fn all(self) -> Result<Observed, ClusterError> {
        self.kind(ObservedKind::Claims, None).await?;
        self.kind(ObservedKind::CiliumDaemonSet, None).await?;
        let small = async {
            for kind in SMALL {
                self.kind(kind, None).await?;
            }
            Ok(())
        };
        let (begun, has_begun) = oneshot::channel();
        let cilium_nodes = self.kind(ObservedKind::CiliumNode, Some(begun));
        // Nodes must be listed as of the same moment as CiliumNodes or a later one: a block that goes from the one to the other
        // in between is then seen twice rather than not at all. That moment is fixed when the first page is there.
        let nodes = async {
            let _ = has_begun.await;
            self.kind(ObservedKind::Node, None).await
        };
        let (_, cilium_nodes, _) = try_join3(small, cilium_nodes, nodes).await?;
        let reader = self.reader.into_inner().unwrap_or_else(PoisonError::into_inner);
        if cilium_nodes == Seen::NotServed && reader.definition_of_cilium_node() == Definition::Installed {
            let message = "its CustomResourceDefinition is there, but the server does not serve it".to_owned();
            return Err(ClusterError::Indispensable { resource: ObservedKind::CiliumNode.resource(), message });
        }
        Ok(reader.finish(self.cluster.now()))
    }

    async fn kind(&self, kind: ObservedKind, begun: Option<oneshot::Sender<()>>) -> Result<Seen, ClusterError> {
        let namespace = lock(&self.reader).cilium_namespace().unwrap_or(DEFAULT_NAMESPACE).to_owned();
        let mut listener = Collecting { kind, reader: &self.reader, begun };
        let seen = self.cluster.list(kind, &namespace, &mut listener).await?;
        match (&seen, kind) {
            (Seen::Hidden(message), ObservedKind::Node | ObservedKind::CiliumNode) => {
                Err(ClusterError::Indispensable { resource: kind.resource(), message: message.clone() })
            }
            (Seen::Hidden(message), _) => {
                lock(&self.reader).hidden(kind, message.clone());
                Ok(seen)
            }
            (Seen::All | Seen::NotServed, _) => Ok(seen),
        }
    }
}
