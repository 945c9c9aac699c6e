//! Nodes that hold a block which the files would not give them today.

use std::collections::{BTreeMap, BTreeSet};

use super::finding;
use crate::plan::{Misplaced, MisplacedReason, Plan, plan};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, NodeName, ObjectRef, PoolName, Rule, Severity, grouped_digits};
use ipam_desired::Desired;

/// What a plan tells of blocks that are held: one finding for each reason and pool, and the objects
/// that fill a pool alone.
pub(super) fn of_plan(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let mut plan = plan(desired, observed, Vec::new());
    plan.findings
        .retain(|finding| finding.rule == Rule("one-node-fills-pool"));
    plan.findings.iter_mut().for_each(|finding| {
        finding.consequence = "these blocks are kept from other nodes".to_owned();
    });
    let mut findings = misplaced(&plan);
    findings.append(&mut plan.findings);
    findings
}

fn misplaced(plan: &Plan) -> Vec<Finding> {
    let mut causes: BTreeMap<(&MisplacedReason, Option<&PoolName>), Vec<&Misplaced>> =
        BTreeMap::new();
    // These have rules of their own, which know ipam `multi-pool` too.
    let has_a_rule = |one: &&Misplaced| {
        !matches!(
            one.reason,
            MisplacedReason::InNoPool | MisplacedReason::UsedByOthers
        )
    };
    for one in plan.misplaced.iter().filter(has_a_rule) {
        causes
            .entry((&one.reason, one.pool.as_ref()))
            .or_default()
            .push(one);
    }
    causes
        .into_iter()
        .map(|((reason, pool), blocks)| of_cause(reason, pool, &blocks))
        .collect()
}

fn of_cause(reason: &MisplacedReason, pool: Option<&PoolName>, blocks: &[&Misplaced]) -> Finding {
    let nodes: BTreeSet<&NodeName> = blocks.iter().map(|one| &one.node).collect();
    let nodes: Vec<&NodeName> = nodes.into_iter().collect();
    let place = pool
        .map(|pool| format!(" of pool `{pool}`"))
        .unwrap_or_default();
    let (nodes_named, all) = (super::named(&nodes), grouped_digits(nodes.len()));
    let message = format!("{nodes_named} ({all} in all): blocks{place} are misplaced: {reason}");
    let evidence = blocks
        .iter()
        .take(super::NAMED)
        .map(|one| format!("`{}`: {} in {}", one.node, one.block, one.field));
    let finding = finding(Severity::Warning, "block-misplaced", message).seen(evidence);
    let finding =
        finding.causes("the nodes keep their blocks; new nodes with the same labels get others");
    let finding = finding.help(reason.help());
    let finding = match nodes.as_slice() {
        [only] => finding.about(ObjectRef::node(only)),
        _ => finding,
    };
    match blocks.first().and_then(|one| one.origin.as_ref()) {
        Some(origin) => finding.at(origin, "the pool of these blocks"),
        None => finding,
    }
}
