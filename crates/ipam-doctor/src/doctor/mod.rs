//! Examines a running cluster: compares every source of a node's block with the others, by the
//! rules of this Cilium version.
//!
//! Reads the observed cluster and, if given, the files. Never writes. An object that could not be
//! read never counts as absent.

mod annotations;
mod announced_services;
mod announcing;
mod balancer_ranges;
mod blocks;
mod capacity;
mod chaining;
mod cluster_cidr_use;
mod endpoint_routes;
mod future_ranges;
mod identity;
mod ineffective;
mod installation;
mod operator_errors;
mod orphans;
mod pod_pool_setting;
mod pod_pool_surplus;
mod pod_pool_use;
mod route_dump;
mod switched_off;
mod unannounced_pods;
mod waiting;
mod without_block;

use std::fmt::Display;

use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, NodeName, ObjectRef, Rule, Severity, named_nodes as named};
use ipam_core::text::joined;
use ipam_desired::Desired;
use ipam_plan::check;
use ipam_plan::plan::plan;
use orphans::Orphans;

pub(crate) use announced_services::unselective;
pub use identity::{Conclusion, Confidence, conclusions};
pub use route_dump::{Path, Route, RouteDump, RouteDumpError, Usage};

/// Names that the message of a finding spells out; more are counted.
const NAMED: usize = 10;

/// Percentage of used blocks at which a pool counts as nearly full.
const NEARLY: u128 = 90;

/// Whether new nodes will soon get no block because most blocks are in use.
fn is_nearly_full(used: u128, total: u128) -> bool {
    total > 0 && used.saturating_mul(100) / total >= NEARLY
}

type Check = fn(&Observed) -> Vec<Finding>;

const RULES: [Check; 23] = [
    installation::no_cilium,
    installation::modes_of_other_allocators,
    installation::agents_of_two_versions,
    installation::settings_newer_than_agents,
    installation::rival_allocators,
    announced_services::unused_advertisements,
    ineffective::invalid_selectors,
    ineffective::peering_policies,
    ineffective::speakers_without_peer,
    ineffective::without_nodes,
    switched_off::bgp,
    switched_off::l2,
    switched_off::lb_ipam,
    ineffective::ipv6_before_1_19,
    annotations::faults,
    installation::faults_of_release,
    operator_errors::of_earlier_nodes,
    pod_pool_use::missing_defaults,
    balancer_ranges::over_other_addresses,
    announced_services::unannounced,
    annotations::unread,
    waiting::services,
    operator_errors::refused_soon,
];

const RULES_OF_POD_BLOCKS: [Check; 12] = [
    blocks::held_twice,
    blocks::changes_at_restart,
    blocks::unused_specs,
    endpoint_routes::missing,
    endpoint_routes::across_subnets,
    announcing::blocks_of_others,
    ineffective::pod_cidrs_in_multi_pool,
    check::shared_slots::refused_at_operator_start,
    pod_pool_use::overlaps,
    pod_pool_use::lost,
    future_ranges::of_cluster,
    future_ranges::over_other_addresses,
];

/// All findings, the worst first. Rules on files need `desired`, and rules on routes need
/// `route_dumps`.
pub fn examine(
    desired: Option<&Desired>,
    observed: &Observed,
    route_dumps: &[RouteDump],
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(observed)).collect();
    // The rules about blocks of Pods assume that Pods have addresses of these blocks.
    let of_blocks: &[Check] = match observed.chaining_mode() {
        None => &RULES_OF_POD_BLOCKS,
        Some(_) => &[chaining::colliding_ranges],
    };
    findings.extend(of_blocks.iter().flat_map(|rule| rule(observed)));
    let orphans = Orphans::of(observed);
    findings.extend(orphans.finding(observed));
    findings.extend(future_ranges::machines_in_service_cidr(observed));
    findings.extend(check::over_held_blocks(observed));
    findings.extend(pod_pool_setting::differences(observed));
    findings.extend(operator_errors::all(observed, &orphans));
    findings.extend(ineffective::absent_selectors(observed, &findings));
    findings.extend(check::observed(observed));
    let no_files = Desired::default();
    findings.extend(check::unseen(desired.unwrap_or(&no_files), observed));
    let plan = desired.map(|desired| plan(desired, observed, Vec::new()));
    findings.extend(without_block::nodes(observed, plan.as_ref(), &orphans));
    if let Some((desired, plan)) = desired.zip(plan.as_ref()) {
        findings.extend(check::examination(desired, observed));
        let is_chained = observed.chaining_mode().is_some();
        let outside = (!is_chained).then(|| future_ranges::outside_pools(desired, observed));
        findings.extend(outside.flatten());
        findings.extend(capacity::of_pools(desired, observed));
        findings.extend(capacity::of_plan(plan));
        findings.extend(capacity::pairs_of_plan(plan, observed));
    }
    findings.extend(capacity::of_cluster_pool(observed, &orphans));
    findings.extend(pod_pool_use::exhausted(desired, observed, &orphans));
    findings.extend(route_dump::audit(route_dumps, desired, observed));
    findings.sort();
    findings.dedup();
    findings
}

fn finding(severity: Severity, rule: &'static str, message: String) -> Finding {
    Finding::new(severity, Rule(rule), message)
}

/// Adds nodes to a finding as its subjects.
fn about_nodes<'n>(finding: Finding, names: impl IntoIterator<Item = &'n NodeName>) -> Finding {
    finding.about_all(names.into_iter().map(ObjectRef::node))
}

/// `a b`, for blocks and ranges.
pub(crate) fn spaced<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    joined(items, " ")
}
