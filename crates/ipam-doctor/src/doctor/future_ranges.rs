//! Ranges of allocators that have other uses in the cluster, before a node gets a block there, and
//! machines in the Service CIDR.

use std::collections::{BTreeMap, BTreeSet};

use super::{finding, operator_errors};
use ipam_cilium::observed::operator_settings::ranges_key;
use ipam_cilium::observed::{ModeSeen, Observed, OtherUser};
use ipam_core::model::{Finding, IpamMode, NodeName, ObjectRef, Severity, grouped_digits};
use ipam_core::net::{Block, BlockSize, Family, Range, RangeIndex};
use ipam_desired::Desired;
use ipam_plan::capacity::{self, Supplier};

/// Free blocks before the first overlap, up to which a range is a warning.
const SOON: u128 = 256;

/// A range from which an allocator gives blocks.
struct Supply {
    range: Range,
    size: BlockSize,
    /// Setting or field that has the range.
    source: String,
    of: Supplier,
    help: &'static str,
}

/// The allocators take the lowest free block, so a range bites when the blocks before the overlap
/// are used.
pub(super) fn over_other_addresses(observed: &Observed) -> Vec<Finding> {
    let held: Vec<Range> = observed
        .pod_blocks()
        .map(|(_, block)| block.range())
        .collect();
    let held_index = RangeIndex::new(held.iter().map(|range| (*range, ())));
    // Another check reports blocks that overlap already.
    let others = observed
        .used_by_others()
        .filter(|(range, _)| held_index.overlapping(range).next().is_none());
    let others = RangeIndex::new(others);
    let supplies = supplies(observed);
    let finding = |supply: &Supply| of_supply(supply, &others, &held_index);
    supplies.iter().filter_map(finding).collect()
}

/// Overlaps with ranges that an allocator reaches soon, as sentences.
pub(super) fn reached_soon(observed: &Observed) -> Vec<String> {
    let held = observed.pod_blocks().map(|(_, block)| (block.range(), ()));
    let held = RangeIndex::new(held);
    let others = observed
        .used_by_others()
        .filter(|(range, _)| held.overlapping(range).next().is_none());
    let others = RangeIndex::new(others);
    let of_supply = |supply: &Supply| {
        let users = others.overlapping(&supply.range);
        let (range, user) = users.min()?;
        let left = supply.free_before(range, &held);
        let Supply {
            source, range: of, ..
        } = supply;
        let when = match left {
            0 => "with the next block".to_owned(),
            _ => format!("after {} free blocks", grouped_digits(left)),
        };
        (left <= SOON).then(|| format!("{of} ({source}) overlaps {range}, {user}: {when}"))
    };
    supplies(observed).iter().filter_map(of_supply).collect()
}

