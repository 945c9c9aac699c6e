//! An object of one of our kinds, and its conversion to a document.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::documents::{API_VERSION, SourceFile};
use ipam_cilium::observed::ObjectVersion;
use ipam_desired::CustomKind;

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
    /// Kind.
    pub kind: CustomKind,
    /// Name.
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

    /// The path of its document in findings and plans.
    pub fn path(&self) -> Arc<str> {
        path(self.kind, &self.name)
    }

    /// The document with another spec.
    pub fn document_with(&self, spec: &Value) -> Option<SourceFile> {
        document(self.kind, &self.name, spec, self.state)
    }

    /// Whether our finalizer is missing.
    pub fn lacks_finalizer(&self) -> bool {
        self.kind == CustomKind::IpPool
            && self.state == ObjectState::Present
            && !self.is_held_by_us()
    }

    /// Whether it has our finalizer.
    pub fn is_held_by_us(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| finalizer == FINALIZER)
    }

    /// Its finalizers, including ours.
    pub fn finalizers_with_ours(&self) -> Vec<String> {
        self.finalizers_without_ours()
            .into_iter()
            .chain([FINALIZER.to_owned()])
            .collect()
    }

    /// Its finalizers without ours.
    pub fn finalizers_without_ours(&self) -> Vec<String> {
        self.finalizers
            .iter()
            .filter(|finalizer| *finalizer != FINALIZER)
            .cloned()
            .collect()
    }
}
