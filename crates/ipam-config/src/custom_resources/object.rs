//! An object of one of our kinds, and the document that it is.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::documents::{API_VERSION, SourceFile};
use ipam_cilium::observed::ObjectVersion;
use ipam_desired::CustomKind;

/// Keeps a pool until no node has a block of it.
pub const FINALIZER: &str = "cilium-ipam.io/in-use";

/// Whether somebody has deleted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectState {
    /// It stays.
    Present,
    /// It goes as soon as nothing holds it.
    Going,
}

/// An object as the server keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredObject {
    /// Kind.
    pub kind: CustomKind,
    /// Name.
    pub name: String,
    /// UID and resourceVersion.
    pub version: ObjectVersion,
    /// Counts changes of the spec.
    pub generation: i64,
    /// Whether it has been deleted.
    pub state: ObjectState,
    /// What holds it.
    pub finalizers: Vec<String>,
    /// What is asked for.
    pub spec: Value,
    /// The document that it is.
    pub document: Option<SourceFile>,
    /// What was told of it last.
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

/// A pool that goes keeps what it gave and gives nothing new; a pin or a policy that goes asks for
/// nothing any more.
fn document(kind: CustomKind, name: &str, spec: &Value, state: ObjectState) -> Option<SourceFile> {
    let mut spec = spec.clone();
    match (state, kind) {
        (ObjectState::Present, _) => {}
        // A subnet of Neutron gave no node anything that it could keep.
        (ObjectState::Going, CustomKind::IpPool) if spec["neutron"].is_object() => return None,
        (ObjectState::Going, CustomKind::IpPool) => {
            if let Some(fields) = spec.as_object_mut() {
                fields.insert("disabled".to_owned(), json!(true));
            }
        }
        (ObjectState::Going, _) => return None,
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
    /// JSON that is none.
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
            ObjectState::Going
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

    /// The name of its document, as findings and plans give it.
    pub fn path(&self) -> Arc<str> {
        path(self.kind, &self.name)
    }

    /// The document that it would be with another spec.
    pub fn document_with(&self, spec: &Value) -> Option<SourceFile> {
        document(self.kind, &self.name, spec, self.state)
    }

    /// Whether it lacks our finalizer and should have it.
    pub fn lacks_finalizer(&self) -> bool {
        self.kind == CustomKind::IpPool
            && self.state == ObjectState::Present
            && !self.is_held_by_us()
    }

    /// Whether our finalizer is what it waits for.
    pub fn is_held_by_us(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| finalizer == FINALIZER)
    }

    /// Its finalizers with ours among them.
    pub fn finalizers_with_ours(&self) -> Vec<String> {
        self.finalizers_without_ours()
            .into_iter()
            .chain([FINALIZER.to_owned()])
            .collect()
    }

    /// Its finalizers, ours taken away.
    pub fn finalizers_without_ours(&self) -> Vec<String> {
        self.finalizers
            .iter()
            .filter(|finalizer| *finalizer != FINALIZER)
            .cloned()
            .collect()
    }
}
