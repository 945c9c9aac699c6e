//! Our custom resources: the definition of each kind, the conversion of its objects to documents,
//! and its status. Converts objects to text and JSON. Never reads or writes them.

mod definition;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::documents::{API_VERSION, SourceFile};
use ipam_cilium::observed::ObjectVersion;
use ipam_desired::CustomKind;

pub use definition::definitions;

/// Status of an IPPool.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: i64,
    /// Nodes that have a block of it.
    pub nodes: i64,
    /// Numbers of blocks, per family.
    pub blocks: Vec<FamilyBlocks>,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// Blocks of one family.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FamilyBlocks {
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// Blocks in all ranges, capped at 2^63-1.
    pub total: i64,
    /// Blocks that nodes hold or pins name.
    pub used: i64,
    /// Blocks that no node can get: reserved, excluded, claimed, quarantined, or otherwise in use.
    pub reserved: i64,
    /// Free blocks, capped at 2^63-1.
    pub free: i64,
}

/// Status of a NodeAssignment or ServiceAssignment.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssignmentStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: i64,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// Status of the Policy.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: i64,
    /// Changes that wait for approval.
    pub waiting: i64,
    /// Changes that are blocked.
    pub blocked: i64,
    /// Nodes with a misplaced block. Older operators do not write this field.
    #[serde(default)]
    pub misplaced: i64,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// A `metav1.Condition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub about: String,
    /// `True`, `False` or `Unknown`.
    pub status: ConditionStatus,
    /// Generation of the spec that this status describes.
    pub observed_generation: i64,
    /// Time of the last change of `status`.
    pub last_transition_time: String,
    /// Reason as one word, for programs.
    pub reason: String,
    /// Message for people.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// Keeps a deleted pool until no node has a block of it.
pub const FINALIZER: &str = "cilium-ipam.io/in-use";

/// Whether an object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectState {
    Present,
    /// Deleted, and kept by a finalizer.
    Deleting,
}

/// An object as stored by the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredObject {
    pub kind: CustomKind,
    /// Name of the object.
    pub name: String,
    /// UID and resourceVersion.
    pub version: ObjectVersion,
    /// `metadata.generation`: counts changes of the spec.
    pub generation: i64,
    pub state: ObjectState,
    pub finalizers: Vec<String>,
    pub spec: Value,
    /// The document; `None` for deleted objects that ask for nothing.
    pub document: Option<SourceFile>,
    pub status: Value,
}

#[derive(Deserialize)]
struct Written {
    metadata: WrittenMetadata,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMetadata {
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    generation: i64,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    finalizers: Vec<String>,
}

fn path(kind: CustomKind, name: &str) -> Arc<str> {
    format!("{}/{name}", kind.resource()).into()
}

/// A deleted pool keeps its blocks and gives no new ones. A deleted pin or policy has no document.
fn document(kind: CustomKind, name: &str, spec: &Value, state: ObjectState) -> Option<SourceFile> {
    let mut spec = spec.clone();
    match (state, kind) {
        (ObjectState::Present, _) => {}
        // A subnet of Neutron has no blocks to keep.
        (ObjectState::Deleting, CustomKind::IpPool) if spec["neutron"].is_object() => return None,
        (ObjectState::Deleting, CustomKind::IpPool) => {
            if let Some(fields) = spec.as_object_mut() {
                fields.insert("disabled".to_owned(), json!(true));
            }
        }
        (ObjectState::Deleting, _) => return None,
    }
    let object = json!({"apiVersion": API_VERSION, "kind": kind.as_str(), "metadata": {"name": name}, "spec": spec});
    let text = serde_yaml::to_string(&object).unwrap_or_else(|_| object.to_string());
    Some(SourceFile {
        path: path(kind, name),
        text: text.into(),
    })
}

impl StoredObject {
    /// Reads an object.
    ///
    /// # Errors
    /// Fails if a field has the wrong type, or `metadata.name` is missing.
    pub fn read(kind: CustomKind, object: &Value) -> Result<StoredObject, serde_json::Error> {
        let Written {
            metadata,
            spec,
            status,
        } = Written::deserialize(object)?;
        let WrittenMetadata {
            name,
            uid,
            resource_version,
            generation,
            deletion_timestamp,
            finalizers,
        } = metadata;
        let state = if deletion_timestamp.is_some() {
            ObjectState::Deleting
        } else {
            ObjectState::Present
        };
        let version = ObjectVersion {
            uid,
            resource_version,
        };
        let document = document(kind, &name, &spec, state);
        Ok(StoredObject {
            kind,
            name,
            version,
            generation,
            state,
            finalizers,
            spec,
            document,
            status,
        })
    }

    /// Path of the object's document in findings and plans.
    pub fn path(&self) -> Arc<str> {
        path(self.kind, &self.name)
    }

    /// The document with another spec.
    pub fn document_with(&self, spec: &Value) -> Option<SourceFile> {
        document(self.kind, &self.name, spec, self.state)
    }

    /// Whether the finalizer of `cilium-ipam` is missing.
    pub fn lacks_finalizer(&self) -> bool {
        self.kind == CustomKind::IpPool
            && self.state == ObjectState::Present
            && !self.is_held_by_us()
    }

    /// Whether the object has the finalizer of `cilium-ipam`.
    pub fn is_held_by_us(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| finalizer == FINALIZER)
    }

    /// Finalizers of the object, including the finalizer of `cilium-ipam`.
    pub fn finalizers_with_ours(&self) -> Vec<String> {
        self.finalizers_without_ours()
            .into_iter()
            .chain([FINALIZER.to_owned()])
            .collect()
    }

    /// Finalizers of the object without the finalizer of `cilium-ipam`.
    pub fn finalizers_without_ours(&self) -> Vec<String> {
        self.finalizers
            .iter()
            .filter(|finalizer| *finalizer != FINALIZER)
            .cloned()
            .collect()
    }
}
