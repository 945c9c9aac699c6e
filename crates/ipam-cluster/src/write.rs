//! A guarded write as it goes to the server.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::LeaseName;
use ipam_cilium::lbipam::{AddressPoolApi, AddressPoolManifest};
use ipam_cilium::observed::{
    CLAIMS_KEY, CLAIMS_NAME, CLAIMS_REVISION_KEY, IGNORE_ANNOTATION, NodeConfigApi, OWN_NAMESPACE,
    OWNER_LABEL, ObjectVersion, OperatorAttention, range_setting,
};
use ipam_core::claims::Claims;
use ipam_core::model::{AddressPoolName, NodeName, ServiceName};
use ipam_core::net::Block;
use ipam_core::neutron::Id;
use ipam_desired::CustomKind;
use ipam_planner::plan::{
    AddressPoolChange, Change, CiliumNodeObject, Edit, HOSTNAME_LABEL, NodeChange, NodeConfigEdit,
    NodeConfigObject, PodPoolChange, PodPoolObject, PoolAction, PortChange, ServiceChange,
};

/// An object that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A Node.
    Node(NodeName),
    /// A CiliumNode.
    CiliumNode(NodeName),
    /// A `CiliumNodeConfig`, in that version: its namespace and name.
    NodeConfig(NodeConfigApi, String, String),
    /// A `CiliumPodIPPool`.
    PodPool(String),
    /// A `CiliumLoadBalancerIPPool`, in that version.
    AddressPool(AddressPoolApi, AddressPoolName),
    /// A Service.
    Service(ServiceName),
    /// A port at OpenStack Neutron, which no cluster has.
    Port(Id),
    /// The ConfigMap of claims.
    Claims,
    /// A Lease.
    Lease(LeaseName),
    /// A custom resource of ours.
    Custom(CustomKind, String),
    /// Its status.
    Status(CustomKind, String),
    /// A new Event; the server names it.
    Event,
}

/// How it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// JSON merge patch, RFC 7386, with the UID and resourceVersion that it depends on inside it:
    /// the server answers 409 when either has moved. So it may be sent twice.
    Patch(Value),
    /// Server-side apply as our field manager, over what others wrote of the same fields, with the
    /// guards as in a patch. What it does not name stays.
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
    /// Creates the object that a change fills afterwards, without anything in it that an agent
    /// would read; `None` where there is one.
    pub fn preparing(change: &NodeChange) -> Option<Write> {
        match &change.edit {
            Edit::CiliumNode {
                object: CiliumNodeObject::New(attention),
                ..
            } => {
                let operation = Operation::Create(new_cilium_node(change, *attention, json!({})));
                Some(Write {
                    target: Target::CiliumNode(change.node.clone()),
                    operation,
                })
            }
            Edit::NodeConfig(config) => {
                let NodeConfigEdit {
                    api,
                    namespace,
                    name,
                    object,
                    ..
                } = &**config;
                let is_new = matches!(object, NodeConfigObject::New { .. });
                let operation = || {
                    node_config(
                        change,
                        *api,
                        (namespace, name),
                        json!({"defaults": {}}),
                        object,
                    )
                };
                let target = Target::NodeConfig(*api, namespace.clone(), name.clone());
                is_new.then(|| Write {
                    target,
                    operation: operation(),
                })
            }
            Edit::CiliumNode { .. } | Edit::NodeSpec { .. } | Edit::NodeAnnotations { .. } => None,
        }
    }

    /// Replaces the claims, if they are still at this version; without one, if there are none yet.
    /// `revision` is the commit of the files that they are made for, for people who look at them.
    pub fn claims(
        claims: &Claims,
        revision: Option<&str>,
        version: Option<&ObjectVersion>,
    ) -> Write {
        let mut data = json!({CLAIMS_KEY: claims.to_json(), CLAIMS_REVISION_KEY: revision});
        let operation = match version {
            Some(version) => Operation::Patch(json!({"metadata": guard(version), "data": data})),
            None => {
                // Only in a patch is null something: what is taken away.
                data.as_object_mut()
                    .into_iter()
                    .for_each(|data| data.retain(|_, value| !value.is_null()));
                let metadata = own_metadata(CLAIMS_NAME);
                Operation::Create(
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}),
                )
            }
        };
        Write {
            target: Target::Claims,
            operation,
        }
    }
}

/// Metadata of an object that we create.
pub(super) fn own_metadata(name: &str) -> Value {
    let (label, value) = OWNER_LABEL;
    json!({"name": name, "namespace": OWN_NAMESPACE, "labels": {label: value}})
}

/// The part of a patch that makes it fail when the object has moved.
pub(super) fn guard(version: &ObjectVersion) -> Value {
    let ObjectVersion {
        uid,
        resource_version,
    } = version;
    json!({"uid": uid, "resourceVersion": resource_version})
}

