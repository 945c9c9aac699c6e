//! Rules on the files and the cluster together.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::files::pinned_pools;
use super::releases;
use crate::allocators::{Holder, overlapping_holders};
use ipam_cilium::observed::{
    Allocator, AllocatorStatus, ControllerProgram, FamilyUse, ModeSeen, Observed, ObservedKind,
    OtherUser, SettingSource, range_setting,
};
use ipam_core::claims::DepartedPart;
use ipam_core::model::{
    AddressPoolName, Finding, IpamMode, Labels, NodeName, ObjectRef, Rule, Selector, SelectorIndex,
    Severity, grouped_digits,
};
use ipam_core::net::{Block, Family, Range, RangeIndex};
use ipam_desired::{Desired, Pool};

fn warning(rule: &'static str, message: String) -> Finding {
    Finding::new(Severity::Warning, Rule(rule), message)
}

/// Files about LoadBalancer addresses alone.
pub(super) fn nodes_left_to_others(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    if !desired.leaves_nodes_to_others() || observed.nodes.is_empty() {
        return Vec::new();
    }
    let message = "the files have no IPPool, so the blocks of nodes are not planned".to_owned();
    let finding = Finding::new(Severity::Info, Rule("nodes-left-to-others"), message);
    let help = "nothing to do if another program gives nodes their blocks; otherwise add an IPPool";
    vec![finding.help(help)]
}

pub(super) fn pools_without_nodes(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    if observed.nodes.is_empty() && !desired.pools.is_empty() {
        let finding = warning("no-nodes", "the cluster has no nodes".to_owned());
        return vec![finding.help("check that this is the right cluster")];
    }
    let pinned = pinned_pools(desired);
    let matched = pools_with_nodes(desired, observed);
    let finding = |pool: &Pool| {
        let message = format!("pool `{}` matches no node: {}", pool.name, pool.selector);
        let finding = warning("pool-without-nodes", message).about(ObjectRef::pool(&pool.name));
        finding
            .at(&pool.origin, "matches no node")
            .help("check the labels with `kubectl get nodes --show-labels`")
    };
    // A selector that no node can match is a finding about the files.
    let is_reported = |pool: &Pool| pool.selector.contradiction().is_some();
    let pools = desired
        .pools
        .values()
        .zip(matched)
        .filter(|(_, is_matched)| !is_matched)
        .map(|(pool, _)| pool)
        .filter(|pool| !pinned.contains(&pool.name) && !is_reported(pool));
    pools.map(finding).collect()
}

/// Whether each pool matches a node, in the order of the pools.
fn pools_with_nodes(desired: &Desired, observed: &Observed) -> Vec<bool> {
    let selectors: Vec<&Selector> = desired.pools.values().map(|pool| &pool.selector).collect();
    let index = SelectorIndex::new(selectors.iter().copied());
    let mut matched = vec![false; selectors.len()];
    for labels in distinct_labels(desired, observed) {
        for place in index.matching(&labels, |place| selectors[place]) {
            matched[place] = true;
        }
    }
    matched
}

/// The distinct sets of labels of all nodes, with only the keys that selectors of pools use. Even a
/// large cluster has few.
fn distinct_labels(desired: &Desired, observed: &Observed) -> BTreeSet<Labels> {
    let keys: BTreeSet<&str> = desired
        .pools
        .values()
        .flat_map(|pool| pool.selector.keys())
        .collect();
    let looked_at = observed.nodes.values().map(|node| -> Vec<(&str, &str)> {
        let labels = node.labels.iter();
        let labels = labels.map(|(key, value)| (key.as_str(), value.as_str()));
        labels.filter(|(key, _)| keys.contains(key)).collect()
    });
    let distinct: BTreeSet<Vec<(&str, &str)>> = looked_at.collect();
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let labels = distinct.into_iter();
    labels
        .map(|labels| labels.into_iter().map(owned).collect())
        .collect()
}

