//! Applies a write of a client, as the API server would.

use serde_json::{Map, Value, json};

use super::state::{ObjectKey, Sender, SimState, Taking, Writer, blocks, shows_blocks};
use ipam_cilium::observed::{CLAIMS_NAME, ObjectVersion, ObservedKind};
use ipam_cluster::{Operation, Target, Write, WriteError, Written};
use ipam_cluster::{patched, version_of};

/// The preconditions that a deletion has.
fn preconditions(version: &ObjectVersion) -> Map<String, Value> {
    let ObjectVersion {
        uid,
        resource_version,
    } = version;
    let all = [("uid", uid), ("resourceVersion", resource_version)];
    let given = all.into_iter().filter(|(_, value)| !value.is_empty());
    given
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect()
}

impl SimState {
    /// Applies a write that reaches the server.
    pub(super) fn write(&mut self, sender: &Sender, write: &Write) -> Result<Written, WriteError> {
        let (kind, name) = match &write.target {
            Target::Node(name) => (ObservedKind::Node, name.to_string()),
            Target::CiliumNode(name) => (ObservedKind::CiliumNode, name.to_string()),
            Target::Claims => (ObservedKind::Claims, CLAIMS_NAME.to_owned()),
            Target::Departed(part) => (ObservedKind::Departed(*part), part.to_string()),
            Target::Lease(_)
            | Target::Custom(..)
            | Target::Status(..)
            | Target::Pod(..)
            | Target::Eviction(..)
            | Target::MigrationRecord(_)
            | Target::Event { .. }
            | Target::AddressPool(..)
            | Target::Service(_)
            | Target::NodeConfig(..)
            | Target::PodPool(..) => {
                return Err(WriteError::Forbidden(
                    "the simulated cluster has no such objects".to_owned(),
                ));
            }
        };
        let key = (kind, name);
        self.note(|| {
            format!(
                "{} {} reaches the server: {:?}",
                key.0.resource(),
                key.1,
                write.operation
            )
        });
        match (&write.operation, self.objects.get(&key).cloned()) {
            (Operation::Create(_), Some(_)) => {
                Err(WriteError::Superseded("already exists".to_owned()))
            }
            (Operation::Create(object), None) => self.create_from(sender, &key, object),
            (Operation::Apply(_), _) => Err(WriteError::Refused(
                "server-side apply is not simulated".to_owned(),
            )),
            (Operation::Patch(_) | Operation::Delete(_), None) => {
                Err(WriteError::Superseded("not found".to_owned()))
            }
            (Operation::Delete(version), Some(before)) => {
                self.delete_from(sender, &key, version, &before)
            }
            (Operation::Patch(patch), Some(before)) => {
                self.patch_from(sender, &key, patch, &before)
            }
        }
    }

    fn create_from(
        &mut self,
        sender: &Sender,
        key: &ObjectKey,
        object: &Value,
    ) -> Result<Written, WriteError> {
        let (kind, name) = key;
        if *kind == ObservedKind::CiliumNode && !self.is_owned(object) {
            // Garbage collection removes an object without an owner.
            self.note(|| format!("{} {name} is collected at once", kind.resource()));
            return Ok(Written {
                version: version_of(object),
            });
        }
        if *kind == ObservedKind::CiliumNode {
            blocks(object)
                .into_iter()
                .for_each(|block| self.check_block(sender, name, block));
        }
        self.create_by(object.clone(), Writer::Ours);
        let created = self.objects.get(key).map(version_of);
        created.map_or_else(
            || Err(WriteError::Refused("no such kind".to_owned())),
            |version| Ok(Written { version }),
        )
    }

    fn delete_from(
        &mut self,
        sender: &Sender,
        key: &ObjectKey,
        version: &ObjectVersion,
        before: &Value,
    ) -> Result<Written, WriteError> {
        let (kind, name) = key;
        // As preconditions of DeleteOptions, an absent one is not compared.
        patched(before, &json!({"metadata": preconditions(version)}))?;
        if shows_blocks(*kind) {
            self.check_deletion(sender, key, version, before);
        }
        if *kind == ObservedKind::CiliumNode {
            self.agent_releases(name);
        }
        // What it owns goes later, as with background propagation.
        self.remove(key);
        Ok(Written {
            version: ObjectVersion::default(),
        })
    }

    fn patch_from(
        &mut self,
        sender: &Sender,
        key: &ObjectKey,
        patch: &Value,
        before: &Value,
    ) -> Result<Written, WriteError> {
        let (kind, name) = key;
        let after = patched(before, patch)?;
        if shows_blocks(*kind) {
            self.check_write(sender, name, patch, before, &after);
        }
        // As on the real server, a patch without a change keeps the resourceVersion.
        if after != *before {
            self.put(key.clone(), after, Writer::Ours);
        }
        if sender.taking == Taking::Allowed {
            self.agent_forgets(name);
        }
        Ok(Written {
            version: version_of(&self.objects[key]),
        })
    }

