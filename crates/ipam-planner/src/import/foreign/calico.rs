//! Calico's pools, blocks and reservations, as pools and pins of nodes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::calico_pool::{CalicoPool, Choice, Purpose, read};
use super::object::{Object, flattened, texts};
use super::remark::{Remark, RemarkName};
use super::services::{Annotations, of_services};
use super::{ADDRESS_POOL_LABEL, ForeignAddressPool, ForeignPool, ForeignPools, by_own_label};
use super::{calico_blocks, calico_families};
use ipam_cilium::lbipam::{AddressBlock, AddressPoolManifest, AddressPoolSpec, WrittenSelector};
use ipam_core::net::{Block, RangeIndex, merge};
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
    let mut pools = calico_families::joined(for_pods);
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

/// One remark for each kind of objects that are not read.
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
