//! A cluster as a `v1 List` that can be given to others.

use serde_json::{Value, json};

use super::{Cluster, ClusterError, Seen};
use crate::observed::{ObservedKind, slim};

/// Every object that a plan needs, with only the fields that it needs. Kinds that are hidden from us are an error: a
/// snapshot must not look like a cluster that has none of them.
///
/// # Errors
/// As for observing, and hidden kinds.
pub async fn snapshot<C: Cluster>(cluster: &C) -> Result<Value, ClusterError> {
    let mut items: Vec<Value> = Vec::new();
    let mut namespace = "kube-system".to_owned();
    for kind in ObservedKind::ALL {
        let mut faults = Vec::new();
        let mut objects = Vec::new();
        let mut sink = |object: &str| {
            match serde_json::from_str::<Value>(object) {
                Ok(value) => objects.push(slim(kind, &value)),
                Err(error) => faults.push(error.to_string()),
            }
            Ok(())
        };
        let seen = cluster.list(kind, &namespace, &mut sink).await?;
        if let Some(message) = faults.into_iter().next() {
            return Err(ClusterError::Malformed { resource: kind.resource(), message });
        }
        if let Seen::Hidden(message) = seen {
            return Err(ClusterError::Indispensable { resource: kind.resource(), message });
        }
        if let (ObservedKind::CiliumDaemonSet, Some(found)) =
            (kind, objects.first().and_then(|o| o.pointer("/metadata/namespace")?.as_str()))
        {
            namespace = found.to_owned();
        }
        items.extend(objects);
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}))
}