/// Pools that overlap addresses in other use.
pub(super) fn pools_over_other_addresses(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let in_files: BTreeSet<&str> = desired
        .address_pools
        .keys()
        .map(AddressPoolName::as_str)
        .collect();
    // Pools in the files are reported by the checks of the files.
    let is_in_files = |user: &OtherUser<'_>| match user {
        OtherUser::AddressPool(name) => in_files.contains(*name),
        OtherUser::ServiceCidr | OtherUser::Machine(_) | OtherUser::Service(_) => false,
    };
    let others = observed
        .used_by_others()
        .filter(|(_, user)| !is_in_files(user));
    let mut others: Vec<(Range, OtherUser<'_>)> = others.collect();
    others.sort_by_cached_key(|(range, user)| (*range, user.to_string()));
    let places = RangeIndex::new(
        others
            .iter()
            .enumerate()
            .map(|(place, (range, _))| (*range, place)),
    );
    let mut findings = Vec::new();
    for pool in desired.pools.values() {
        let hits = pool
            .ranges
            .iter()
            .flat_map(|range| places.overlapping(&range.block.range()));
        let hits: BTreeSet<usize> = hits.map(|(_, place)| *place).collect();
        let Some((range, what)) = hits.first().map(|place| &others[*place]) else {
            continue;
        };
        let given = match hits
            .iter()
            .any(|place| matches!(others[*place].1, OtherUser::Machine(_)))
        {
            true => {
                "these addresses keep their blocks from nodes, within the limit for one machine"
            }
            false => "the blocks there are not assigned",
        };
        let more = match hits.len() - 1 {
            0 => String::new(),
            count => format!(", and {} more", grouped_digits(count)),
        };
        let message = format!(
            "pool `{}` overlaps {range}, {what}{more}; {given}",
            pool.name
        );
        let finding =
            warning("pool-over-other-addresses", message).about(ObjectRef::pool(&pool.name));
        findings.push(
            finding
                .at(&pool.origin, "overlaps")
                .help("list that part under `reserved` if this is intended, or move the pool"),
        );
    }
    findings
}

/// Nodes that already show the same or overlapping blocks.
pub(super) fn blocks_held_twice(_: &Desired, observed: &Observed) -> Vec<Finding> {
    // These modes do not read Nodes, and kube-controller-manager may fill them from the same range.
    let lives_in_cilium_node = matches!(
        observed.cilium.mode(),
        ModeSeen::Known(IpamMode::ClusterPool | IpamMode::MultiPool)
    );
    let shown: Vec<Holder<'_>> = match lives_in_cilium_node {
        true => observed
            .cilium_nodes
            .values()
            .flat_map(|node| {
                let allocated = node.allocated.iter().flat_map(|(_, blocks)| blocks);
                node.pod_cidrs
                    .iter()
                    .chain(allocated)
                    .map(move |block| (&node.name, *block))
            })
            .collect(),
        false => observed.shown_blocks().collect(),
    };
    let pairs = overlapping_holders(shown);
    let finding = |((first, first_block), (second, second_block)): (
        (&NodeName, Block),
        (&NodeName, Block),
    )| {
        let message = format!(
            "nodes `{first}` and `{second}` hold overlapping blocks: {first_block} and {second_block}"
        );
        let finding = Finding::new(Severity::Error, Rule("duplicate-block"), message);
        let finding = finding
            .about(ObjectRef::node(second))
            .about_all([ObjectRef::node(first)]);
        finding.help(
            "packets reach the Pods of only one of them: drain the other and give it another block",
        )
    };
    pairs.into_iter().map(finding).collect()
}

pub(super) fn families_switched_off(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let off: Vec<Family> = Family::BOTH
        .into_iter()
        .filter(|family| observed.cilium.use_of(*family) == FamilyUse::Off)
        .collect();
    let finding = |pool: &Pool| {
        let family = pool.families().find(|family| off.contains(family))?;
        let message = format!(
            "pool `{}` gives {family} blocks, but {family} is disabled in this Cilium",
            pool.name
        );
        let finding = warning("family-switched-off", message).about(ObjectRef::pool(&pool.name));
        Some(
            finding
                .at(&pool.origin, format!("{family} is disabled"))
                .help(format!(
                    "no {family} block is assigned until `enable-{}` is true",
                    family.to_string().to_lowercase()
                )),
        )
    };
    desired.pools.values().filter_map(finding).collect()
}

