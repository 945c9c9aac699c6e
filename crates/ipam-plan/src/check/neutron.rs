//! Pools that are subnets of Neutron: their addresses, and other users of these addresses.
//!
//! Pools compared with the range that Cilium routes without masquerading.
//!
//! Rules on the size of blocks.

use crate::openstack::{Overlapping, SubnetOverlap, SubnetPools, UnresolvedSubnet};
use ipam_cilium::observed::{Observed, OtherUser};
use ipam_core::model::{Finding, ObjectRef, Rule, Severity};
use ipam_core::net::{Block, Family};
use ipam_desired::{Desired, NeutronPool, Pool};

pub(super) fn overlapping(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let finding = |overlap: SubnetOverlap<'_>| {
        let about = match overlap.other {
            Overlapping::Pool(name) => ObjectRef::pool(name),
            Overlapping::AddressPool(name) => ObjectRef::address_pool(name),
        };
        let finding =
            Finding::new(Severity::Error, Rule("neutron-overlap"), overlap.message()).about(about);
        let finding = finding.at(overlap.origin, format!("overlaps {}", overlap.range));
        let finding = finding.and(&overlap.pool.subnet_origin, "this subnet");
        finding.help(SubnetOverlap::HELP)
    };
    SubnetPools::resolve(desired, observed)
        .overlaps()
        .into_iter()
        .map(finding)
        .collect()
}

/// Each such pool with its addresses, or why they are unknown.
pub(super) fn resolved(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let finding = |(pool, range): (&NeutronPool, Result<Block, &UnresolvedSubnet>)| match range {
        Ok(range) => {
            let message = format!(
                "pool `{}` is subnet {} of Neutron, {range}; no node gets a block there",
                pool.name, pool.subnet
            );
            let finding = Finding::new(Severity::Info, Rule("neutron-subnet"), message)
                .about(ObjectRef::pool(&pool.name));
            finding.at(&pool.subnet_origin, range.to_string())
        }
        Err(unresolved) => {
            let message =
                format!("{unresolved}; no block is assigned until the free addresses are known");
            let finding = Finding::new(Severity::Error, Rule("neutron-subnet-unknown"), message);
            let finding = finding
                .about(ObjectRef::pool(&pool.name))
                .at(&pool.subnet_origin, "unknown");
            finding.help(unresolved.help())
        }
    };
    SubnetPools::resolve(desired, observed)
        .iter()
        .map(finding)
        .collect()
}

/// Other users of a subnet's addresses in the cluster: nodes with blocks there, which they keep,
/// Service CIDRs and LoadBalancer pools.
pub(super) fn held(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (pool, range) in SubnetPools::resolve(desired, observed).ranges() {
        for (node, block) in observed
            .shown_blocks()
            .filter(|(_, block)| block.overlaps(range))
        {
            let message = format!(
                "node `{node}` holds {block}, which overlaps pool `{}`, subnet {} of Neutron ({range})",
                pool.name, pool.subnet
            );
            let finding = Finding::new(Severity::Error, Rule("block-over-neutron-subnet"), message);
            let finding = finding
                .about(ObjectRef::node(node))
                .at(&pool.subnet_origin, "this subnet");
            findings.push(
                finding.help("drain the node and give it another block, or use another subnet"),
            );
        }
        // LoadBalancer pools of the files have their own finding. Machines and load
        // balancers of a cloud may have addresses of the subnet.
        let is_reported = |user: &OtherUser<'_>| match user {
            OtherUser::AddressPool(name) => desired
                .address_pools
                .keys()
                .any(|pool| pool.as_str() == *name),
            OtherUser::Machine(_) | OtherUser::Service(_) => true,
            OtherUser::ServiceCidr => false,
        };
        let others = observed
            .used_by_others()
            .filter(|(other, user)| other.overlaps(&range.range()) && !is_reported(user));
        for (other, user) in others {
            let message = format!(
                "pool `{}`, subnet {} of Neutron ({range}), overlaps {other}, {user}",
                pool.name, pool.subnet
            );
            let finding = Finding::new(Severity::Error, Rule("neutron-overlap"), message);
            let finding = finding
                .about(ObjectRef::pool(&pool.name))
                .at(&pool.subnet_origin, "overlaps");
            findings.push(finding.help("use another subnet, or move the other range"));
        }
    }
    findings
}

