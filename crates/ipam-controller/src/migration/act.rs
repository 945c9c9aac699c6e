//! Sends one step of a node, also its IPAM mode, by a `CiliumNodeConfig` that its agent reads when
//! it starts. It must never decide which step.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::assign::assign_outcome;
use super::{Host, MigrationError, MigrationEvent};
use ipam_cilium::observed::{OWNER_LABEL, ObjectVersion, Observed, range_setting};
use ipam_cluster::{MIGRATION_LABEL, Operation, Target, Workloads, Write, WriteError, version_of};
use ipam_core::model::{IpamMode, NodeName};
use ipam_core::net::{Block, Family};
use ipam_migrate::migration::{
    Action, AssignOutcome, CordonedBefore, MIGRATION_ANNOTATION, NodeRecord, NodeSeen, PodReference,
};
use ipam_plan::plan::{HOSTNAME_LABEL, node_config_name};

/// What became of a step. Its effect is read from the cluster, not from here.
pub(super) enum Sent {
    /// The server answered the step, or the step lost a race.
    Yes,
    /// The server refused Pods' evictions, and why.
    EvictionsRefused(Vec<String>),
    /// The server refuses the step at every attempt, for this reason.
    Refused(String),
}

pub(super) async fn send<C: Workloads, H: Host>(
    cluster: &C,
    host: &H,
    record: &NodeRecord,
    action: &Action,
) -> Result<Sent, MigrationError> {
    let node = &record.node;
    let (name, write) = match action {
        Action::Evict(pods) => return evict(cluster, host, node, pods).await,
        Action::DeletePods(pods) => return delete_pods(cluster, node, pods).await,
        // Other modules carry out these steps.
        Action::Assign | Action::Check => return Ok(Sent::Yes),
        Action::Cordon(version) => ("patch nodes", cordon(record, version)),
        Action::Uncordon { version, before } => ("patch nodes", uncordon(node, version, *before)),
        Action::CompleteNode { version, patch } => {
            ("patch nodes", complete(node, version, patch.clone()))
        }
        Action::DeleteNode(version) => ("delete nodes", delete(Target::Node, node, version)),
        Action::CreateNode(manifest) => {
            let create = Operation::Create(manifest.clone());
            ("create nodes", of(Target::Node(node.clone()), create))
        }
        Action::DeleteCiliumNode(version) => {
            let write = delete(Target::CiliumNode, node, version);
            ("delete ciliumnodes", write)
        }
    };
    outcome(node, name, cluster.write(&write).await)
}

/// Marks the node, and cordons it unless its Pods keep their addresses.
fn cordon(record: &NodeRecord, version: &ObjectVersion) -> Write {
    let spec = match record.method.renumbers() {
        true => json!({"unschedulable": true}),
        false => json!({}),
    };
    patch_node(&record.node, version, json!(record.migration), spec)
}

fn uncordon(node: &NodeName, version: &ObjectVersion, before: CordonedBefore) -> Write {
    let unschedulable = match before {
        CordonedBefore::Yes => json!({}),
        CordonedBefore::No => json!({"unschedulable": null}),
    };
    patch_node(node, version, Value::Null, unschedulable)
}

fn complete(node: &NodeName, version: &ObjectVersion, mut patch: Value) -> Write {
    patch["metadata"]["uid"] = json!(version.uid);
    patch["metadata"]["resourceVersion"] = json!(version.resource_version);
    of(Target::Node(node.clone()), Operation::Patch(patch))
}

fn delete(kind: fn(NodeName) -> Target, node: &NodeName, version: &ObjectVersion) -> Write {
    of(kind(node.clone()), Operation::Delete(version.clone()))
}

fn of(target: Target, operation: Operation) -> Write {
    Write { target, operation }
}

fn patch_node(node: &NodeName, version: &ObjectVersion, mark: Value, spec: Value) -> Write {
    let metadata = json!({
        "uid": version.uid, "resourceVersion": version.resource_version,
        "annotations": {MIGRATION_ANNOTATION: mark},
    });
    let patch = json!({"metadata": metadata, "spec": spec});
    of(Target::Node(node.clone()), Operation::Patch(patch))
}

async fn evict<C: Workloads, H: Host>(
    cluster: &C,
    host: &H,
    node: &NodeName,
    pods: &[PodReference],
) -> Result<Sent, MigrationError> {
    let mut refusals = Vec::new();
    for PodReference {
        namespace,
        name,
        uid,
    } in pods
    {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let target = Target::Eviction(namespace.clone(), name.clone());
        let answer = cluster
            .write(&of(target, Operation::Create(eviction)))
            .await;
        if let Sent::Refused(why) = outcome(node, "create pods/eviction", answer)? {
            let why = format!("Pod {namespace}/{name}: {why}");
            host.report(&MigrationEvent::EvictionRefused { node, why: &why });
            refusals.push(why);
        }
    }
    Ok(Sent::EvictionsRefused(refusals))
}

