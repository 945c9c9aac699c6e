//! Sends one step of a node. It must never decide which.

use serde_json::{Value, json};

use super::{Host, MigrationError, MigrationEvent};
use ipam_cilium::observed::ObjectVersion;
use ipam_cluster::{Operation, Target, Workloads, Write, WriteError};
use ipam_core::model::NodeName;
use ipam_planner::migration::{
    Action, CordonedBefore, MIGRATION_ANNOTATION, NodeRecord, PodReference,
};

/// What became of a step. Its effect is read from the cluster, not from here.
pub(super) enum Sent {
    /// It was answered, or lost a race.
    Yes,
    /// The server refused Pods' evictions, and why.
    EvictionsRefused(Vec<String>),
    /// The server refuses it for good, and why.
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
        // Carried out by their own modules.
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
