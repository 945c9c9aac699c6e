//! Where the nodes of a migration move, in which order, and by which change: the blocks that the
//! files would give to nodes that hold none, in waves by failure domain.
//!
//! It imagines a cluster in which these nodes hold nothing and their blocks are taken, and plans
//! for it. So a node moves to exactly the blocks of a plan, and its change is that of a plan with a
//! pin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::drain::Workloads;
use super::record::{Method, NodeRecord};
use super::schedule::{NodeMove, Wave};
use super::step::AssignOutcome;
use ipam_cilium::observed::{ModeSeen, NodeConfig, NodeConfigs, Observed};
use ipam_core::model::{
    IpamMode, NodeName, Origin, PerFamily, PoolName, WritePath, WritePathChoice,
};
use ipam_core::net::Block;
use ipam_core::text::most_similar;
use ipam_core::text::natural_order;
use ipam_desired::{Desired, Pin};
use ipam_plan::check::pools_outside;
use ipam_plan::plan::{BlockedReason, Change, Plan, Target, node_config_name, plan};

/// What the files would give a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewBlocks {
    pub(super) pool: PoolName,
    pub(super) blocks: PerFamily<Block>,
}

/// The new blocks of each node, or why it gets none. `kept` are blocks that a node keeps, such as
/// those of the family that is not misplaced.
pub(super) fn targets(
    desired: &Desired,
    observed: &Observed,
    kept: &BTreeMap<NodeName, Option<(PoolName, PerFamily<Block>)>>,
) -> BTreeMap<NodeName, Result<NewBlocks, BlockedReason>> {
    let mut imagined = observed.clone();
    let mut wanted = desired.clone();
    wanted.policy.write_path = WritePathChoice::Forced(match observed.cilium.mode() {
        ModeSeen::Known(IpamMode::ClusterPool) => WritePath::CiliumNode,
        _ => WritePath::NodeSpec,
    });
    forget_settings(&mut imagined, kept.keys());
    for (node, kept) in kept {
        forget(&mut imagined, node);
        if let (Some((pool, blocks)), false) = (kept, wanted.pins.contains_key(node)) {
            let origin = desired.pools.get(pool).map(|pool| pool.origin.clone());
            wanted.pins.extend(origin.map(|origin| {
                let pin = Pin {
                    node: node.clone(),
                    pool: pool.clone(),
                    blocks: *blocks,
                    origin,
                };
                (node.clone(), pin)
            }));
        }
    }
    let plan = plan(&wanted, &imagined, Vec::new());
    read(plan, kept.keys())
}

fn read<'n>(
    plan: Plan,
    nodes: impl Iterator<Item = &'n NodeName>,
) -> BTreeMap<NodeName, Result<NewBlocks, BlockedReason>> {
    let mut given = BTreeMap::new();
    for change in plan.changes {
        if let Change::Node(change) = change
            && let Some(pool) = change.pool
        {
            let blocks = change.after.into_iter().collect();
            given.insert(change.node, Ok(NewBlocks { pool, blocks }));
        }
    }
    for blocked in plan.blocked {
        if let Target::Node(node) = blocked.target {
            given.insert(node, Err(blocked.reason));
        }
    }
    nodes
        .filter_map(|node| Some((node.clone(), given.remove(node)?)))
        .collect()
}

/// Removes what a node holds. Its blocks stay taken.
fn forget(imagined: &mut Observed, name: &NodeName) {
    if let Some(node) = imagined.nodes.get_mut(name) {
        let node = Arc::make_mut(node);
        imagined.unattributed.append(&mut node.shown);
        node.spec = PerFamily::NONE;
        node.annotation = PerFamily::NONE;
        node.old_annotation = PerFamily::NONE;
        node.unreadable_spec = None;
        node.unreadable_annotation = None;
    }
    if let Some(cilium_node) = imagined.cilium_nodes.remove(name) {
        imagined
            .unattributed
            .extend(cilium_node.pod_cidrs.iter().copied());
        imagined
            .unattributed
            .extend(cilium_node.near.iter().copied());
    }
}

