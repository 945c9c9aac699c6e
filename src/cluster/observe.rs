//! Reads everything that a plan needs, in the order in which nothing can be missed.

use super::{Cluster, ClusterError, Seen};
use crate::observed::{Definition, Observed, ObservedKind, Reader};

/// Where Cilium lives unless its DaemonSet says otherwise.
const DEFAULT_NAMESPACE: &str = "kube-system";

/// How often a reading that expired half-way is begun again.
const ATTEMPTS: usize = 3;

/// Observes the cluster. A kind that is hidden becomes a blind spot; Nodes and CiliumNodes must be visible.
///
/// # Errors
/// A cluster that does not answer, answers nonsense, or hides what is indispensable.
pub async fn observe<C: Cluster>(cluster: &C) -> Result<Observed, ClusterError> {
    for _ in 1..ATTEMPTS {
        match read(cluster).await {
            Err(ClusterError::Expired { .. }) => {}
            outcome => return outcome,
        }
    }
    read(cluster).await
}

async fn read<C: Cluster>(cluster: &C) -> Result<Observed, ClusterError> {
    let mut reader = Reader::default();
    for kind in ObservedKind::ALL {
        let namespace = reader.cilium_namespace().unwrap_or(DEFAULT_NAMESPACE).to_owned();
        let seen = cluster.list(kind, &namespace, &mut |object| reader.object(kind, object)).await?;
        let installed = reader.definition_of_cilium_node() == Definition::Installed;
        match (seen, kind) {
            (Seen::NotServed, ObservedKind::CiliumNode) if installed => {
                let message = "its CustomResourceDefinition is there, but the server does not serve it".to_owned();
                return Err(ClusterError::Indispensable { resource: kind.resource(), message });
            }
            (Seen::Hidden(message), ObservedKind::Node | ObservedKind::CiliumNode) => {
                return Err(ClusterError::Indispensable { resource: kind.resource(), message });
            }
            (Seen::Hidden(message), _) => reader.hidden(kind, message),
            (Seen::All | Seen::NotServed, _) => {}
        }
    }
    Ok(reader.finish())
}
