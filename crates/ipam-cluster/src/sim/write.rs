//! Applies a write of a client, as the API server would.

use serde_json::Value;

use super::super::rules::{patched, version_of};
use super::super::{Operation, Target, Write, WriteError, Written};
use super::state::{Sender, SimState, Writer, blocks, shows_blocks};
use ipam_cilium::observed::{CLAIMS_NAME, ObservedKind};

impl SimState {
    /// Applies a write that reaches the server.
    pub(super) fn write(&mut self, sender: &Sender, write: &Write) -> Result<Written, WriteError> {
        let (kind, name) = match &write.target {
            Target::Node(name) => (ObservedKind::Node, name.to_string()),
            Target::CiliumNode(name) => (ObservedKind::CiliumNode, name.to_string()),
            Target::Claims => (ObservedKind::Claims, CLAIMS_NAME.to_owned()),
            Target::Lease(_)
            | Target::Custom(..)
            | Target::Status(..)
            | Target::Event { .. }
            | Target::AddressPool(..)
            | Target::Service(_)
            | Target::NodeConfig(..)
            | Target::PodPool(_) => {
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
            (Operation::Create(object), None)
                if kind == ObservedKind::CiliumNode && !self.is_owned(object) =>
            {
                // Garbage collection removes an object without an owner.
                self.note(|| format!("{} {} is collected at once", key.0.resource(), key.1));
                Ok(Written {
                    version: version_of(object),
                })
            }
            (Operation::Create(object), None) => {
                if kind == ObservedKind::CiliumNode {
                    blocks(object)
                        .into_iter()
                        .for_each(|block| self.check_block(sender, &key.1, block));
                }
                self.create_by(object.clone(), Writer::Ours);
                let created = self.objects.get(&key).map(version_of);
                created.map_or_else(
                    || Err(WriteError::Refused("no such kind".to_owned())),
                    |version| Ok(Written { version }),
                )
            }
            (Operation::Apply(_) | Operation::Delete(_), _) => Err(WriteError::Refused(
                "only patches and creations are simulated".to_owned(),
            )),
            (Operation::Patch(_), None) => Err(WriteError::Superseded("not found".to_owned())),
            (Operation::Patch(patch), Some(before)) => {
                let after = patched(&before, patch)?;
                if shows_blocks(kind) {
                    self.check_write(sender, &key.1, patch, &before, &after);
                }
                // As on the real server, a patch without a change keeps the resourceVersion.
                if after != before {
                    self.put(key.clone(), after, Writer::Ours);
                }
                Ok(Written {
                    version: version_of(&self.objects[&key]),
                })
            }
        }
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