/// Removes the settings that moved the nodes before. Their blocks stay taken.
fn forget_settings<'n>(imagined: &mut Observed, nodes: impl Iterator<Item = &'n NodeName>) {
    let names: BTreeSet<String> = nodes.map(node_config_name).collect();
    let (forgotten, others): (Vec<NodeConfig>, Vec<NodeConfig>) = imagined
        .node_configs
        .iter()
        .cloned()
        .partition(|config| names.contains(&config.name));
    if forgotten.is_empty() {
        return;
    }
    let ranges = forgotten.iter().flat_map(NodeConfig::ranges);
    imagined.unattributed.extend(ranges);
    imagined.node_configs = NodeConfigs::new(others);
}

/// The nodes by failure domain. Nodes without a domain go last.
pub(super) fn waves<'n>(
    observed: &Observed,
    domain_label: &str,
    nodes: impl Iterator<Item = &'n NodeName>,
) -> Vec<Wave> {
    let mut by_domain: BTreeMap<Option<&String>, Vec<NodeName>> = BTreeMap::new();
    for name in nodes {
        let labels = observed.nodes.get(name).map(|node| &node.labels);
        let domain = labels.and_then(|labels| labels.get(domain_label));
        by_domain.entry(domain).or_default().push(name.clone());
    }
    let wave = |(domain, mut nodes): (Option<&String>, Vec<NodeName>)| {
        nodes.sort_by(|a, b| natural_order(a.as_str(), b.as_str()));
        Wave {
            domain: domain.cloned(),
            nodes,
        }
    };
    let mut waves: Vec<Wave> = by_domain.into_iter().map(wave).collect();
    waves.sort_by(|a, b| match (&a.domain, &b.domain) {
        (Some(a), Some(b)) => natural_order(a, b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    waves
}

/// What a person should know of the whole schedule.
pub(super) fn remarks(
    desired: &Desired,
    observed: &Observed,
    workloads: &Workloads,
    moves: &BTreeMap<NodeName, NodeMove>,
) -> Vec<String> {
    let mut remarks: Vec<String> = pools_outside(desired, observed)
        .into_iter()
        .map(|finding| format!("{}: packets to Pods there are masqueraded", finding.message))
        .collect();
    if moves.len() > 1 {
        remarks.extend(no_domains(&desired.policy.failure_domain, observed));
    }
    let evicts = moves.values().any(|one| one.method.renumbers());
    if let (true, Some(why)) = (evicts, workloads.hidden_budgets()) {
        let why = why.escape_debug();
        remarks.push(format!(
            "PodDisruptionBudgets are unknown, so evictions may be refused that this schedule does not show: {why}"
        ));
    }
    remarks
}

/// A remark if no node has the label, so that all nodes are one wave.
fn no_domains(label: &str, observed: &Observed) -> Option<String> {
    let nodes = observed.nodes.values();
    let labels: BTreeSet<&str> = nodes
        .flat_map(|node| node.labels.keys().map(String::as_str))
        .collect();
    if labels.contains(label) {
        return None;
    }
    let advice = match most_similar(label, labels) {
        Some(similar) => format!("; did you mean `{}`?", similar.escape_debug()),
        None => String::new(),
    };
    Some(format!(
        "no node has the label `{}` (`limits.failureDomain` of the Policy), so all nodes are one wave{advice}",
        label.escape_debug()
    ))
}

/// The change that writes the goal of the record.
///
/// # Errors
/// Fails if there is nothing to write, or if it cannot be written, and says which.
pub fn assignment(
    desired: &Desired,
    observed: &Observed,
    record: &NodeRecord,
) -> Result<Change, AssignOutcome> {
    let observed = as_changeable(observed.clone(), record);
    let Plan {
        changes, blocked, ..
    } = plan(&with_pin(desired.clone(), record), &observed, Vec::new());
    let target = Target::Node(record.node.clone());
    if let Some(blocked) = blocked.iter().find(|blocked| blocked.target == target) {
        let why = blocked.reason.to_string();
        // The agent or the operator made the CiliumNode anew since it was looked at.
        let is_back = observed.cilium_nodes.contains_key(&record.node);
        return Err(match (record.method, is_back) {
            (Method::CiliumNode, true) => AssignOutcome::Again(why),
            _ => AssignOutcome::Blocked(why),
        });
    }
    let change = changes.into_iter().find(|change| change.target() == target);
    change.ok_or(match record.method {
        // The CiliumNode was deleted, so a plan without changes saw another moment.
        Method::CiliumNode => {
            AssignOutcome::Again("another program wrote the CiliumNode".to_owned())
        }
        _ => AssignOutcome::Shown,
    })
}

/// The files with the record as a pin.
fn with_pin(mut desired: Desired, record: &NodeRecord) -> Desired {
    desired.policy.write_path = WritePathChoice::Forced(match record.method {
        Method::CiliumNode | Method::ToClusterPool => WritePath::CiliumNode,
        Method::NodeConfig => WritePath::NodeConfig,
        Method::NodeObject | Method::ToKubernetes => WritePath::NodeSpec,
    });
    // The schedule was made with the subnets; without them, the plan would wait for them.
    desired.neutron_pools.clear();
    let pin = Pin {
        node: record.node.clone(),
        pool: record.pool.clone(),
        blocks: record.goal().iter().copied().collect(),
        origin: Origin::whole_file(&Arc::from("the record of the migration")),
    };
    desired.pins.insert(record.node.clone(), pin);
    desired
}

/// The cluster in which a plan may change the node of the record.
fn as_changeable(mut observed: Observed, record: &NodeRecord) -> Observed {
    observed.migration = None;
    if let Some(node) = observed.nodes.get_mut(&record.node) {
        Arc::make_mut(node).migration = None;
    }
    match record.method {
        // The old agent still shows the old block, which the new Node does not have.
        Method::NodeObject => drop(observed.cilium_nodes.remove(&record.node)),
        Method::ToKubernetes => observed.cilium.mode_override = Some(IpamMode::Kubernetes),
        Method::CiliumNode | Method::NodeConfig | Method::ToClusterPool => {}
    }
    observed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::tests::observed_nodes;
    use crate::migration::{Budgets, Method};

    fn shown(observed: &Observed, label: &str) -> Vec<String> {
        let waves = waves(observed, label, observed.nodes.keys());
        let text = |wave: Wave| {
            let nodes: Vec<String> = wave.nodes.iter().map(ToString::to_string).collect();
            format!("{}: {}", wave.domain.unwrap_or_default(), nodes.join(" "))
        };
        waves.into_iter().map(text).collect()
    }

    #[test]
    fn waves_and_nodes_are_in_natural_order() {
        let observed = observed_nodes(&[
            ("n10", &[("rack", "rack-10")]),
            ("n2", &[("rack", "rack-10")]),
            ("a", &[]),
            ("n1", &[("rack", "rack-2")]),
        ]);
        let expected = ["rack-2: n1", "rack-10: n2 n10", ": a"];
        assert_eq!(shown(&observed, "rack"), expected);
    }

    #[test]
    fn hidden_budgets_are_told_only_where_pods_are_evicted() {
        let observed = observed_nodes(&[("a", &[("rack", "1")])]);
        let desired = Desired::default();
        let hidden = Workloads::new(Vec::new(), Budgets::Hidden("no permission".to_owned()));
        let told = |method: Method, workloads: &Workloads| {
            let one = NodeMove {
                node: "a".parse().unwrap(),
                uid: "u".to_owned(),
                method,
                pool: "rack-a".parse().unwrap(),
                from: Vec::new(),
                to: Vec::new(),
                reason: String::new(),
                steps: Vec::new(),
                risks: Vec::new(),
                pods: None,
                estimate: jiff::SignedDuration::ZERO,
            };
            let moves = [("a".parse().unwrap(), one)].into();
            remarks(&desired, &observed, workloads, &moves)
        };
        let all = told(Method::CiliumNode, &hidden);
        assert!(all[0].contains("does not show: no permission"), "{all:?}");
        assert!(told(Method::ToKubernetes, &hidden).is_empty());
        let known = Workloads::new(Vec::new(), Budgets::default());
        assert!(told(Method::CiliumNode, &known).is_empty());
    }

    #[test]
    fn a_label_that_no_node_has_is_told_with_a_similar_one() {
        let observed = observed_nodes(&[("a", &[("rack", "1")]), ("b", &[("zone", "1")])]);
        assert_eq!(no_domains("rack", &observed), None);
        let why = no_domains("rak", &observed).unwrap();
        assert!(why.contains("one wave; did you mean `rack`?"), "{why}");
        assert!(!no_domains("xyz", &observed).unwrap().contains("mean"));
    }
}