async fn delete_pods<C: Workloads>(
    cluster: &C,
    node: &NodeName,
    pods: &[PodReference],
) -> Result<Sent, MigrationError> {
    for PodReference {
        namespace,
        name,
        uid,
    } in pods
    {
        let version = ObjectVersion {
            uid: uid.clone(),
            resource_version: String::new(),
        };
        let target = Target::Pod(namespace.clone(), name.clone());
        let answer = cluster.write(&of(target, Operation::Delete(version))).await;
        if let refused @ Sent::Refused(_) = outcome(node, "delete pods", answer)? {
            return Ok(refused);
        }
    }
    Ok(Sent::Yes)
}

fn outcome<T>(
    node: &NodeName,
    action: &'static str,
    answer: Result<T, WriteError>,
) -> Result<Sent, MigrationError> {
    match answer {
        Ok(_) | Err(WriteError::Superseded(_) | WriteError::Busy(_) | WriteError::Unknown(_)) => {
            Ok(Sent::Yes)
        }
        Err(WriteError::Refused(why)) => Ok(Sent::Refused(why)),
        Err(WriteError::Forbidden(why)) => Err(MigrationError::Forbidden {
            node: node.clone(),
            action,
            why,
        }),
    }
}

/// Sets the mode, or removes the setting.
pub(super) async fn set_mode<C: Workloads>(
    cluster: &C,
    observed: &Observed,
    record: &NodeRecord,
    seen: &NodeSeen,
    mode: Option<IpamMode>,
) -> Result<AssignOutcome, MigrationError> {
    let blocked = |why: &str| Ok(AssignOutcome::Blocked(why.to_owned()));
    let Some(api) = observed.node_config_api() else {
        return blocked("the server does not serve CiliumNodeConfigs");
    };
    let Some(namespace) = observed.cilium.namespace.clone() else {
        return blocked("the namespace of Cilium is unknown");
    };
    let Some(node) = &seen.node else {
        return blocked("the Node is gone");
    };
    let Some(hostname) = node.node.labels.get(HOSTNAME_LABEL) else {
        return blocked("the Node has no label kubernetes.io/hostname");
    };
    let name = config_name(&record.node);
    let target = Target::NodeConfig(api, namespace.clone(), name.clone());
    let existing = cluster.object(&target).await?;
    let operation = match (existing, mode) {
        (None, None) => return Ok(AssignOutcome::Shown),
        (Some(existing), None) => Operation::Delete(version_of(&existing)),
        (Some(existing), Some(mode)) if sets(&existing, mode) => return Ok(AssignOutcome::Shown),
        (Some(existing), Some(mode)) => {
            let ObjectVersion {
                uid,
                resource_version,
            } = version_of(&existing);
            Operation::Patch(json!({
                "metadata": {"uid": uid, "resourceVersion": resource_version},
                "spec": {"defaults": {"ipam": mode.as_str()}},
            }))
        }
        (None, Some(mode)) => {
            let (label, value) = OWNER_LABEL;
            let owner = json!({
                "apiVersion": "v1", "kind": "Node", "name": record.node.as_str(), "uid": node.node.uid,
            });
            Operation::Create(json!({
                "apiVersion": api.as_str(), "kind": "CiliumNodeConfig",
                "metadata": {
                    "name": name, "namespace": namespace, "ownerReferences": [owner],
                    "labels": {label: value, MIGRATION_LABEL: record.migration},
                },
                "spec": {
                    "nodeSelector": {"matchLabels": {HOSTNAME_LABEL: hostname}},
                    "defaults": {"ipam": mode.as_str()},
                },
            }))
        }
    };
    Ok(assign_outcome(
        cluster.write(&Write { target, operation }).await,
    ))
}

/// Not the one that sets ranges: this one goes when `cilium-config` has the mode.
fn config_name(node: &NodeName) -> String {
    format!("cilium-ipam-mode-{node}")
}

fn sets(config: &Value, mode: IpamMode) -> bool {
    config["spec"]["defaults"]["ipam"] == mode.as_str()
}

/// Removes the setting that moved the node, if the Node itself has the blocks to go back to. `None`:
/// it has others, or the setting is not only ours, so the blocks must be written.
pub(super) async fn remove_setting<C: Workloads>(
    cluster: &C,
    observed: &Observed,
    record: &NodeRecord,
    seen: &NodeSeen,
) -> Option<AssignOutcome> {
    let node = seen.node.as_ref()?;
    let of_node: BTreeSet<&Block> = node.node.spec.iter().collect();
    if of_node != record.from.iter().collect() {
        return None;
    }
    let name = node_config_name(&record.node);
    let config = observed.node_configs.named(&name)?;
    let api = observed.node_config_api()?;
    let namespace = observed.cilium.namespace.clone()?;
    let is_range = |key: &String| {
        Family::BOTH
            .iter()
            .any(|family| range_setting(*family) == key)
    };
    if !config.is_ours() || !config.defaults.keys().all(is_range) {
        return None;
    }
    let write = Write {
        target: Target::NodeConfig(api, namespace, name),
        operation: Operation::Delete(config.version.clone()),
    };
    Some(assign_outcome(cluster.write(&write).await))
}
