//! Rules on the files and the cluster together.

use std::collections::BTreeSet;

use super::files::pinned_pools;
use ipam_cilium::observed::{
    FamilyUse, ModeSeen, NodeCidrAllocation, Observed, ObservedKind, OtherUser, SettingSource,
    range_setting,
};
use ipam_core::model::{
    AddressPoolName, Finding, IpamMode, Labels, NodeName, ObjectRef, Rule, Severity, grouped_digits,
};
use ipam_core::net::{Block, Family, Range, RangeIndex, overlapping_pairs};
use ipam_desired::{Desired, Pool};

fn warning(rule: &'static str, message: String) -> Finding {
    Finding::new(Severity::Warning, Rule(rule), message)
}

pub(super) fn pools_without_nodes(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    if observed.nodes.is_empty() && !desired.pools.is_empty() {
        let finding = warning("no-nodes", "the cluster has no nodes".to_owned());
        return vec![finding.help("check that it is the cluster that you mean")];
    }
    let pinned = pinned_pools(desired);
    let labels = distinct_labels(desired, observed);
    let matches = |pool: &Pool| labels.iter().any(|labels| pool.selector.matches(labels));
    let finding = |pool: &Pool| {
        let message = format!("pool `{}` matches no node: {}", pool.name, pool.selector);
        let finding = warning("pool-without-nodes", message).about(ObjectRef::pool(&pool.name));
        finding
            .at(&pool.origin, "matches no node")
            .help("check the labels with `kubectl get nodes --show-labels`")
    };
    // Of a selector that no node can match the files tell.
    let is_told = |pool: &Pool| pool.selector.contradiction().is_some();
    let pools = desired
        .pools
        .values()
        .filter(|pool| !pinned.contains(&pool.name) && !is_told(pool) && !matches(pool));
    pools.map(finding).collect()
}

/// Labels of all nodes, as far as selectors of pools look at them, each set once: there are few,
/// however many nodes.
fn distinct_labels(desired: &Desired, observed: &Observed) -> BTreeSet<Labels> {
    let keys: BTreeSet<&str> = desired
        .pools
        .values()
        .flat_map(|pool| pool.selector.keys())
        .collect();
    let of_node = |labels: &Labels| -> Labels {
        let looked_at = labels.iter().filter(|(key, _)| keys.contains(key.as_str()));
        looked_at
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    observed
        .nodes
        .values()
        .map(|node| of_node(&node.labels))
        .collect()
}

/// Pools that reach into addresses which something else uses.
pub(super) fn pools_over_other_addresses(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let in_files: BTreeSet<&str> = desired
        .address_pools
        .keys()
        .map(AddressPoolName::as_str)
        .collect();
    // Of those that the files have, the files alone tell.
    let is_in_files = |user: &OtherUser<'_>| match user {
        OtherUser::AddressPool(name) => in_files.contains(*name),
        OtherUser::ServiceCidr | OtherUser::Machine(_) => false,
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
            true => "nodes do not get the blocks there, as far as one machine may keep them",
            false => "the blocks there are not handed out",
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
                .help("list that part under `reserved` to say that it is meant, or move the pool"),
        );
    }
    findings
}

/// A node with a block of it.
pub type Holder<'o> = (&'o NodeName, Block);

/// Pairs of different nodes with blocks that overlap.
pub fn overlapping_holders<'o>(mut holders: Vec<Holder<'o>>) -> Vec<(Holder<'o>, Holder<'o>)> {
    holders.sort();
    holders.dedup();
    let owners: Vec<(Range, usize)> = holders
        .iter()
        .enumerate()
        .map(|(index, (_, block))| (block.range(), index))
        .collect();
    let pairs = overlapping_pairs(owners)
        .into_iter()
        .map(|(a, b)| (holders[a], holders[b]));
    let mut pairs: Vec<_> = pairs.filter(|(a, b)| a.0 != b.0).collect();
    pairs.sort();
    pairs.dedup();
    pairs
}

