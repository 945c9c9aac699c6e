//! Calico's pools, blocks and reservations, as pools and pins of nodes. Calico's pools have one
//! family each, and a pool of ours gives a node blocks of all its families.

use std::collections::BTreeMap;

use serde_json::Value;

use super::calico_pool::{CalicoPool, Choice, Purpose, read};
use super::object::{Object, Remark, RemarkName, flattened, texts};
use super::services::{Annotations, of_services};
use super::{
    ADDRESS_POOL_LABEL, ForeignAddressPool, ForeignPool, ForeignPools, by_own_label, calico_blocks,
    listed,
};
use ipam_cilium::lbipam::{AddressBlock, AddressPoolManifest, AddressPoolSpec, WrittenSelector};
use ipam_core::model::{PerFamily, Selector};
use ipam_core::net::{Block, BlockSize, Family, RangeIndex, merge};
use ipam_desired::PoolState;

/// Annotations of Services that Calico reads.
const ANNOTATIONS: Annotations = Annotations {
    addresses: &["projectcalico.org/loadBalancerIPs"],
    pools: &["projectcalico.org/ipv4pools", "projectcalico.org/ipv6pools"],
    sharing: &[],
};

/// Reads Calico's objects: `IPPool`, `BlockAffinity`, `IPAMBlock`, `IPReservation`, `IPAMConfig`
/// and `Node`, of `projectcalico.org/v3` or `crd.projectcalico.org/v1`, and Kubernetes' Services.
/// Lists are opened. Each object may have any form.
pub fn calico(objects: &[Value]) -> ForeignPools {
    let objects = flattened(objects);
    let mut remarks = Vec::new();
    let (ours, services): (Vec<Object<'_>>, Vec<Object<'_>>) = known(objects, &mut remarks)
        .into_iter()
        .partition(|object| object.kind != "Service");
    let (for_pods, for_services): (Vec<CalicoPool>, Vec<CalicoPool>) = pools(&ours, &mut remarks)
        .into_iter()
        .partition(|pool| pool.purpose == Purpose::Pods);
    let mut pools = joined(for_pods);
    let pins = calico_blocks::pins(&ours, &mut pools, &mut remarks);
    reservations(&ours, &mut pools, &mut remarks);
    for pool in &mut pools {
        pool.reserved = merge(std::mem::take(&mut pool.reserved));
    }
    remarks.extend(ours.iter().flat_map(settings));
    let address_pools: Vec<ForeignAddressPool> =
        for_services.into_iter().filter_map(address_pool).collect();
    let service_pins = match address_pools.is_empty() {
        true => Vec::new(),
        false => of_services(&services, &address_pools, &ANNOTATIONS, &mut remarks),
    };
    ForeignPools {
        pools,
        pins,
        address_pools,
        service_pins,
        announcements: Vec::new(),
        remarks,
    }
}

/// The objects that are read. The others get one remark for each kind.
fn known<'v>(objects: Vec<Object<'v>>, remarks: &mut Vec<Remark>) -> Vec<Object<'v>> {
    const GROUPS: [&str; 2] = ["projectcalico.org", "crd.projectcalico.org"];
    const KINDS: [&str; 7] = [
        "IPPool",
        "BlockAffinity",
        "IPAMBlock",
        "IPReservation",
        "IPAMConfig",
        "IPAMConfiguration",
        "Node",
    ];
    let is_known = |object: &Object<'_>| {
        (GROUPS.contains(&object.group) && KINDS.contains(&object.kind))
            || (object.group.is_empty() && object.kind == "Service")
    };
    let (known, others): (Vec<Object<'v>>, Vec<Object<'v>>) =
        objects.into_iter().partition(is_known);
    remarks.extend(ignored(&others));
    known
}