    /// Whether the owner of a CiliumNode exists.
    pub(super) fn is_owned(&self, object: &Value) -> bool {
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let owner = &object["metadata"]["ownerReferences"][0]["uid"];
        let node = self.objects.get(&(ObservedKind::Node, name));
        node.is_some_and(|node| node["metadata"]["uid"] == *owner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::{Disturbance, Faults, SimCluster};
    use ipam_cilium::observed::OWNER_LABEL;

    /// A node with a CiliumNode that we created.
    fn cluster(labels: Value) -> SimCluster {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"ipam": "cluster-pool"},
            "metadata": {"name": "cilium-config", "namespace": "kube-system"}});
        let cluster = SimCluster::new(1, Faults::default(), vec![config]);
        cluster.join(
            json!({"apiVersion": "v1", "kind": "Node", "spec": {}, "metadata": {"name": "n1"}}),
        );
        let node = object(&cluster, ObservedKind::Node).unwrap();
        let owner = json!([{"kind": "Node", "name": "n1", "uid": node["metadata"]["uid"]}]);
        let created = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
            "metadata": {"name": "n1", "labels": labels, "ownerReferences": owner}, "spec": {"ipam": {"podCIDRs": ["10.0.0.0/24"]}}});
        cluster.lock().create_by(created, Writer::Ours);
        cluster
    }

    fn ours() -> Value {
        json!({OWNER_LABEL.0: OWNER_LABEL.1})
    }

    fn object(cluster: &SimCluster, kind: ObservedKind) -> Option<Value> {
        let key = (kind, "n1".to_owned());
        cluster.lock().objects.get(&key).cloned()
    }

    fn version(cluster: &SimCluster) -> ObjectVersion {
        version_of(&object(cluster, ObservedKind::CiliumNode).unwrap())
    }

    fn delete(
        cluster: &SimCluster,
        taking: Taking,
        version: ObjectVersion,
    ) -> Result<Written, WriteError> {
        let sender = Sender {
            listed_at: 0,
            pins: Arc::default(),
            taking,
        };
        let write = Write {
            target: Target::CiliumNode("n1".parse().unwrap()),
            operation: Operation::Delete(version),
        };
        cluster.lock().write(&sender, &write)
    }

    #[test]
    fn a_deletion_has_preconditions() {
        let cluster = cluster(ours());
        let seen = version(&cluster);
        let other = |uid: &str, resource_version: &str| ObjectVersion {
            uid: uid.to_owned(),
            resource_version: resource_version.to_owned(),
        };
        for changed in [
            other("another", &seen.resource_version),
            other(&seen.uid, "1"),
        ] {
            let refused = delete(&cluster, Taking::Allowed, changed);
            assert!(
                matches!(refused, Err(WriteError::Superseded(_))),
                "{refused:?}"
            );
        }
        delete(&cluster, Taking::Allowed, seen.clone()).unwrap();
        assert_eq!(object(&cluster, ObservedKind::CiliumNode), None);
        let gone = delete(&cluster, Taking::Allowed, seen);
        assert_eq!(gone, Err(WriteError::Superseded("not found".to_owned())));
        assert_eq!(cluster.violations(), Vec::<String>::new());
    }

    #[test]
    fn what_a_deleted_node_owns_is_collected_later() {
        let cluster = cluster(ours());
        let node = (ObservedKind::Node, "n1".to_owned());
        cluster.lock().remove(&node);
        assert!(object(&cluster, ObservedKind::CiliumNode).is_some());
        cluster.join(
            json!({"apiVersion": "v1", "kind": "Node", "spec": {}, "metadata": {"name": "n1"}}),
        );
        cluster.disturb(Disturbance::Collection);
        assert_eq!(object(&cluster, ObservedKind::CiliumNode), None);
    }

    #[test]
    fn a_deletion_that_no_undo_may_do_is_a_violation() {
        let unlabelled = cluster(json!({"rack": "a"}));
        delete(&unlabelled, Taking::Allowed, version(&unlabelled)).unwrap();
        let of_apply = cluster(ours());
        delete(&of_apply, Taking::Forbidden, version(&of_apply)).unwrap();
        let unguarded = cluster(ours());
        delete(&unguarded, Taking::Allowed, ObjectVersion::default()).unwrap();
        let running = cluster(ours());
        running.disturb(Disturbance::AgentStart);
        let labels = &object(&running, ObservedKind::CiliumNode).unwrap()["metadata"]["labels"];
        assert_eq!(*labels, Value::Null, "an agent replaces them");
        delete(&running, Taking::Allowed, version(&running)).unwrap();
        for (cluster, what) in [
            (unlabelled, "without our label"),
            (of_apply, "outside an undo"),
            (unguarded, "unguarded"),
            (running, "running agent"),
        ] {
            let violations = cluster.violations().join("; ");
            assert!(violations.contains(what), "{what}: {violations}");
        }
    }
}