/// Invalid settings for the block of an agent. An agent that reads one does not start
/// (`pkg/ipam/cell/ipam_init.go` @ 1.20).
pub(super) fn unreadable_range_settings(_: &Desired, observed: &Observed) -> Vec<Finding> {
    let is_unreadable = |family: Family, value: &str| {
        let block = Block::lenient(value)
            .ok()
            .filter(|block| block.family() == family);
        !value.is_empty() && value != "auto" && block.is_none()
    };
    let mut settings = Vec::new();
    for family in Family::BOTH {
        let key = range_setting(family);
        let common = observed
            .common_setting(key)
            .map(|setting| (setting.source.to_string(), setting.value));
        let of_nodes = observed.node_configs.iter().filter_map(|config| {
            let source = SettingSource::NodeConfig(&config.name);
            Some((source.to_string(), config.defaults.get(key)?.as_str()))
        });
        let found = common
            .into_iter()
            .chain(of_nodes)
            .filter(|(_, value)| is_unreadable(family, value));
        settings.extend(found.map(|(source, value)| (key, source, value)));
    }
    let finding = |(key, source, value): (&str, String, &str)| {
        let message = format!(
            "`{key}` in {source} is not a CIDR: {}",
            value.escape_debug()
        );
        let finding = Finding::new(Severity::Error, Rule("range-setting-unreadable"), message);
        finding.help("fix the value or remove the setting: agents that read it do not start")
    };
    settings.into_iter().map(finding).collect()
}

/// Whether only the configuration of kubeadm may tell the ranges of an allocator.
fn needs_ranges(allocator: &Arc<Allocator>) -> bool {
    allocator.name == ControllerProgram::KubeControllerManager.as_str()
        && allocator.status == AllocatorStatus::Active
        && allocator.object.is_none()
        && allocator.cluster_cidrs.ranges.is_empty()
}

/// Whether the kind can change a finding.
fn matters(kind: ObservedKind, observed: &Observed) -> bool {
    match kind {
        // Without a pool, no Service has an address from a pool.
        ObservedKind::Service => !observed.address_pools.is_empty(),
        // Without the speakers of MetalLB, nothing reads their configuration.
        ObservedKind::SpeakerConfig => observed.runs_metal_lb_speakers(),
        ObservedKind::KubeadmConfig => observed.allocators.iter().any(needs_ranges),
        // Through a tunnel, Pods need no other router.
        ObservedKind::RouterDaemonSet => observed.routes_natively(),
        _ => true,
    }
}

