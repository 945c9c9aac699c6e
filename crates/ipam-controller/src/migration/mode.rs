//! Sets the IPAM mode of one node by a `CiliumNodeConfig`, which its agent reads when it starts, and
//! removes such settings. It must never choose the mode.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::MigrationError;
use super::assign::outcome;
use ipam_cilium::observed::{OWNER_LABEL, ObjectVersion, Observed, range_setting};
use ipam_cluster::{MIGRATION_LABEL, Operation, Target, Workloads, Write, version_of};
use ipam_core::model::{IpamMode, NodeName};
use ipam_core::net::{Block, Family};
use ipam_planner::migration::{AssignOutcome, NodeRecord, NodeSeen};
use ipam_planner::plan::{HOSTNAME_LABEL, node_config_name};

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
    Ok(outcome(cluster.write(&Write { target, operation }).await))
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
    Some(outcome(cluster.write(&write).await))
}