fn of_supply(
    supply: &Supply,
    others: &RangeIndex<OtherUser<'_>>,
    held: &RangeIndex<()>,
) -> Option<Finding> {
    let users: BTreeSet<(Range, OtherUser<'_>)> =
        others.overlapping(&supply.range).copied().collect();
    let (range, user) = users.first()?;
    let left = supply.free_before(range, held);
    let (severity, when) = match left {
        0 => (Severity::Warning, "the next block".to_owned()),
        _ => {
            let severity = match left <= SOON {
                true => Severity::Warning,
                false => Severity::Info,
            };
            (
                severity,
                format!("after {} free blocks", grouped_digits(left)),
            )
        }
    };
    let more = match users.len() - 1 {
        0 => String::new(),
        count => format!(", and {} more", grouped_digits(count)),
    };
    let Supply { source, .. } = supply;
    let message = format!(
        "{source} has {}, which overlaps {range}, {user}{more}: it is reached {when}",
        supply.range
    );
    let finding = finding(severity, "range-over-other-addresses", message);
    let finding = match &supply.of {
        Supplier::PodPool(name) => finding.about(ObjectRef {
            kind: supply.of.kind(),
            name: name.clone(),
        }),
        _ => finding,
    };
    let finding = finding.seen(users.iter().map(|(range, user)| format!("{range}: {user}")));
    Some(
        finding
            .causes("the node that gets such a block has Pods whose packets go elsewhere")
            .help(supply.help),
    )
}

impl Supply {
    /// Free blocks before the first one that overlaps this user.
    fn free_before(&self, user: &Range, held: &RangeIndex<()>) -> u128 {
        let Some(before) = self.range.before(user) else {
            return 0;
        };
        let bits = u32::from(self.size.family().bits() - self.size.prefix_len());
        let whole = before
            .width()
            .saturating_add(1)
            .checked_shr(bits)
            .unwrap_or(0);
        whole.saturating_sub(held.overlapping(&before).count() as u128)
    }
}

/// The ranges whose blocks are given without the files.
fn supplies(observed: &Observed) -> Vec<Supply> {
    let known = capacity::supplies(observed).into_iter().flatten();
    let ranges = known.flat_map(|supply| {
        let (source, help) = source_and_help(observed, &supply);
        let supply_of = |range: &Block| Supply {
            range: range.range(),
            size: supply.size,
            source: source.clone(),
            of: supply.of.clone(),
            help,
        };
        supply.ranges.iter().map(supply_of).collect::<Vec<Supply>>()
    });
    ranges.collect()
}

/// The setting or object that has the ranges, and what to do before they overlap.
fn source_and_help(observed: &Observed, supply: &capacity::Supply<'_>) -> (String, &'static str) {
    match &supply.of {
        Supplier::ClusterPool => (
            format!("{} of Cilium's operator", ranges_key(supply.family())),
            "before it is reached, append a CIDR elsewhere and give each new node a block of it (`cilium-ipam` reserves these addresses automatically); never change the existing CIDR",
        ),
        Supplier::Allocator(name) => {
            let mut allocators = observed.allocators.iter();
            let allocator = allocators.find(|allocator| allocator.name == *name);
            (
                allocator.map_or_else(|| supply.of.to_string(), |one| one.range_setting()),
                "before it is reached, run the controller with --allocate-node-cidrs=false and let `cilium-ipam` assign the blocks",
            )
        }
        _ => (
            supply.of.to_string(),
            "append CIDRs that leave these addresses out; remove the wide CIDR once no CiliumNode has a block of it",
        ),
    }
}

/// Blocks of nodes over Service CIDRs, addresses of machines and LoadBalancer pools, and outside
/// the native-routing CIDR.
pub(super) fn of_cluster(observed: &Observed) -> Vec<Finding> {
    let others = RangeIndex::new(observed.used_by_others());
    let mut findings = Vec::new();
    for name in observed.nodes.keys() {
        for block in observed.pod_blocks_of(name) {
            if let Some((range, what)) = others.overlapping(&block.range()).next() {
                findings.push(over(observed, name, block, range, *what));
            }
        }
    }
    findings.extend(outside_native_routing(observed));
    findings
}

fn over(
    observed: &Observed,
    name: &NodeName,
    block: Block,
    range: &Range,
    what: OtherUser<'_>,
) -> Finding {
    let message =
        format!("the Pods of node `{name}` live in {block}, which overlaps {range}, {what}");
    let finding = finding(Severity::Error, "block-over-other-addresses", message)
        .about(ObjectRef::node(name));
    let finding = finding.seen([
        format!("node `{name}`: {block}"),
        format!("{what}: {range}"),
    ]);
    finding
        .causes("packets to one of the two go to the other")
        .help(match (outside_operator_ranges(observed, block), what) {
            (true, _) => operator_errors::NEW_BLOCK,
            (false, OtherUser::Machine(_)) => "drain the node and give it another block",
            (false, _) => "drain the node and give it another block, or move the other range",
        })
}

/// Whether Cilium's operator gives the node another block once its CiliumNode is gone.
fn outside_operator_ranges(observed: &Observed, block: Block) -> bool {
    let ranges = observed.operator_ranges(block.family());
    observed.cilium.mode() == ModeSeen::Known(IpamMode::ClusterPool)
        && !ranges.is_empty()
        && !ranges.iter().any(|range| range.overlaps(block))
}

/// The blocks of a node's Pods, as evidence.
fn homes(name: &NodeName, observed: &Observed) -> String {
    format!(
        "node `{name}`: {}",
        super::spaced(observed.pod_blocks_of(name))
    )
}

fn outside_native_routing(observed: &Observed) -> Vec<Finding> {
    let of_family = |family: Family| {
        let native = observed.native_routing_range(family)?;
        let is_outside = |block: &Block| block.family() == family && !native.contains(*block);
        let outside = |name: &&NodeName| observed.pod_blocks_of(name).iter().any(is_outside);
        let names: Vec<&NodeName> = observed.nodes.keys().filter(outside).collect();
        if names.is_empty() {
            return None;
        }
        let message = format!(
            "the Pods of {} live outside the native-routing CIDR {native}",
            super::named(&names)
        );
        let finding = finding(Severity::Warning, "outside-native-routing-cidr", message);
        let finding = super::about_nodes(finding, names.iter().copied())
            .seen([format!("cilium-config: {native}")])
            .seen(names.iter().map(|name| homes(name, observed)));
        let finding = finding.causes(
            "packets to these Pods are masqueraded: they appear to come from the sender's node",
        );
        Some(
            finding.help(
                "widen ipv4-native-routing-cidr (or its IPv6 twin) in cilium-config so that it covers every pool",
            ),
        )
    };
    Family::BOTH.into_iter().filter_map(of_family).collect()
}

/// Nodes whose Pods live in a block outside all pools.
pub(super) fn outside_pools(desired: &Desired, observed: &Observed) -> Option<Finding> {
    let has_family = |family: Family| {
        desired
            .pools
            .values()
            .any(|pool| pool.families().any(|of| of == family))
    };
    let is_outside = |block: &Block| {
        has_family(block.family()) && !desired.pools.values().any(|pool| pool.contains(*block))
    };
    let names: Vec<&NodeName> = observed
        .nodes
        .keys()
        .filter(|name| observed.pod_blocks_of(name).iter().any(is_outside))
        .collect();
    if names.is_empty() {
        return None;
    }
    let message = format!(
        "the Pods of {} live in blocks outside all pools",
        super::named(&names)
    );
    let finding = finding(Severity::Info, "block-outside-pools", message);
    let finding = super::about_nodes(finding, names.iter().copied())
        .seen(names.iter().map(|name| homes(name, observed)))
        .causes("no pool counts these blocks as used");
    Some(finding.help("add their range to a pool, so that it counts them"))
}

/// Machines whose addresses a Service may get. Nothing of Cilium or of the files is involved.
pub(super) fn machines_in_service_cidr(observed: &Observed) -> Option<Finding> {
    let mut ranges: BTreeSet<Range> = BTreeSet::new();
    let mut inside: BTreeMap<&NodeName, String> = BTreeMap::new();
    for node in observed.nodes.values() {
        for address in &node.addresses {
            let mut services = observed.service_ranges.iter();
            let of_machine = Range::from(*address);
            if let Some(range) = services.find(|range| range.contains(&of_machine)) {
                ranges.insert(*range);
                let line = || format!("Node `{}`: status.addresses {address}", node.name);
                inside.entry(&node.name).or_insert_with(line);
            }
        }
    }
    if inside.is_empty() {
        return None;
    }
    let names: Vec<&NodeName> = inside.keys().copied().collect();
    let ranges = super::spaced(&ranges);
    let message = format!(
        "the Service CIDR {ranges} contains addresses of {}",
        super::named(&names)
    );
    let finding = finding(Severity::Error, "machine-in-service-cidr", message);
    let finding = super::about_nodes(finding, names)
        .seen([format!("ServiceCIDR: {ranges}")])
        .seen(inside.into_values());
    Some(
        finding
            .causes("a Service may get the address of a machine; packets to the machine then go to the Service")
            .help("give the cluster a Service CIDR that contains no machine (`--service-cluster-ip-range` of kube-apiserver; kubeadm: `networking.serviceSubnet`; Talos: `cluster.network.serviceSubnets`), or the machines other addresses. In a running cluster the range cannot simply be changed: re-create the cluster if you can"),
    )
}
