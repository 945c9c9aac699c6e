//! Exports a cluster as a `v1 List`.

use serde_json::{Value, json};

use super::observe::namespace_of_cilium;
use super::{Cluster, ClusterError, Extent, ListVisitor, Moment, Seen};
use ipam_cilium::observed::{CiliumKind, ObservedKind, ReadError, is_read, slim};

struct Slimming {
    kind: ObservedKind,
    objects: Vec<Value>,
    version: String,
}

impl ListVisitor for Slimming {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.version = version.to_owned();
        Ok(())
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        let object: Value =
            serde_json::from_str(json).map_err(|error| ReadError::new(self.kind, json, &error))?;
        // The kinds that are written have a list of their own, with their fields.
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let is_listed_apart =
            self.kind == ObservedKind::MoreDefinitions && CiliumKind::of_definition(name).is_some();
        if !is_listed_apart && is_read(self.kind, &object) {
            self.objects.push(slim(self.kind, &object));
        }
        Ok(())
    }
}

/// Every object that plans and examinations read, with only the fields that they read. A hidden
/// kind is an error: the snapshot would look like a cluster without these objects.
///
/// # Errors
/// Fails as `observe` does, and if a kind is hidden.
pub async fn snapshot<C: Cluster>(cluster: &C) -> Result<Value, ClusterError> {
    let mut items: Vec<Value> = Vec::new();
    let namespace = namespace_of_cilium(cluster).await?;
    let mut moment = Moment::Latest;
    for kind in Extent::Examination.kinds() {
        let mut slimming = Slimming {
            kind,
            objects: Vec::new(),
            version: String::new(),
        };
        // Nodes and CiliumNodes of one moment, as for a plan.
        let of = if kind == ObservedKind::Node {
            &moment
        } else {
            &Moment::Latest
        };
        let of_cilium = match kind {
            ObservedKind::CiliumDaemonSet => cluster.cilium_namespace().unwrap_or_default(),
            _ => &namespace,
        };
        let seen = cluster.list(kind, of_cilium, of, &mut slimming).await?;
        let Slimming {
            objects, version, ..
        } = slimming;
        if kind == ObservedKind::CiliumNode && !version.is_empty() {
            moment = Moment::Of(version);
        }
        if let Seen::Hidden(message) = seen {
            return Err(ClusterError::Indispensable {
                resource: kind.resource(),
                message,
            });
        }
        items.extend(objects);
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}))
}
