//! Nodes with misplaced blocks: the files would not give them these blocks today.

use std::collections::{BTreeMap, BTreeSet};

use super::finding;
use crate::plan::{Misplaced, MisplacedReason, Plan};
use ipam_core::model::{Finding, NodeName, PoolName, Rule, Severity, grouped_digits};

/// Findings of a plan about held blocks: one for each reason and pool, and one for each object that
/// fills a pool alone.
pub(super) fn of_plan(plan: &Plan) -> Vec<Finding> {
    let fillers = plan
        .findings
        .iter()
        .filter(|finding| finding.rule == Rule("one-node-fills-pool"));
    let fillers = fillers.map(|finding| {
        let consequence = "other nodes do not get these blocks".to_owned();
        Finding {
            consequence,
            ..finding.clone()
        }
    });
    misplaced(plan).into_iter().chain(fillers).collect()
}

fn misplaced(plan: &Plan) -> Vec<Finding> {
    let mut causes: BTreeMap<(&MisplacedReason, Option<&PoolName>), Vec<&Misplaced>> =
        BTreeMap::new();
    // These reasons have their own rules, which cover ipam `multi-pool`, too.
    let is_reported_here = |one: &&Misplaced| {
        !matches!(
            one.reason,
            MisplacedReason::InNoPool | MisplacedReason::UsedByOthers
        )
    };
    for one in plan.misplaced.iter().filter(is_reported_here) {
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
        .map(|one| format!("`{}`: {} in {}", one.node, one.block, one.field));
    let finding = finding(Severity::Warning, "block-misplaced", message).seen(evidence);
    let finding =
        finding.causes("the nodes keep their blocks; new nodes with the same labels get others");
    let finding = finding.help(reason.help());
    let finding = super::about_nodes(finding, nodes);
    match blocks.first().and_then(|one| one.origin.as_ref()) {
        Some(origin) => finding.at(origin, "the pool of these blocks"),
        None => finding,
    }
}
