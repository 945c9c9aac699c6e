//! Rules on the files alone.

use std::collections::BTreeSet;

use ipam_core::model::{Finding, ObjectRef, Origin, PoolName, Rule, Severity};
use ipam_core::net::{
    Block, Family, Range, RangeIndex, Slots, covers, merge, overlapping_pairs, touching,
};
use ipam_desired::{Desired, Pin, Pool, PoolRange, PoolState};

/// Private address space: RFC 1918, RFC 6598, RFC 4193.
const PRIVATE: [&str; 5] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "fc00::/7",
];

/// Address space that no Pod can have: this-network, loopback, IPv4-mapped, link-local, multicast,
/// reserved (IANA special-purpose registries for IPv4 and IPv6).
const UNUSABLE: [&str; 8] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/64",
    "fe80::/10",
    "ff00::/8",
];

/// Reserved for future use. Linux forwards it, and other hosts and routers often do not.
const RESERVED: &str = "240.0.0.0/4";

fn known(blocks: &[&str]) -> Vec<Range> {
    blocks
        .iter()
        .filter_map(|text| text.parse::<Block>().ok())
        .map(Block::range)
        .collect()
}

/// Address space that neither a Pod nor a Service can have.
pub(super) fn unusable() -> Vec<Range> {
    known(&UNUSABLE)
}

/// Whether a block lies in address space without owners on the Internet.
pub fn is_private(block: Block) -> bool {
    let private = known(&PRIVATE).into_iter().chain(known(&[RESERVED]));
    covers(&merge(private), &block.range())
}

fn ranges(desired: &Desired) -> Vec<(&Pool, &PoolRange)> {
    desired
        .pools
        .values()
        .flat_map(|pool| pool.ranges.iter().map(move |range| (pool, range)))
        .collect()
}

pub(super) fn overlapping_pools(desired: &Desired) -> Vec<Finding> {
    let ranges = ranges(desired);
    let pairs = overlapping_pairs(
        ranges
            .iter()
            .enumerate()
            .map(|(index, (_, range))| (range.block.range(), index)),
    );
    let finding = |(one, other): (usize, usize)| {
        // The later place in the files is marked as the fault.
        let mut pair = [ranges[one], ranges[other]];
        pair.sort_by(|(_, a), (_, b)| a.origin.cmp(&b.origin));
        let [(first_pool, first), (pool, range)] = pair;
        let message = format!(
            "pool `{}` overlaps pool `{}`: {} and {}",
            pool.name, first_pool.name, range.block, first.block
        );
        let finding = Finding::new(Severity::Error, Rule("pool-overlap"), message)
            .about(ObjectRef::pool(&pool.name));
        let finding = finding
            .at(&range.origin, format!("overlaps {}", first.block))
            .and(&first.origin, "this one");
        finding.help(
            "give each pool its own addresses; list a part that must stay unused under `reserved`",
        )
    };
    pairs.into_iter().map(finding).collect()
}

fn pinned(desired: &Desired) -> Vec<(&Pin, Block)> {
    desired
        .pins
        .values()
        .flat_map(|pin| pin.blocks.iter().map(move |block| (pin, *block)))
        .collect()
}

pub(super) fn block_pinned_twice(desired: &Desired) -> Vec<Finding> {
    let pinned = pinned(desired);
    let pairs = overlapping_pairs(
        pinned
            .iter()
            .enumerate()
            .map(|(index, (_, block))| (block.range(), index)),
    );
    let finding = |(one, other): (usize, usize)| {
        let mut pair = [pinned[one], pinned[other]];
        pair.sort_by(|(a, _), (b, _)| a.origin.cmp(&b.origin));
        let [(first, first_block), (pin, block)] = pair;
        let message = format!(
            "block {block} is pinned twice: to `{}` and to `{}`",
            first.node, pin.node
        );
        let finding = Finding::new(Severity::Error, Rule("block-pinned-twice"), message)
            .about(ObjectRef::node(&pin.node));
        let finding = finding
            .at(&pin.origin, format!("pins {block}"))
            .and(&first.origin, format!("pins {first_block}"));
        finding.help("a block belongs to one node: change one of the two")
    };
    pairs.into_iter().map(finding).collect()
}

