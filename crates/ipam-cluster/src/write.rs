//! Guarded writes, and the patches that changes of a plan become. It must never decide whether to
//! write.

mod nodes;

use serde_json::{Value, json};

use super::LeaseName;
use ipam_cilium::lbipam::{AddressPoolApi, AddressPoolManifest};
use ipam_cilium::observed::{
    CLAIMS_KEY, CLAIMS_NAME, CLAIMS_REVISION_KEY, DEPARTED_KEY, NodeConfigApi, OWN_NAMESPACE,
    OWNER_LABEL, ObjectVersion, PodPoolApi,
};
use ipam_core::claims::{Claims, DepartedBlocks, DepartedPart};
use ipam_core::model::{AddressPoolName, NodeName, ServiceName};
use ipam_desired::CustomKind;
use ipam_plan::plan::{
    AddressPoolChange, AddressPoolObject, PodPoolChange, PodPoolObject, ServiceChange,
};

/// The object that a write changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Node(NodeName),
    CiliumNode(NodeName),
    /// A `CiliumNodeConfig`, in that version: its namespace and name.
    NodeConfig(NodeConfigApi, String, String),
    /// A `CiliumPodIPPool`, in that version.
    PodPool(PodPoolApi, String),
    /// A `CiliumLoadBalancerIPPool`, in that version.
    AddressPool(AddressPoolApi, AddressPoolName),
    Service(ServiceName),
    /// The ConfigMap of claims.
    Claims,
    /// A ConfigMap of blocks of deleted nodes.
    Departed(DepartedPart),
    Lease(LeaseName),
    /// A custom resource of `cilium-ipam`, by its name.
    Custom(CustomKind, String),
    /// Status of a custom resource of `cilium-ipam`.
    Status(CustomKind, String),
    /// A Pod, by its namespace and name.
    Pod(String, String),
    /// The eviction of a Pod, by its namespace and name.
    Eviction(String, String),
    /// A ConfigMap with a record of a migration.
    MigrationRecord(String),
    /// An Event that is created; the server chooses its name.
    Event {
        /// Namespace in which the Event is created.
        namespace: &'static str,
    },
}

/// How a write changes its object.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// JSON merge patch, RFC 7386. It contains the UID and resourceVersion that it depends on: the
    /// server answers 409 when either has changed. So it may be sent twice.
    Patch(Value),
    /// Server-side apply as our field manager, by force, with the guards as in a patch. Fields that
    /// it does not name stay.
    Apply(Value),
    /// Creates an object; the server answers 409 if it exists.
    Create(Value),
    /// Deletes the object, if it has this UID and resourceVersion. An empty UID matches any object.
    Delete(ObjectVersion),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub target: Target,
    pub operation: Operation,
}

/// A write that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub version: ObjectVersion,
}

/// A write that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object has changed, is gone, or has another UID. Nothing was written.
    #[error("it has changed since it was read: {0}")]
    Superseded(String),
    /// The server refuses this write, and would refuse every retry.
    #[error("the server refused it: {0}")]
    Refused(String),
    /// The user has no permission for the write.
    #[error("no permission: {0}")]
    Forbidden(String),
    /// The server was busy for longer than the patience. Nothing was written.
    #[error("the server is too busy: {0}")]
    Busy(String),
    /// The server did not answer: the write may have happened or not.
    #[error("no answer, so it may have been written or not: {0}")]
    Unknown(String),
}

impl Write {
    /// Replaces the claims if they are still at `version`; without one, creates them. `revision` is
    /// the commit of the files, for people who read the object.
    pub fn claims(
        claims: &Claims,
        revision: Option<&str>,
        version: Option<&ObjectVersion>,
    ) -> Write {
        let data = json!({CLAIMS_KEY: claims.to_json(), CLAIMS_REVISION_KEY: revision});
        Write {
            target: Target::Claims,
            operation: replace_data(CLAIMS_NAME, data, version),
        }
    }

    /// Replaces a part of the blocks of deleted nodes if it is still at `version`; without one,
    /// creates it.
    pub fn departed(
        part: DepartedPart,
        blocks: &DepartedBlocks,
        version: Option<&ObjectVersion>,
    ) -> Write {
        let data = json!({DEPARTED_KEY: blocks.to_text()});
        Write {
            target: Target::Departed(part),
            operation: replace_data(part.as_str(), data, version),
        }
    }
}

