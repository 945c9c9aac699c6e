//! Checks of the files and of the cluster: one function for each rule, and every rule always runs.
//!
//! Never changes anything. An error in the files forbids planning from them; the caller enforces
//! this.

mod address_pools;
mod address_requests;
mod cluster;
mod files;
mod load_balancing;
mod lost_addresses;
mod names;
mod neutron;
pub mod operator_settings;
mod pod_limits;
mod releases;
mod retiring;
mod second_controllers;
pub mod shared_slots;
mod sharing;

use crate::plan::Outlook;
use ipam_cilium::observed::Observed;
use ipam_core::model::Finding;
use ipam_desired::Desired;

pub use address_requests::unread_request;
pub use cluster::unseen;
pub use files::is_private;
pub use neutron::pools_outside;
pub use pod_limits::over_held_blocks;
pub(crate) use releases::are_known;
pub use releases::{UNKNOWN_VERSION, about_blocks, about_cilium, about_services};
pub use second_controllers::second_controller;
pub use sharing::ways_to_share;

/// Findings about the files alone.
pub fn files(desired: &Desired) -> Vec<Finding> {
    let rules: [fn(&Desired) -> Vec<Finding>; 15] = [
        neutron::too_small_for_cilium,
        neutron::subnets_named_twice,
        files::overlapping_pools,
        files::block_pinned_twice,
        files::excluded_pins,
        files::unusable_address_space,
        files::foreign_address_space,
        files::equal_selectors,
        files::contradictory_selectors,
        files::pools_without_blocks,
        files::protections_beside_what_they_protect,
        address_pools::overlapping_address_pools,
        address_pools::pools_over_address_pools,
        address_pools::unusable_addresses,
        address_pools::addresses_pinned_twice,
    ];
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(desired)).collect();
    findings.sort();
    findings
}

/// The findings about the files that hold in this cluster.
pub fn files_in_cluster(
    findings: Vec<Finding>,
    desired: &Desired,
    observed: &Observed,
) -> Vec<Finding> {
    address_pools::unless_shared(findings, desired, observed)
}

/// Advice on the files, for `validate` and `doctor`. Plans leave it out, because nearly every plan
/// would have some.
pub fn advice(desired: &Desired) -> Vec<Finding> {
    names::labels_of_kubelets(desired)
}

/// Findings about LoadBalancer pools and Services of the cluster alone.
pub fn load_balancing(observed: &Observed) -> Vec<Finding> {
    let outlook = Outlook::new(observed);
    let mut findings = load_balancing::of_cluster(observed, &outlook);
    findings.extend(address_pools::that_go(observed));
    findings.extend(address_requests::of_cluster(observed, &outlook));
    findings.sort();
    findings
}

/// Findings about the cluster alone, except those of the doctor's own rules.
pub fn observed(observed: &Observed) -> Vec<Finding> {
    let mut findings = cluster::blind_spots(&Desired::default(), observed);
    findings.extend(releases::unfinished(&Desired::default(), observed));
    findings.extend(releases::unknown(observed));
    findings.extend(cluster::full_quarantine(observed));
    findings.extend(operator_settings::faults(&Desired::default(), observed));
    findings.extend(shared_slots::removed_at_operator_start(
        &Desired::default(),
        observed,
    ));
    let outlook = Outlook::new(observed);
    findings.extend(load_balancing::of_cluster(observed, &outlook));
    findings.extend(address_pools::that_go(observed));
    findings.extend(address_requests::of_cluster(observed, &outlook));
    findings.extend(observed.findings.iter().cloned());
    findings
}

/// Findings of the files compared with the cluster, except those that the doctor's own rules report
/// more exactly.
pub fn examination(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let rules: [fn(&Desired, &Observed) -> Vec<Finding>; 13] = [
        releases::acknowledged_and_active,
        releases::pools_outside,
        neutron::pools_outside,
        cluster::unreadable_range_settings,
        cluster::pools_without_nodes,
        cluster::pools_over_other_addresses,
        retiring::ranges,
        cluster::families_switched_off,
        names::missing_pinned_nodes,
        names::missing_protected_nodes,
        neutron::overlapping,
        neutron::resolved,
        neutron::held,
    ];
    rules
        .iter()
        .flat_map(|rule| rule(desired, observed))
        .chain(advice(desired))
        .collect()
}

/// Findings of the files compared with the cluster.
pub fn cluster(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let rules: [fn(&Desired, &Observed) -> Vec<Finding>; 21] = [
        releases::acknowledged_and_active,
        releases::pools_outside,
        releases::unfinished,
        cluster::nodes_left_to_others,
        neutron::pools_outside,
        cluster::unreadable_range_settings,
        neutron::overlapping,
        neutron::resolved,
        neutron::held,
        cluster::unseen_neighbours,
        cluster::pools_without_nodes,
        cluster::pools_over_other_addresses,
        retiring::ranges,
        cluster::blocks_held_twice,
        operator_settings::faults,
        pod_limits::over_block_size,
        shared_slots::removed_at_operator_start,
        cluster::families_switched_off,
        cluster::blind_spots,
        names::missing_pinned_nodes,
        names::missing_protected_nodes,
    ];
    let mut findings: Vec<Finding> = rules
        .iter()
        .flat_map(|rule| rule(desired, observed))
        .collect();
    findings.extend(releases::unknown(observed));
    findings.extend(cluster::full_quarantine(observed));
    findings.extend(load_balancing::of_cluster(
        observed,
        &Outlook::new(observed),
    ));
    findings.extend(observed.findings.iter().cloned());
    findings.sort();
    findings
}