pub(super) fn excluded_pins(desired: &Desired) -> Vec<Finding> {
    let excluded = RangeIndex::new(desired.policy.excluded.iter().map(|range| (*range, ())));
    let finding = |(pin, block): (&Pin, Block)| {
        let (excluded, ()) = excluded.overlapping(&block.range()).next()?;
        let message = format!(
            "node `{}` is pinned to {block}, which the Policy excludes ({excluded})",
            pin.node
        );
        let finding = Finding::new(Severity::Error, Rule("pin-excluded"), message)
            .about(ObjectRef::node(&pin.node));
        Some(
            finding
                .at(&pin.origin, "pins an excluded block")
                .help("pin another block, or remove the range from `excluded`"),
        )
    };
    pinned(desired).into_iter().filter_map(finding).collect()
}

pub(super) fn unusable_address_space(desired: &Desired) -> Vec<Finding> {
    let unusable = unusable();
    let finding = |(pool, range): (&Pool, &PoolRange)| {
        let hit = unusable
            .iter()
            .find(|unusable| unusable.overlaps(&range.block.range()))?;
        if hit.to_string() == RESERVED {
            return Some(reserved(pool, range));
        }
        let message = format!(
            "pool `{}` has {}, part of {hit}, which no Pod can have",
            pool.name, range.block
        );
        let finding = Finding::new(Severity::Error, Rule("unusable-address-space"), message)
            .about(ObjectRef::pool(&pool.name));
        Some(
            finding
                .at(&range.origin, "loopback, link-local, multicast or reserved")
                .help("use private address space, such as a part of 10.0.0.0/8 or fd00::/8"),
        )
    };
    ranges(desired).into_iter().filter_map(finding).collect()
}

fn reserved(pool: &Pool, range: &PoolRange) -> Finding {
    let message = format!(
        "pool `{}` has {}, part of {RESERVED}: Linux forwards these reserved addresses, and many other hosts and routers drop them",
        pool.name, range.block
    );
    Finding::new(Severity::Warning, Rule("reserved-address-space"), message)
        .about(ObjectRef::pool(&pool.name))
        .at(&range.origin, "reserved address space")
        .help("use private address space, unless all hosts and routers of these Pods forward the range")
}

pub(super) fn foreign_address_space(desired: &Desired) -> Vec<Finding> {
    let ours = merge(
        known(&PRIVATE)
            .into_iter()
            .chain(known(&[RESERVED]))
            .chain(desired.policy.own_address_space.iter().copied()),
    );
    let finding = |(pool, range): (&Pool, &PoolRange)| {
        if covers(&ours, &range.block.range()) {
            return None;
        }
        let message = format!(
            "pool `{}` has {}, which is public address space",
            pool.name, range.block
        );
        let finding = Finding::new(Severity::Warning, Rule("foreign-address-space"), message)
            .about(ObjectRef::pool(&pool.name));
        Some(
            finding
                .at(&range.origin, "public address space")
                .help("if you own it, list it under `ownAddressSpace` in the Policy"),
        )
    };
    ranges(desired).into_iter().filter_map(finding).collect()
}

/// A protection must outlive the file of the protected object.
pub(super) fn protections_beside_what_they_protect(desired: &Desired) -> Vec<Finding> {
    let Some(policy) = &desired.policy.origin else {
        return Vec::new();
    };
    let protected = &desired.policy.protected;
    let pools = desired
        .pools
        .values()
        .filter(|pool| protected.pools.contains(&pool.name));
    let pools = pools.map(|pool| (&pool.origin, ObjectRef::pool(&pool.name)));
    let pins = desired
        .pins
        .values()
        .filter(|pin| protected.nodes.contains(&pin.node));
    let pins = pins.map(|pin| (&pin.origin, ObjectRef::node(&pin.node)));
    let beside = pools
        .chain(pins)
        .filter(|(origin, _)| origin.file == policy.file);
    let finding = |(origin, subject): (&Origin, ObjectRef)| {
        let message = format!(
            "{subject} and the Policy that protects it are in one file: deleting the file deletes both"
        );
        let finding =
            Finding::new(Severity::Error, Rule("protection-in-same-file"), message).about(subject);
        finding
            .at(origin, "the protected object")
            .and(policy, "the Policy that protects it")
            .help("move the Policy to a file of its own")
    };
    beside.map(finding).collect()
}

