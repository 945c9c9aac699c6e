//! Counts of a plan. An object counts as unchanged only if no part of the plan says otherwise.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{LbSummary, PodPoolSummary};
use crate::plan::change::{Action, Change, NodeChange, Target, node_changes};
use crate::plan::drift::Drift;
use crate::plan::{LeftOut, Misplaced, Plan, candidates};
use ipam_core::model::{NodeName, Severity, grouped_digits};

/// Counts of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Nodes that get a block.
    pub assign: usize,
    /// Nodes that lose their block.
    pub release: usize,
    /// Nodes whose block is written to another field.
    pub update: usize,
    /// Objects that are deleted.
    pub delete: usize,
    /// Held blocks that change.
    pub moved: usize,
    /// Changes that must wait.
    pub blocked: usize,
    /// Nodes that match the files: nothing changes or waits, no block is misplaced, no field
    /// drifted, and no check found an error.
    pub unchanged: usize,
    /// Nodes with a block that the files would not give them today.
    pub misplaced: usize,
    /// Nodes that get a block of a later pool because a better one is full.
    pub fell_over: usize,
    /// All nodes.
    pub nodes: usize,
    /// Errors that the checks found.
    pub errors: usize,
    /// Warnings that the checks gave.
    pub warnings: usize,
    /// Nodes with a field, or a port of their VM, that differs from what it should show.
    pub drifted: usize,
    /// Changes that cannot be undone.
    pub irreversible: usize,
    /// LoadBalancer pools and Services.
    pub load_balancing: LbSummary,
    /// Pools of Pods, and the nodes that use them.
    pub pod_pools: PodPoolSummary,
    /// Ports of VMs whose pairs change.
    pub ports: usize,
    /// Blocks that only a CiliumNode or an unread annotation shows, and that a person must approve
    /// before they are written.
    pub needs_approval: usize,
    /// What the limit of the plan leaves out; absent for a whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

impl Plan {
    /// Number of such changes.
    pub(super) fn count(&self, is_meant: impl Fn(&Change) -> bool) -> usize {
        let changes = self.changes.iter();
        changes.filter(|change| is_meant(change)).count()
    }
}

impl Summary {
    pub(in crate::plan) fn new(plan: &Plan) -> Summary {
        let nodes = || node_changes(&plan.changes);
        let count = |action: Action| nodes().filter(|change| change.action == action).count();
        let found = |severity| {
            plan.findings
                .iter()
                .filter(|finding| finding.severity == severity)
                .count()
        };
        let misplaced: BTreeSet<&NodeName> = plan
            .misplaced
            .iter()
            .map(|Misplaced { node, .. }| node)
            .collect();
        Summary {
            assign: count(Action::Assign),
            update: count(Action::Update),
            release: count(Action::Release),
            delete: 0,
            moved: nodes().filter(|change| moves_a_block(change)).count(),
            blocked: plan.blocked.len(),
            unchanged: as_the_files_say(plan, &misplaced),
            misplaced: misplaced.len(),
            fell_over: nodes()
                .filter(|change| candidates::full_pool(change).is_some())
                .count(),
            nodes: all_nodes(plan),
            errors: found(Severity::Error),
            warnings: found(Severity::Warning),
            drifted: drifted_nodes(plan).len(),
            irreversible: plan.count(|change| !change.can_be_undone()),
            load_balancing: LbSummary::new(plan),
            pod_pools: PodPoolSummary::new(plan),
            ports: plan.count(|change| matches!(change, Change::Port(_))),
            needs_approval: plan
                .changes
                .iter()
                .map(|change| change.needs_approval().len())
                .sum(),
            left_out: plan.left_out,
        }
    }

    /// Whether the cluster matches the files, by everything that the plan knows. A limited plan
    /// does not know it.
    pub fn matches_the_files(&self) -> bool {
        self.changes_nothing()
            && self.left_out.is_none()
            && self.unchanged == self.nodes
            && (self.blocked, self.misplaced, self.drifted, self.errors) == (0, 0, 0, 0)
    }