/// One remark for each kind whose objects are not read.
pub(super) fn ignored(objects: &[Object<'_>]) -> Vec<Remark> {
    let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for object in objects {
        *kinds.entry((object.kind, object.group)).or_default() += 1;
    }
    let remark = |((kind, group), number): ((&str, &str), usize)| {
        let about = match kind {
            "" => "Object without kind".to_owned(),
            _ => format!("{kind} {group}").trim_end().to_owned(),
        };
        Remark::left_out(
            RemarkName::ObjectIgnored,
            about,
            format!("{number} of this kind: not read"),
        )
    };
    kinds.into_iter().map(remark).collect()
}

/// The pools, sorted by name. Of two that overlap, only the first is kept.
fn pools(objects: &[Object<'_>], remarks: &mut Vec<Remark>) -> Vec<CalicoPool> {
    let mut pools: Vec<CalicoPool> = Vec::new();
    for object in objects.iter().filter(|object| object.kind == "IPPool") {
        match read(object) {
            Ok(pool) => pools.push(pool),
            Err(remark) => remarks.push(*remark),
        }
    }
    pools.sort_by(|one, two| one.name.cmp(&two.name));
    let index = RangeIndex::new(
        pools
            .iter()
            .enumerate()
            .map(|(place, pool)| (pool.cidr.range(), place)),
    );
    let mut is_kept = vec![true; pools.len()];
    for (place, pool) in pools.iter().enumerate() {
        let range = pool.cidr.range();
        let mut others = index.overlapping(&range).map(|(_, other)| *other);
        if let Some(other) = others.find(|other| *other < place && is_kept[*other]) {
            is_kept[place] = false;
            remarks.push(Remark::left_out(
                RemarkName::PoolsOverlap,
                format!("IPPool {}", pool.name),
                format!(
                    "{} overlaps {} of `{}`: it is not imported",
                    pool.cidr, pools[other].cidr, pools[other].name
                ),
            ));
        }
    }
    let mut is_kept = is_kept.into_iter();
    pools.retain(|_| is_kept.next() == Some(true));
    pools
}

/// Addresses that Calico gives to no Pod. Our blocks are wider than addresses.
fn reservations(objects: &[Object<'_>], pools: &mut [ForeignPool], remarks: &mut Vec<Remark>) {
    for object in objects.iter().filter(|one| one.kind == "IPReservation") {
        for text in texts(object.spec("reservedCIDRs")) {
            let range = match Block::lenient(text) {
                Ok(block) => block.range(),
                Err(error) => {
                    remarks.push(object.unreadable(&format!("`spec.reservedCIDRs`: {error}")));
                    continue;
                }
            };
            let mut is_in_pool = false;
            for pool in pools.iter_mut() {
                let parts: Vec<_> = pool
                    .cidrs
                    .iter()
                    .filter_map(|cidr| cidr.range().intersection(&range))
                    .collect();
                if !parts.is_empty() {
                    is_in_pool = true;
                    pool.remarks.push(Remark::inferred(
                        RemarkName::Reservation,
                        object.about(),
                        format!(
                            "{text} is reserved: no node gets a block that contains any of it, unless it is pinned"
                        ),
                    ));
                }
                pool.reserved.extend(parts);
            }
            if !is_in_pool {
                remarks.push(Remark::left_out(
                    RemarkName::Reservation,
                    object.about(),
                    format!("{text} lies in no imported pool, so nothing gives it"),
                ));
            }
        }
    }
}

/// Settings of Calico's IPAM that Cilium lacks.
fn settings(object: &Object<'_>) -> Vec<Remark> {
    if !matches!(object.kind, "IPAMConfig" | "IPAMConfiguration") {
        return Vec::new();
    }
    let mut texts = Vec::new();
    if object.spec("maxBlocksPerHost").as_u64().unwrap_or_default() > 1 {
        texts.push("`maxBlocksPerHost`: in ipam `kubernetes` and `cluster-pool` a node of Cilium has one block per family, so choose a block size for all Pods of a node");
    }
    if object.spec("strictAffinity").as_bool() == Some(false) {
        texts.push("`strictAffinity: false`: a Pod of Cilium never borrows an address, so a node with a full block starts no more Pods");
    }
    if object.spec("autoAllocateBlocks").as_bool() == Some(false) {
        texts.push(
            "`autoAllocateBlocks: false`: cilium-ipam gives blocks to nodes that a pool selects",
        );
    }
    let remark =
        |text: &str| Remark::left_out(RemarkName::IpamConfig, object.about(), text.to_owned());
    texts.into_iter().map(remark).collect()
}

/// A pool of addresses for Services.
fn address_pool(pool: CalicoPool) -> Option<ForeignAddressPool> {
    let service_selector = match pool.choice {
        Choice::BySelector => None,
        Choice::ByPerson => {
            let selector = by_own_label(ADDRESS_POOL_LABEL, pool.name.as_str());
            selector.as_ref().map(WrittenSelector::from)
        }
    };
    let disabled = pool.state == PoolState::Disabled;
    let spec = AddressPoolSpec {
        blocks: vec![AddressBlock {
            cidr: Some(pool.cidr.to_string()),
            ..AddressBlock::default()
        }],
        service_selector,
        // Calico gives the first and the last address, too.
        allow_first_last: Some("Yes".to_owned()),
        disabled,
        ..AddressPoolSpec::default()
    };
    Some(ForeignAddressPool {
        name: pool.name.as_str().parse().ok()?,
        manifest: AddressPoolManifest {
            spec,
            ..AddressPoolManifest::default()
        },
        remarks: pool.remarks,
    })
}

#[cfg(test)]
pub(in crate::import::foreign) mod tests;

/// Default of the kubelet's `maxPods`.
const DEFAULT_MAX_PODS: u128 = 110;

/// The pools, sorted by name. `pools` are sorted by name and do not overlap.
pub(super) fn joined(pools: Vec<CalicoPool>) -> Vec<ForeignPool> {
    let has_both = Family::BOTH
        .iter()
        .all(|family| pools.iter().any(|pool| pool.cidr.family() == *family));
    let mut joined: Vec<ForeignPool> = Vec::new();
    let mut choices: Vec<Choice> = Vec::new();
    let mut rest = pools;
    while !rest.is_empty() {
        let first = rest.remove(0);
        let of_other_family = rest.iter().find(|other| {
            has_same_nodes(&first, other) && other.cidr.family() != first.cidr.family()
        });
        let same = match of_other_family.map(|other| other.size) {
            Some(size) => rest
                .extract_if(.., |other| {
                    has_same_nodes(&first, other) && [first.size, size].contains(&other.size)
                })
                .collect(),
            None => Vec::new(),
        };
        choices.push(first.choice);
        joined.push(of_all(first, same, has_both));
    }
    give_priorities(&mut joined, &choices);
    joined.sort_by(|one, two| one.name.cmp(&two.name));
    joined
}

fn has_same_nodes(one: &CalicoPool, two: &CalicoPool) -> bool {
    (&one.selector, one.choice, one.state) == (&two.selector, two.choice, two.state)
        && one.choice == Choice::BySelector
}

/// A pool of pools with the same nodes. Those of one family have one size.
fn of_all(first: CalicoPool, others: Vec<CalicoPool>, has_both: bool) -> ForeignPool {
    let mut pool = ForeignPool {
        name: first.name,
        cidrs: vec![first.cidr],
        block_size: PerFamily::NONE,
        selector: first.selector,
        priority: 0,
        reserved: Vec::new(),
        state: first.state,
        remarks: first.remarks,
    };
    *pool.block_size.get_mut(first.cidr.family()) = Some(first.size);
    for other in others {
        *pool.block_size.get_mut(other.cidr.family()) = Some(other.size);
        pool.cidrs.push(other.cidr);
        pool.remarks.extend(other.remarks);
        pool.remarks.push(Remark::inferred(
            RemarkName::FamiliesJoined,
            format!("IPPool {}", other.name),
            format!(
                "it selects the same nodes as `{}`: a node gets blocks of both families from one pool, so {} is in pool `{}`",
                pool.name, other.cidr, pool.name
            ),
        ));
    }
    pool.remarks.extend(small_blocks(&pool));
    if has_both && let [only] = *pool.block_size.families().collect::<Vec<_>>() {
        pool.remarks.push(Remark::to_do(
            RemarkName::FamilyAlone,
            format!("IPPool {}", pool.name),
            format!(
                "it has {only} only, and no pool of the other family selects the same nodes: nodes that need both families do not use it until it has CIDRs of both"
            ),
        ));
    }
    pool
}

/// Calico gives a node another block when one is full, and Cilium does not.
fn small_blocks(pool: &ForeignPool) -> Option<Remark> {
    let host_bits = |size: &BlockSize| u32::from(size.family().bits() - size.prefix_len());
    let smallest = pool.block_size.iter().min_by_key(|size| host_bits(size))?;
    // Cilium needs some addresses itself, such as those of its router and its health check.
    let addresses = 1_u128.checked_shl(host_bits(smallest))?;
    (addresses < DEFAULT_MAX_PODS).then(|| {
        Remark::to_do(
            RemarkName::SmallBlocks,
            format!("IPPool {}", pool.name),
            format!(
                "in ipam `kubernetes` and `cluster-pool`, a node of Cilium has one block per family: {addresses} addresses for all its Pods, and the kubelet allows {DEFAULT_MAX_PODS} by default. Lower `maxPods`, or move nodes to a pool with wider blocks later"
            ),
        )
    })
}

/// Calico tries pools in the order of their names. We try the pool with most requirements first, so
/// pools with common nodes get priorities.
fn give_priorities(pools: &mut [ForeignPool], choices: &[Choice]) {
    let is_ordered = |pool: &ForeignPool, choice: &Choice| {
        *choice == Choice::BySelector && pool.state == PoolState::Active
    };
    let places: Vec<usize> = (0..pools.len())
        .filter(|place| is_ordered(&pools[*place], &choices[*place]))
        .collect();
    let has_common_nodes = places.iter().enumerate().any(|(index, one)| {
        let mut later = places[index + 1..].iter();
        later.any(|two| have_common_nodes(&pools[*one].selector, &pools[*two].selector))
    });
    let mut highest = 0;
    if has_common_nodes {
        let names = listed(places.iter().map(|place| &pools[*place].name));
        for place in places.iter().rev() {
            highest += 1;
            let pool = &mut pools[*place];
            pool.priority = highest;
            pool.remarks.push(Remark::inferred(
                RemarkName::PoolOrder,
                format!("IPPool {}", pool.name),
                format!("Calico uses pools in the order of their names, and the priorities keep it: {names}"),
            ));
        }
    }
    // A pool that gives nothing is passed over. Before the others, it does not count as a pool that
    // its nodes should leave.
    for place in (0..pools.len()).rev() {
        if !places.contains(&place) {
            highest += 1;
            pools[place].priority = highest;
        }
    }
}

pub(super) fn have_common_nodes(one: &Selector, two: &Selector) -> bool {
    let requirements = one.requirements().chain(two.requirements()).cloned();
    Selector::all_of(requirements).contradiction().is_none()
}

/// The pool that has a block, by place.
pub(super) fn pool_of(pools: &[ForeignPool], block: Block) -> Option<usize> {
    pools
        .iter()
        .position(|pool| pool.cidrs.iter().any(|cidr| cidr.contains(block)))
}