/// Nodes that show the same or overlapping blocks already.
pub(super) fn blocks_held_twice(_: &Desired, observed: &Observed) -> Vec<Finding> {
    // There nobody reads Nodes, and kube-controller-manager may fill them from the same range.
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
        let finding = Finding::new(Severity::Error, Rule("block-held-twice"), message);
        let finding = finding
            .about(ObjectRef::node(second))
            .about_also(ObjectRef::node(first));
        finding.help("one of the two loses packets of its pods: drain it and give it another block")
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
            "pool `{}` gives {family} blocks, but this Cilium has {family} switched off",
            pool.name
        );
        let finding = warning("family-switched-off", message).about(ObjectRef::pool(&pool.name));
        Some(
            finding
                .at(&pool.origin, format!("{family} is off"))
                .help(format!(
                    "no {family} block is handed out until `enable-{}` is true",
                    family.to_string().to_lowercase()
                )),
        )
    };
    desired.pools.values().filter_map(finding).collect()
}

/// Settings from which an agent would take its blocks, and that are none: it does not start
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
        let message = format!("`{key}` in {source} is no block: {}", value.escape_debug());
        let finding = Finding::new(Severity::Error, Rule("range-setting-unreadable"), message);
        finding.help("mend the value, or remove the setting: agents that read it do not start")
    };
    settings.into_iter().map(finding).collect()
}

pub(super) fn blind_spots(_: &Desired, observed: &Observed) -> Vec<Finding> {
    let consequence = |kind: ObservedKind| match kind {
        ObservedKind::ServiceCidr => {
            "Service addresses are not kept free: list them under `excluded` in the Policy"
        }
        ObservedKind::LoadBalancerPool => {
            "LoadBalancer addresses are not kept free: list them under `excluded` in the Policy"
        }
        ObservedKind::PodIpPool => "which addresses Pods get in ipam `multi-pool` is not known",
        ObservedKind::Service => "which Services have LoadBalancer addresses is not known",
        ObservedKind::ControllerManagerPod => {
            "whether kube-controller-manager hands out blocks too is not known"
        }
        ObservedKind::CiliumDaemonSet
        | ObservedKind::CiliumNodeDefinition
        | ObservedKind::CiliumConfig
        | ObservedKind::CiliumOperator
        | ObservedKind::CiliumAgentPod
        | ObservedKind::CiliumNodeConfig => "Cilium's version or settings are not known",
        ObservedKind::BgpPeeringPolicy
        | ObservedKind::BgpClusterConfig
        | ObservedKind::BgpPeerConfig
        | ObservedKind::BgpAdvertisement => "what is announced by BGP is not known",
        ObservedKind::L2AnnouncementPolicy => {
            "which LoadBalancer addresses are announced on the local network is not known"
        }
        ObservedKind::Claims => {
            "blocks that another apply is about to write are not known, and `apply` refuses"
        }
        ObservedKind::CiliumNode | ObservedKind::Node => "blocks that are held there are not known",
    };
    let finding = |spot: &ipam_cilium::observed::BlindSpot| {
        let message = format!(
            "{} could not be read ({}): {}",
            spot.kind.resource(),
            spot.why,
            consequence(spot.kind)
        );
        warning("blind-spot", message).help("allow `get` and `list` on it")
    };
    // Without a pool no Service has an address of one.
    let matters =
        |kind: ObservedKind| kind != ObservedKind::Service || !observed.address_pools.is_empty();
    observed
        .blind_spots
        .iter()
        .filter(|spot| matters(spot.kind))
        .map(finding)
        .collect()
}

/// What must be known before `spec.podCIDRs` is written, and is not.
pub(super) fn unseen_neighbours(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    if desired.pools.is_empty() || observed.nodes.is_empty() {
        return Vec::new();
    }
    unseen(observed)
}

/// What of a cluster usually can be seen, and here cannot.
pub(super) fn unseen(observed: &Observed) -> Vec<Finding> {
    let mut findings = Vec::new();
    let hidden = |kind| observed.blind_spot(kind).is_some();
    if observed.controller_manager == NodeCidrAllocation::Unseen
        && !hidden(ObservedKind::ControllerManagerPod)
    {
        let message = "no Pod of kube-controller-manager is visible, so it is not known whether it hands out blocks too";
        let finding = Finding::new(Severity::Info, Rule("controller-manager-unseen"), message);
        findings.push(finding.help("make sure that it runs with --allocate-node-cidrs=false"));
    }
    if observed.service_ranges.is_empty() && !hidden(ObservedKind::ServiceCidr) {
        let message = "no ServiceCIDR is visible (Kubernetes 1.31 and later has them), so Service addresses are not kept free";
        let finding = Finding::new(Severity::Info, Rule("service-cidr-unseen"), message);
        findings.push(finding.help("list the Service CIDR under `excluded` in the Policy"));
    }
    findings
}