/// Replaces the data of our own ConfigMap if it is still at `version`; without one, creates it.
fn replace_data(name: &str, mut data: Value, version: Option<&ObjectVersion>) -> Operation {
    if let Some(version) = version {
        return Operation::Patch(json!({"metadata": guard(version), "data": data}));
    }
    // Only in a patch does null mean anything: it removes a key.
    data.as_object_mut()
        .into_iter()
        .for_each(|data| data.retain(|_, value| !value.is_null()));
    Operation::Create(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": own_metadata(name), "data": data}),
    )
}

/// Metadata of an object that `cilium-ipam` creates.
pub(super) fn own_metadata(name: &str) -> Value {
    let (label, value) = OWNER_LABEL;
    json!({"name": name, "namespace": OWN_NAMESPACE, "labels": {label: value}})
}

/// The part of a patch that makes it fail when the object has changed.
pub(super) fn guard(version: &ObjectVersion) -> Value {
    let ObjectVersion {
        uid,
        resource_version,
    } = version;
    json!({"uid": uid, "resourceVersion": resource_version})
}

impl From<&AddressPoolChange> for Write {
    fn from(change: &AddressPoolChange) -> Write {
        let AddressPoolChange {
            object: AddressPoolObject { api, name },
            before,
            after,
            guard,
            ..
        } = change;
        let object = |manifest: &AddressPoolManifest, metadata: Value| {
            let AddressPoolManifest {
                labels,
                annotations,
                spec,
            } = manifest;
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
                // Server-side apply removes only fields that we applied. The fields to remove may
                // have another owner.
                match remove_absent(&old, &mut new) {
                    Removal::Some => Operation::Patch(new),
                    Removal::None => Operation::Apply(new),
                }
            }
        };
        Write {
            target: Target::AddressPool(*api, name.clone()),
            operation,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Removal {
    Some,
    None,
}

/// Puts a `null` wherever the new object lacks a field of the old one.
fn remove_absent(old: &Value, new: &mut Value) -> Removal {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return Removal::None;
    };
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

impl From<&PodPoolChange> for Write {
    fn from(change: &PodPoolChange) -> Write {
        let (label, value) = OWNER_LABEL;
        let (target, api, kind, mut metadata) = match &change.object {
            PodPoolObject::Pool(api, name) => (
                Target::PodPool(*api, name.clone()),
                api.as_str(),
                "CiliumPodIPPool",
                json!({"name": name}),
            ),
            PodPoolObject::Choice(api, namespace, name) => {
                let metadata = json!({"name": name, "namespace": namespace});
                let target = Target::NodeConfig(*api, namespace.clone(), name.clone());
                (target, api.as_str(), "CiliumNodeConfig", metadata)
            }
        };
        metadata["labels"] = json!({label: value});
        let operation = match (&change.before, &change.after) {
            (_, None) => Operation::Delete(change.guard.clone()),
            (None, Some(after)) => Operation::Create(
                json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": after.to_json()}),
            ),
            (Some(before), Some(after)) => {
                let mut spec = after.to_json();
                remove_absent(&before.to_json(), &mut spec);
                if spec.get("nodeSelector").is_some() {
                    // Our selectors are written only as expressions.
                    spec["nodeSelector"]["matchLabels"] = Value::Null;
                }
                metadata["uid"] = json!(change.guard.uid);
                metadata["resourceVersion"] = json!(change.guard.resource_version);
                Operation::Patch(json!({"metadata": metadata, "spec": spec}))
            }
        };
        Write { target, operation }
    }
}

impl From<&ServiceChange> for Write {
    fn from(change: &ServiceChange) -> Write {
        let ServiceChange {
            service,
            key,
            after,
            guard,
            ..
        } = change;
        let mut patch = json!({"metadata": self::guard(guard)});
        patch["metadata"]["annotations"] = json!({*key: after});
        Write {
            target: Target::Service(service.clone()),
            operation: Operation::Patch(patch),
        }
    }
}
