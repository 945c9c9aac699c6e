//! What is wrong or doubtful, one function for each rule; each gives findings and none stops
//! another.
//!
//! Decides nothing and changes nothing: an error in the files means that nothing may be planned
//! from them.

mod address_pools;
mod cluster;
mod files;
mod labels;
mod load_balancing;
mod names;
mod neutron;
mod sizes;

pub use cluster::{Holder, overlapping_holders};
pub use neutron::{
    NeutronDoubt, NeutronOverlap, NeutronRival, NeutronTrouble, neutron_overlaps, neutron_range,
    neutron_ranges, neutron_trouble,
};

use ipam_cilium::observed::Observed;
use ipam_core::model::Finding;
use ipam_desired::Desired;

/// What the files alone tell.
pub fn files(desired: &Desired) -> Vec<Finding> {
    let rules: [fn(&Desired) -> Vec<Finding>; 15] = [
        sizes::too_small_for_cilium,
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

/// Remarks on the files, for a person who asks about the files. Plans leave them out: nearly every
/// plan would have one.
pub fn advice(desired: &Desired) -> Vec<Finding> {
    labels::labels_of_kubelets(desired)
}

/// What the cluster alone tells of LoadBalancer pools and Services.
pub fn load_balancing(observed: &Observed) -> Vec<Finding> {
    let mut findings = load_balancing::of_cluster(observed);
    findings.sort();
    findings
}

/// What the cluster alone tells, beside what an examination finds.
pub fn observed(observed: &Observed) -> Vec<Finding> {
    let mut findings = cluster::blind_spots(&Desired::default(), observed);
    findings.extend(cluster::unseen(observed));
    findings.extend(load_balancing::of_cluster(observed));
    findings.extend(observed.findings.iter().cloned());
    findings
}

/// What the files tell when an examination holds them against the cluster: what it finds more
/// exactly itself is left out.
pub fn examination(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let rules: [fn(&Desired, &Observed) -> Vec<Finding>; 9] = [
        cluster::unreadable_range_settings,
        cluster::pools_without_nodes,
        cluster::pools_over_other_addresses,
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

/// What the files tell when they are held against the cluster.
pub fn cluster(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let rules: [fn(&Desired, &Observed) -> Vec<Finding>; 12] = [
        cluster::unreadable_range_settings,
        neutron::overlapping,
        neutron::resolved,
        neutron::held,
        cluster::unseen_neighbours,
        cluster::pools_without_nodes,
        cluster::pools_over_other_addresses,
        cluster::blocks_held_twice,
        cluster::families_switched_off,
        cluster::blind_spots,
        names::missing_pinned_nodes,
        names::missing_protected_nodes,
    ];
    let mut findings: Vec<Finding> = rules
        .iter()
        .flat_map(|rule| rule(desired, observed))
        .collect();
    findings.extend(load_balancing::of_cluster(observed));
    findings.extend(observed.findings.iter().cloned());
    findings.sort();
    findings
}
