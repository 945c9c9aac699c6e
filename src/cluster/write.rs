//! A guarded write as it goes to the server.

use serde_json::{Value, json};

use crate::model::NodeName;
use crate::plan::{Change, Edit};

/// A merge patch of one Node, with the UID and resourceVersion that it was planned on inside it: the server answers 409
/// when either has moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The node.
    pub node: NodeName,
    /// JSON merge patch, RFC 7386.
    pub patch: Value,
}

/// A write that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The object's new resourceVersion.
    pub resource_version: String,
}

/// A write that did not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object has changed, is gone, or is another one: nothing was written.
    #[error("the node has changed since it was planned: {0}")]
    Superseded(String),
    /// The server refuses this write, and would again.
    #[error("the server refused it: {0}")]
    Refused(String),
    /// The server refuses us altogether.
    #[error("no permission: {0}")]
    Forbidden(String),
    /// No answer: it may have been written or not.
    #[error("no answer, so it may have been written or not: {0}")]
    Unknown(String),
}

impl From<&Change> for Write {
    fn from(change: &Change) -> Write {
        let guard = json!({"uid": change.guard.uid, "resourceVersion": change.guard.resource_version});
        let mut patch = json!({"metadata": guard});
        match &change.edit {
            Edit::NodeSpec { pod_cidrs } => {
                let texts: Vec<String> = pod_cidrs.iter().map(ToString::to_string).collect();
                // Both fields: the API server lets podCIDR win where they differ (pkg/apis/core/v1/conversion.go).
                patch["spec"] = json!({"podCIDR": texts.first(), "podCIDRs": texts});
            }
            Edit::NodeAnnotations { values } => {
                for (key, block) in values {
                    patch["metadata"]["annotations"][*key] = json!(block.to_string());
                }
            }
        }
        Write { node: change.node.clone(), patch }
    }
}