    /// `3 blocks shown only by a CiliumNode or an unread annotation need approval`; `None` without
    /// any.
    pub fn approval_headline(&self) -> Option<String> {
        match self.needs_approval {
            0 => None,
            1 => Some(
                "1 block shown only by a CiliumNode or an unread annotation needs approval"
                    .to_owned(),
            ),
            several => Some(format!(
                "{} blocks shown only by a CiliumNode or an unread annotation need approval",
                grouped_digits(several)
            )),
        }
    }

    /// Whether the plan has nothing to write.
    pub fn changes_nothing(&self) -> bool {
        self.assign + self.release + self.update + self.delete + self.ports == 0
            && self.load_balancing.changes_nothing()
            && self.pod_pools.changes_nothing()
    }
}

/// Whether a block that the written field shows is replaced by another one.
fn moves_a_block(change: &NodeChange) -> bool {
    !change.after.is_empty()
        && change
            .before
            .iter()
            .any(|before| !change.after.contains(before))
}

fn node_of(target: &Target) -> Option<&NodeName> {
    match target {
        Target::Node(node) => Some(node),
        Target::AddressPool(_)
        | Target::Service(_)
        | Target::PodPool(_)
        | Target::NodeConfig(_)
        | Target::Port(_) => None,
    }
}

/// Each node has a change, waits, or is unchanged.
fn all_nodes(plan: &Plan) -> usize {
    let changed = node_changes(&plan.changes).map(|change| &change.node);
    let blocked = plan
        .blocked
        .iter()
        .filter_map(|blocked| node_of(&blocked.target));
    let unchanged = plan.unchanged.iter().filter_map(node_of);
    changed
        .chain(blocked)
        .chain(unchanged)
        .collect::<BTreeSet<_>>()
        .len()
}

fn drifted_nodes(plan: &Plan) -> BTreeSet<&NodeName> {
    plan.drift.iter().map(Drift::node).collect()
}

/// Unchanged nodes against which nothing speaks.
fn as_the_files_say(plan: &Plan, misplaced: &BTreeSet<&NodeName>) -> usize {
    let drifted = drifted_nodes(plan);
    let errors = plan
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    let faulty = errors
        .flat_map(|finding| finding.subjects())
        .filter(|subject| subject.kind == "Node");
    let faulty: BTreeSet<&str> = faulty.map(|subject| subject.name.as_str()).collect();
    let is_good = |node: &&NodeName| {
        !misplaced.contains(*node) && !drifted.contains(*node) && !faulty.contains(node.as_str())
    };
    plan.unchanged
        .iter()
        .filter_map(node_of)
        .filter(is_good)
        .count()
}

#[cfg(test)]
mod tests {
    use crate::plan::change::tests::update;
    use crate::plan::{Change, Plan, PlanDocument};

    #[test]
    fn blocks_that_need_approval_are_counted_and_named() {
        let changes = vec![
            Change::Node(Box::new(update("n1", true))),
            Change::Node(Box::new(update("n2", false))),
        ];
        let plan = Plan {
            changes,
            ..Plan::default()
        };
        let document = PlanDocument::new(&plan, "pools");
        assert_eq!(document.summary.needs_approval, 1);
        assert_eq!(
            document.summary.approval_headline().unwrap(),
            "1 block shown only by a CiliumNode or an unread annotation needs approval"
        );
        let json = serde_json::to_value(&document).unwrap();
        assert_eq!(
            json["changes"][0]["needs_approval"],
            serde_json::json!([{
                "block": "10.20.128.0/17",
                "source": "CiliumNode.spec.ipam.podCIDRs",
                "writer": {"manager": "agent", "time": "2026-02-01T10:00:00Z"},
                "code": "in-no-pool",
                "reason": "in no pool",
            }])
        );
        assert!(json["changes"][1].get("needs_approval").is_none());
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(PlanDocument::parse(&text).unwrap(), document);
    }

    #[test]
    fn without_such_blocks_there_is_no_headline() {
        let document = PlanDocument::new(&Plan::default(), "pools");
        assert_eq!(document.summary.approval_headline(), None);
    }
}