/// Pools of the files that name the same subnet. This check needs no Neutron.
pub(super) fn subnets_named_twice(desired: &Desired) -> Vec<Finding> {
    let mut pools: Vec<&NeutronPool> = desired.neutron_pools.values().collect();
    pools.sort_by(|a, b| (&a.subnet, &a.subnet_origin).cmp(&(&b.subnet, &b.subnet_origin)));
    let twice = pools
        .windows(2)
        .filter(|pair| pair[0].subnet == pair[1].subnet);
    let finding = |pair: &[&NeutronPool]| {
        let [first, second] = [pair[0], pair[1]];
        let message = format!(
            "pools `{}` and `{}` are the same subnet {}",
            first.name, second.name, first.subnet
        );
        let finding = Finding::new(Severity::Error, Rule("pool-overlap"), message)
            .about(ObjectRef::pool(&second.name));
        let finding = finding
            .at(&second.subnet_origin, "named again")
            .and(&first.subnet_origin, "first named here");
        finding.help("keep one pool for each subnet")
    };
    twice.map(finding).collect()
}

/// One finding for each family: the setting is the cause of all.
pub fn pools_outside(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    Family::BOTH
        .into_iter()
        .filter_map(|family| outside(desired, observed, family))
        .collect()
}

fn outside(desired: &Desired, observed: &Observed, family: Family) -> Option<Finding> {
    let native = observed.native_routing_range(family)?;
    let is_outside = |block: &Block| block.family() == family && !native.contains(*block);
    let ranges = desired.pools.values().flat_map(|pool| {
        let outside = pool.ranges.iter().filter(|range| is_outside(&range.block));
        outside.map(move |range| (pool, range))
    });
    let outside: Vec<_> = ranges.collect();
    let (pool, range) = outside.first()?;
    let what = format!("pool `{}` has {}", pool.name, range.block);
    let others = match outside.len() - 1 {
        0 => String::new(),
        1 => "; 1 more range is outside, too".to_owned(),
        more => format!("; {more} more ranges are outside, too"),
    };
    let message = format!("{what}, outside the native-routing CIDR {native}{others}");
    let finding = Finding::new(
        Severity::Warning,
        Rule("pool-outside-native-routing-cidr"),
        message,
    )
    .at(&range.origin, "outside")
    .seen([format!("cilium-config: {native}")])
    .causes("packets to Pods there are masqueraded")
    .help("widen the native-routing CIDR in cilium-config so that it covers every pool, and restart the agents");
    let mut pools: Vec<ObjectRef> = outside
        .iter()
        .map(|(pool, _)| ObjectRef::pool(&pool.name))
        .collect();
    pools.dedup();
    Some(finding.about_all(pools))
}

/// Longest usable prefix. Cilium reserves the first and the last address, and uses one for its
/// router and one for its health endpoint. The minimum mask is /30
/// (Documentation/network/concepts/ipam @ 1.20); IPv6 needs as many addresses.
fn longest(family: Family) -> u8 {
    family.bits() - 2
}

pub(super) fn too_small_for_cilium(desired: &Desired) -> Vec<Finding> {
    let finding = |pool: &Pool| {
        let size = pool
            .block_size
            .iter()
            .find(|size| size.prefix_len() > longest(size.family()))?;
        let message = format!(
            "pool `{}` gives {size} blocks, in which Cilium has no address left for a Pod",
            pool.name
        );
        let finding = Finding::new(Severity::Warning, Rule("block-too-small"), message)
            .about(ObjectRef::pool(&pool.name));
        let help = format!(
            "use /{} or shorter; /{} and shorter is sensible",
            longest(size.family()),
            longest(size.family()) - 1
        );
        Some(finding.at(&pool.origin, format!("gives {size}")).help(help))
    };
    desired.pools.values().filter_map(finding).collect()
}
