//! A guarded write as it goes to the server.

use serde_json::{Value, json};

use crate::claims::Claims;
use crate::lbipam::{AddressPoolApi, AddressPoolManifest};
use crate::model::{AddressPoolName, NodeName, ServiceName};
use crate::observed::{CLAIMS_KEY, CLAIMS_NAME, OWN_NAMESPACE, OWNER_LABEL, ObjectVersion};
use crate::plan::{AddressPoolChange, Change, Edit, NodeChange, PoolAction, ServiceChange};

/// An object that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A Node.
    Node(NodeName),
    /// A `CiliumLoadBalancerIPPool`, in that version.
    AddressPool(AddressPoolApi, AddressPoolName),
    /// A Service.
    Service(ServiceName),
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
    /// Server-side apply as our field manager, over what others wrote of the same fields, with the guards as in a patch. What it does not
    /// name stays.
    Apply(Value),
    /// A new object; the server answers 409 when there is one.
    Create(Value),
    /// Deletes the object, if it is this one in this version.
    Delete(ObjectVersion),
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
        match change {
            Change::AddressPool(change) => Write::from(&**change),
            Change::Service(change) => Write::from(change),
            Change::Node(change) => Write::from(change),
        }
    }
}

impl From<&AddressPoolChange> for Write {
    fn from(change: &AddressPoolChange) -> Write {
        let AddressPoolChange { action, name, api, before, after, guard, .. } = change;
        let object = |manifest: &AddressPoolManifest, metadata: Value| {
            let AddressPoolManifest { labels, annotations, spec } = manifest;
            let mut object = json!({"apiVersion": api.as_str(), "kind": "CiliumLoadBalancerIPPool", "metadata": metadata, "spec": spec});
            object["metadata"]["name"] = json!(name.as_str());
            object["metadata"]["labels"] = json!(labels);
            if !annotations.is_empty() {
                object["metadata"]["annotations"] = json!(annotations);
            }
            object
        };
        let operation = match (before, after) {
            (None, None) | (Some(_), None) => Operation::Delete(guard.clone()),
            (None, Some(after)) => Operation::Create(object(after, json!({}))),
            (Some(before), Some(after)) => {
                let (old, mut new) = (object(before, json!({})), object(after, self::guard(guard)));
                // Server-side apply removes only what we applied ourselves, and what must go may be anybody's.
                if remove_absent(&old, &mut new) == Removal::Some || *action == PoolAction::Restore {
                    Operation::Patch(new)
                } else {
                    Operation::Apply(new)
                }
            }
        };
        Write { target: Target::AddressPool(*api, name.clone()), operation }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Removal {
    Some,
    None,
}

/// Puts a `null` wherever the old object has a field that the new one has not.
fn remove_absent(old: &Value, new: &mut Value) -> Removal {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return Removal::None };
    let mut removal = Removal::None;
    for (key, old) in old {
        let removed = match new.get_mut(key) {
            Some(new) => remove_absent(old, new),
            None => {
                new.insert(key.clone(), Value::Null);
                Removal::Some
            }
        };
        if removed == Removal::Some {
            removal = Removal::Some;
        }
    }
    removal
}

impl From<&ServiceChange> for Write {
    fn from(change: &ServiceChange) -> Write {
        let ServiceChange { service, key, after, guard, .. } = change;
        let mut patch = json!({"metadata": self::guard(guard)});
        patch["metadata"]["annotations"] = json!({*key: after});
        Write { target: Target::Service(service.clone()), operation: Operation::Patch(patch) }
    }
}

impl From<&NodeChange> for Write {
    fn from(change: &NodeChange) -> Write {
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