/// What is unknown without the kind.
fn consequence(kind: ObservedKind) -> &'static str {
    match kind {
        ObservedKind::ServiceCidr => {
            "Service addresses are not excluded: list them under `excluded` in the Policy"
        }
        ObservedKind::LoadBalancerPool => {
            "LoadBalancer addresses are not excluded: list them under `excluded` in the Policy"
        }
        ObservedKind::PodIpPool => "the addresses of Pods in ipam `multi-pool` are unknown",
        ObservedKind::Service => "the LoadBalancer addresses of Services are unknown",
        ObservedKind::ControllerPod | ObservedKind::ControllerDaemonSet => {
            "it is unknown whether a controller of Kubernetes assigns pod CIDRs, too"
        }
        ObservedKind::CiliumDaemonSet
        | ObservedKind::CiliumConfig
        | ObservedKind::CiliumOperator
        | ObservedKind::CiliumAgentPod
        | ObservedKind::CiliumNodeConfig => "Cilium's version or settings are unknown",
        ObservedKind::Definition(_) | ObservedKind::MoreDefinitions => {
            "the API versions and fields of Cilium's objects are unknown"
        }
        ObservedKind::BgpPeeringPolicy
        | ObservedKind::BgpClusterConfig
        | ObservedKind::BgpPeerConfig
        | ObservedKind::BgpAdvertisement => "the BGP announcements are unknown",
        ObservedKind::SpeakerConfig => {
            "it is unknown which nodes have a BGP peer of the MetalLB speakers"
        }
        ObservedKind::KubeadmConfig => "the ranges of kube-controller-manager are unknown",
        ObservedKind::RouterDaemonSet => {
            "it is unknown whether another program routes spec.podCIDRs of Nodes"
        }
        ObservedKind::L2AnnouncementPolicy => {
            "the announcements of LoadBalancer addresses on the local network are unknown"
        }
        ObservedKind::Claims => {
            "blocks that another apply is about to write are unknown, so `apply` refuses"
        }
        ObservedKind::Migration => {
            "it is unknown whether a migration is unfinished, and which nodes it moves"
        }
        ObservedKind::Departed(_) => {
            "new nodes may get the blocks of deleted nodes before the quarantine is over"
        }
        ObservedKind::CiliumNode | ObservedKind::Node => "the blocks that it holds are unknown",
    }
}

pub(super) fn blind_spots(_: &Desired, observed: &Observed) -> Vec<Finding> {
    let finding = |spot: &ipam_cilium::observed::BlindSpot| {
        let message = format!(
            "{} could not be read ({}): {}",
            spot.kind.resource(),
            spot.why,
            consequence(spot.kind)
        );
        warning("unreadable-kind", message).help("allow `get` and `list` on it")
    };
    let group = |kind| match kind {
        ObservedKind::Definition(_) => ObservedKind::MoreDefinitions,
        ObservedKind::Departed(_) => ObservedKind::Departed(DepartedPart::First),
        kind => kind,
    };
    let mut spots: Vec<_> = observed.blind_spots.iter().collect();
    // One finding for all definitions, and one for all blocks of deleted nodes: they have one
    // resource and one consequence.
    spots.dedup_by_key(|spot| group(spot.kind));
    let spots = spots
        .into_iter()
        .filter(|spot| matters(spot.kind, observed));
    spots.map(finding).collect()
}

/// Blocks of deleted nodes that have no quarantine, because too many nodes were deleted.
pub(super) fn full_quarantine(observed: &Observed) -> Option<Finding> {
    let dropped = observed.departed.departed.dropped();
    if dropped == 0 {
        return None;
    }
    let message = format!(
        "{dropped} blocks of deleted nodes were dropped before their quarantine was over: the record is full"
    );
    Some(warning("quarantine-full", message).help("shorten `quarantine` in the Policy"))
}

/// Objects that a plan needs before it writes `spec.podCIDRs`, and that are not visible.
pub(super) fn unseen_neighbours(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    if desired.pools.is_empty() || observed.nodes.is_empty() {
        return Vec::new();
    }
    unseen(desired, observed)
}

/// Objects that are visible in most clusters, but not in this one. Without a pool for nodes, no other
/// allocator competes with `cilium-ipam`.
pub fn unseen(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let unclear = releases::unclear(desired, observed).filter(|_| !desired.pools.is_empty());
    let services = unseen_services(desired, observed);
    unclear.into_iter().chain(services).collect()
}

/// Ranges that the Policy excludes may be the Service CIDRs.
fn unseen_services(desired: &Desired, observed: &Observed) -> Option<Finding> {
    let is_hidden = observed.blind_spot(ObservedKind::ServiceCidr).is_some();
    let is_excluded = !desired.policy.excluded.is_empty();
    if !observed.service_ranges.is_empty() || is_hidden || is_excluded {
        return None;
    }
    let message = "no ServiceCIDR is visible (Kubernetes 1.33 and later has them), so Service addresses are not excluded";
    let finding = Finding::new(Severity::Info, Rule("service-cidr-unseen"), message);
    Some(finding.help("list the Service CIDR under `excluded` in the Policy"))
}
