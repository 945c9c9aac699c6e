//! A guarded write as it goes to the server.

use serde_json::{Value, json};

use crate::claims::Claims;
use crate::model::NodeName;
use crate::observed::{CLAIMS_KEY, CLAIMS_NAME, OWN_NAMESPACE, ObjectVersion};
use crate::plan::{Change, Edit};

/// Label of everything that we create; nothing else is ever ours to delete.
pub const OWNER_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "cilium-ipam");

/// An object that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A Node.
    Node(NodeName),
    /// The ConfigMap of claims.
    Claims,
    /// The Lease that says who applies.
    Lock,
}

/// How it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// JSON merge patch, RFC 7386, with the UID and resourceVersion that it depends on inside it: the server answers 409 when
    /// either has moved. So it may be sent twice.
    Patch(Value),
    /// A new object; the server answers 409 when there is one.
    Create(Value),
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The object.
    pub target: Target,
    /// What is done with it.
    pub operation: Operation,
}

/// A write that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The object's version from now on.
    pub version: ObjectVersion,
}

/// A write that did not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object has changed, is gone, or is another one: nothing was written.
    #[error("it has changed since it was read: {0}")]
    Superseded(String),
    /// The server refuses this write, and would again.
    #[error("the server refused it: {0}")]
    Refused(String),
    /// The server refuses us altogether.
    #[error("no permission: {0}")]
    Forbidden(String),
    /// The server had no time for it, for longer than it was waited for: nothing was written.
    #[error("the server is too busy: {0}")]
    Busy(String),
    /// No answer: it may have been written or not.
    #[error("no answer, so it may have been written or not: {0}")]
    Unknown(String),
}

impl Write {
    /// Replaces the claims, if they are still at this version; without one, if there are none yet.
    pub fn claims(claims: &Claims, version: Option<&ObjectVersion>) -> Write {
        let data = json!({CLAIMS_KEY: claims.to_json()});
        let operation = match version {
            Some(version) => Operation::Patch(json!({"metadata": guard(version), "data": data})),
            None => Operation::Create(json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": own_metadata(CLAIMS_NAME),
                "data": data,
            })),
        };
        Write { target: Target::Claims, operation }
    }
}

/// Metadata of an object that we create.
pub(super) fn own_metadata(name: &str) -> Value {
    let (label, value) = OWNER_LABEL;
    json!({"name": name, "namespace": OWN_NAMESPACE, "labels": {label: value}})
}

/// The part of a patch that makes it fail when the object has moved.
pub(super) fn guard(version: &ObjectVersion) -> Value {
    let ObjectVersion { uid, resource_version } = version;
    json!({"uid": uid, "resourceVersion": resource_version})
}

impl From<&Change> for Write {
    fn from(change: &Change) -> Write {
        let mut patch = json!({"metadata": guard(&change.guard)});
        match &change.edit {
            Edit::NodeSpec { pod_cidrs } => {
                let texts: Vec<String> = pod_cidrs.iter().map(ToString::to_string).collect();
                // Both fields: the API server lets podCIDR win where they differ (pkg/apis/core/v1/conversion.go).
                patch["spec"] = json!({"podCIDR": texts.first(), "podCIDRs": texts});
            }
            Edit::NodeAnnotations { values } => {
                for (key, block) in values {
                    patch["metadata"]["annotations"][*key] = json!(block.map(|block| block.to_string()));
                }
            }
        }
        Write { target: Target::Node(change.node.clone()), operation: Operation::Patch(patch) }
    }
}