impl From<&Change> for Write {
    fn from(change: &Change) -> Write {
        match change {
            Change::AddressPool(change) => Write::from(&**change),
            Change::Service(change) => Write::from(change),
            Change::PodPool(change) => Write::from(&**change),
            Change::Port(change) => Write::from(&**change),
            Change::Node(change) => Write::from(change),
        }
    }
}

impl From<&AddressPoolChange> for Write {
    fn from(change: &AddressPoolChange) -> Write {
        let AddressPoolChange {
            action,
            name,
            api,
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
                // Server-side apply removes only what we applied ourselves, and what must go may be
                // anybody's.
                if remove_absent(&old, &mut new) == Removal::Some || *action == PoolAction::Restore
                {
                    Operation::Patch(new)
                } else {
                    Operation::Apply(new)
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

/// Puts a `null` wherever the old object has a field that the new one has not.
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
            PodPoolObject::Pool(name) => (
                Target::PodPool(name.clone()),
                "cilium.io/v2alpha1",
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
                    // It is written as expressions alone.
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

impl From<&PortChange> for Write {
    fn from(change: &PortChange) -> Write {
        let patch =
            json!({"allowed_address_pairs": change.pairs, "revision_number": change.revision});
        Write {
            target: Target::Port(change.port.clone()),
            operation: Operation::Patch(patch),
        }
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

impl From<&NodeChange> for Write {
    fn from(change: &NodeChange) -> Write {
        let mut patch = json!({"metadata": guard(&change.guard)});
        match &change.edit {
            Edit::NodeConfig(config) => {
                let NodeConfigEdit {
                    api,
                    namespace,
                    name,
                    ranges,
                    object,
                } = &**config;
                let settings = ranges
                    .iter()
                    .map(|block| (range_setting(block.family()).to_owned(), block.to_string()));
                let spec = json!({"defaults": settings.collect::<BTreeMap<_, _>>()});
                let target = Target::NodeConfig(*api, namespace.clone(), name.clone());
                return Write {
                    target,
                    operation: node_config(change, *api, (namespace, name), spec, object),
                };
            }
            Edit::CiliumNode { pod_cidrs, object } => {
                return cilium_node(change, &texts(pod_cidrs), object);
            }
            Edit::NodeSpec { pod_cidrs } => {
                let texts = texts(pod_cidrs);
                // Both fields: the API server lets podCIDR win where they differ
                // (pkg/apis/core/v1/conversion.go).
                patch["spec"] = json!({"podCIDR": texts.first(), "podCIDRs": texts});
            }
            Edit::NodeAnnotations { values } => {
                for (key, block) in values {
                    patch["metadata"]["annotations"][*key] =
                        json!(block.map(|block| block.to_string()));
                }
            }
        }
        Write {
            target: Target::Node(change.node.clone()),
            operation: Operation::Patch(patch),
        }
    }
}

fn texts(blocks: &[Block]) -> Vec<String> {
    blocks.iter().map(ToString::to_string).collect()
}

/// A CiliumNode belongs to its Node, and goes with it: an agent that starts finds it, and takes the
/// block from there.
fn cilium_node(change: &NodeChange, pod_cidrs: &[String], object: &CiliumNodeObject) -> Write {
    let spec = json!({"ipam": {"podCIDRs": pod_cidrs}});
    let operation = match object {
        CiliumNodeObject::Seen(version) => {
            Operation::Patch(json!({"metadata": guard(version), "spec": spec}))
        }
        CiliumNodeObject::New(attention) => {
            Operation::Create(new_cilium_node(change, *attention, spec))
        }
        CiliumNodeObject::Filled => {
            Operation::Create(new_cilium_node(change, OperatorAttention::Served, spec))
        }
    };
    Write {
        target: Target::CiliumNode(change.node.clone()),
        operation,
    }
}

fn new_cilium_node(change: &NodeChange, attention: OperatorAttention, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
        "metadata": {"name": change.node.as_str(), "ownerReferences": [owner(change)]}, "spec": spec});
    if attention == OperatorAttention::Ignored {
        object["metadata"]["annotations"] = json!({IGNORE_ANNOTATION: "true"});
    }
    object
}

fn owner(change: &NodeChange) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": change.node.as_str(), "uid": change.guard.uid})
}

/// It belongs to its Node, and goes with it.
fn node_config(
    change: &NodeChange,
    api: NodeConfigApi,
    (namespace, name): (&str, &str),
    mut spec: Value,
    object: &NodeConfigObject,
) -> Operation {
    match object {
        NodeConfigObject::Seen(version) => {
            Operation::Patch(json!({"metadata": guard(version), "spec": spec}))
        }
        NodeConfigObject::New { hostname } => {
            let (label, value) = OWNER_LABEL;
            spec["nodeSelector"] = json!({"matchLabels": {HOSTNAME_LABEL: hostname}});
            let metadata = json!({"name": name, "namespace": namespace, "labels": {label: value}, "ownerReferences": [owner(change)]});
            Operation::Create(
                json!({"apiVersion": api.as_str(), "kind": "CiliumNodeConfig", "metadata": metadata, "spec": spec}),
            )
        }
    }
}
