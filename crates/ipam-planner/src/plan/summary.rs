//! Counts of a plan. Nothing is counted as good that some part of the plan speaks against.

use std::collections::BTreeSet;

use super::change::{Action, Change, NodeChange, Target, node_changes};
use super::document::Summary;
use super::document_lb::LbSummary;
use super::document_pod_pools::PodPoolSummary;
use super::drift::Drift;
use super::{Misplaced, Plan};
use ipam_core::model::{NodeName, Severity};

impl Summary {
    pub(super) fn new(plan: &Plan) -> Summary {
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
            nodes: all_nodes(plan),
            errors: found(Severity::Error),
            warnings: found(Severity::Warning),
            drifted: plan.drift.len(),
            irreversible: plan
                .changes
                .iter()
                .filter(|change| !change.can_be_undone())
                .count(),
            load_balancing: LbSummary::new(plan),
            pod_pools: PodPoolSummary::new(plan),
            ports: plan
                .changes
                .iter()
                .filter(|change| matches!(change, Change::Port(_)))
                .count(),
        }
    }

    /// Whether the cluster is what the files say, as far as the plan can tell.
    pub fn is_as_the_files_say(&self) -> bool {
        self.changes_nothing()
            && self.unchanged == self.nodes
            && (self.blocked, self.misplaced, self.drifted, self.errors) == (0, 0, 0, 0)
    }

    /// Whether there is nothing to write.
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

/// Unchanged nodes against which nothing speaks.
fn as_the_files_say(plan: &Plan, misplaced: &BTreeSet<&NodeName>) -> usize {
    let drifted: BTreeSet<&NodeName> = plan.drift.iter().map(Drift::node).collect();
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