/// Pools that pins use. Such a pool may select no node, and may have no block to assign.
pub(super) fn pinned_pools(desired: &Desired) -> BTreeSet<&PoolName> {
    desired.pins.values().map(|pin| &pin.pool).collect()
}

pub(super) fn contradictory_selectors(desired: &Desired) -> Vec<Finding> {
    let pinned = pinned_pools(desired);
    let is_judged =
        |pool: &&Pool| !desired.faulty.contains(&pool.name) && !pinned.contains(&pool.name);
    let pools = desired.pools.values().filter(is_judged);
    let finding = |pool: &Pool| {
        let key = pool.selector.contradiction()?;
        let message = format!(
            "pool `{}` selects no node: the requirements of its selector on the label `{key}` contradict each other",
            pool.name
        );
        let finding = Finding::new(Severity::Warning, Rule("selector-matches-nothing"), message);
        let finding = finding
            .about(ObjectRef::pool(&pool.name))
            .at(&pool.origin, "selects nothing");
        Some(finding.help(format!(
            "correct the requirements on `{key}`, or remove the pool"
        )))
    };
    pools.filter_map(finding).collect()
}

/// Pools without a block to assign according to the files. Blocks in use in the cluster do not
/// count.
pub(super) fn pools_without_blocks(desired: &Desired) -> Vec<Finding> {
    let giving = desired
        .pools
        .values()
        .filter(|pool| pool.state == PoolState::Active);
    let pinned = pinned_pools(desired);
    let pools =
        giving.filter(|pool| !desired.faulty.contains(&pool.name) && !pinned.contains(&pool.name));
    let excluded = merge(desired.policy.excluded.iter().copied());
    let finding = |pool: &Pool| {
        let family = family_without_blocks(pool, &excluded)?;
        let message = format!(
            "pool `{}` has no {family} block to give: everything is reserved, retiring or excluded",
            pool.name
        );
        let finding = Finding::new(Severity::Warning, Rule("pool-without-blocks"), message);
        let finding = finding
            .about(ObjectRef::pool(&pool.name))
            .at(&pool.origin, "nothing to give");
        Some(
            finding
                .help("shorten `reserved` of the pool or `excluded` of the Policy, or add a CIDR"),
        )
    };
    pools.filter_map(finding).collect()
}

/// A family whose addresses are all reserved, retiring or excluded.
fn family_without_blocks(pool: &Pool, excluded: &[Range]) -> Option<Family> {
    let reserved = merge(pool.never_given());
    // A range may be listed twice.
    let ranges: BTreeSet<Block> = pool.ranges.iter().map(|range| range.block).collect();
    let has_block = |family: Family| {
        let Some(size) = pool.block_size.get(family) else {
            return true;
        };
        let mut slots = ranges
            .iter()
            .filter_map(|range| Some((range.range(), Slots::new(*range, *size)?)));
        slots.any(|(range, mut slots)| {
            let taken = touching(&reserved, &range)
                .iter()
                .chain(touching(excluded, &range));
            taken.for_each(|range| slots.take(range));
            slots.free() > 0
        })
    };
    pool.families().find(|family| !has_block(*family))
}

pub(super) fn equal_selectors(desired: &Desired) -> Vec<Finding> {
    // The selector of a pool with faults may be incomplete.
    let mut pools: Vec<&Pool> = desired
        .pools
        .values()
        .filter(|pool| !desired.faulty.contains(&pool.name))
        .collect();
    pools.sort_by(|a, b| {
        (&a.selector, a.priority, &a.name).cmp(&(&b.selector, b.priority, &b.name))
    });
    let tied = pools.windows(2).filter(|pair| {
        (&pair[0].selector, pair[0].priority) == (&pair[1].selector, pair[1].priority)
    });
    let finding = |pair: &[&Pool]| {
        let [first, second] = [pair[0], pair[1]];
        let message = format!(
            "pools `{}` and `{}` have the same selector ({}) and priority: `{}` comes first only by its name",
            first.name, second.name, first.selector, first.name
        );
        let finding = Finding::new(Severity::Warning, Rule("selector-tie"), message)
            .about(ObjectRef::pool(&second.name));
        finding
            .at(&second.origin, "tied")
            .and(&first.origin, "first by name")
            .help("give one of them a higher `priority`, or merge them into one pool with both `cidrs`")
    };
    tied.map(finding).collect()
}
