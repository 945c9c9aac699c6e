//! The blocks that Calico gave to nodes: the pins of nodes with one block, and the blocks that no
//! node may get.
//!
//! Source: `api/pkg/apis/projectcalico/v3/blockaffinity.go` and `ipamblocks.go` of Calico 3.32.

use std::collections::{BTreeMap, BTreeSet};

use super::calico::pool_of;
use super::object::{Object, Remark, RemarkName};
use super::{ForeignPin, ForeignPool, listed};
use ipam_core::model::{NodeName, PerFamily};
use ipam_core::net::{Block, Family, overlapping_pairs};
use ipam_desired::PoolState;

/// What Calico's objects say of one block.
#[derive(Debug, Default)]
struct SeenBlock<'v> {
    hosts: BTreeSet<&'v str>,
    /// Whether an `IPAMBlock` belongs to no node.
    is_free: bool,
    is_of_load_balancer: bool,
    is_unconfirmed: bool,
    /// Number of addresses in use.
    used: usize,
    /// Number of addresses that other nodes use, by node.
    borrowed: BTreeMap<&'v str, usize>,
}

/// A block that its node can keep.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    block: Block,
    /// Index of the block's pool.
    pool: usize,
}

/// The pins. Blocks without a pin become reserved in their pools, so that no other node gets them
/// while Pods still use them.
pub(super) fn pins(
    objects: &[Object<'_>],
    pools: &mut [ForeignPool],
    remarks: &mut Vec<Remark>,
) -> Vec<ForeignPin> {
    let seen = seen(objects, remarks);
    let overlapping = overlapping(&seen);
    let mut candidates: BTreeMap<NodeName, Vec<Candidate>> = BTreeMap::new();
    for (block, seen) in &seen {
        let about = format!("IPAMBlock {block}");
        remarks.extend(borrowed(&about, seen));
        match candidate(*block, seen, overlapping.contains(block), pools) {
            Ok(Some((node, pool))) => {
                let candidate = Candidate {
                    block: *block,
                    pool,
                };
                candidates.entry(node).or_default().push(candidate);
            }
            Ok(None) => {}
            Err((name, text)) => {
                remarks.push(Remark::left_out(name, &about, text));
                reserve(pools, *block);
            }
        }
    }
    let pins = candidates.into_iter().filter_map(|(node, candidates)| {
        let (pin, not_pinned) = pin(node, candidates, pools, remarks);
        not_pinned
            .into_iter()
            .for_each(|block| reserve(pools, block));
        pin
    });
    pins.collect()
}

fn seen<'v>(objects: &[Object<'v>], remarks: &mut Vec<Remark>) -> BTreeMap<Block, SeenBlock<'v>> {
    let nodes = nodes_of_kubernetes(objects);
    let node = |host: &'v str| nodes.get(host).copied().unwrap_or(host);
    let mut blocks: BTreeMap<Block, SeenBlock<'v>> = BTreeMap::new();
    for object in objects {
        if !matches!(object.kind, "BlockAffinity" | "IPAMBlock") {
            continue;
        }
        let block = match Block::lenient(object.spec_text("cidr")) {
            Ok(block) => block,
            Err(error) => {
                remarks.push(object.unreadable(&format!("`spec.cidr`: {error}")));
                continue;
            }
        };
        let seen = blocks.entry(block).or_default();
        if object.kind == "BlockAffinity" {
            if object.spec_text("type") == "virtual" {
                seen.is_of_load_balancer = true;
                continue;
            }
            let host = node(object.spec_text("node"));
            seen.hosts.insert(host);
            let state = object.spec_text("state");
            if object.is_set("deleted") || !matches!(state, "" | "confirmed") {
                seen.is_unconfirmed = true;
            }
        } else if !object.is_set("deleted") {
            seen.add_object(object, node);
        }
    }
    for seen in blocks.values_mut() {
        // An affinity and a block that disagree are ones that Calico has not finished.
        seen.is_unconfirmed |= seen.is_free;
    }
    blocks
}

/// Names of Kubernetes, by names of Calico's nodes where they differ.
fn nodes_of_kubernetes<'v>(objects: &[Object<'v>]) -> BTreeMap<&'v str, &'v str> {
    let nodes = objects
        .iter()
        .filter(|object| object.kind == "Node" && object.group == "projectcalico.org");
    let name = |object: &Object<'v>| {
        let references = object.spec("orchRefs").as_array()?;
        let reference = references
            .iter()
            .find(|reference| reference["orchestrator"] == "k8s")?;
        Some((object.name(), reference["nodeName"].as_str()?))
    };
    nodes.filter_map(name).collect()
}

impl<'v> SeenBlock<'v> {
    fn add_object(&mut self, object: &Object<'v>, node: impl Fn(&'v str) -> &'v str) {
        let host = match object.spec_text("affinity").split_once(':') {
            Some(("host", host)) => Some(node(host)),
            Some(("virtual", _)) => {
                self.is_of_load_balancer = true;
                None
            }
            _ => None,
        };
        self.hosts.extend(host);
        self.is_free |= host.is_none();
        let attributes = object.spec("attributes");
        let used = object.spec("allocations").as_array().into_iter().flatten();
        for index in used.filter(|index| !index.is_null()) {
            self.used += 1;
            let index = index.as_u64().and_then(|index| usize::try_from(index).ok());
            let attribute = index.and_then(|index| attributes.get(index));
            let user = attribute.and_then(|attribute| attribute["secondary"]["node"].as_str());
            if let (Some(user), Some(host)) = (user.map(&node), host)
                && user != host
            {
                *self.borrowed.entry(user).or_default() += 1;
            }
        }
    }
}

/// Blocks that overlap another one.
fn overlapping(seen: &BTreeMap<Block, SeenBlock<'_>>) -> BTreeSet<Block> {
    let blocks = seen.keys().map(|block| (block.range(), *block));
    overlapping_pairs(blocks)
        .into_iter()
        .flat_map(|(one, two)| [one, two])
        .collect()
}

/// The node that keeps the block, and the place of the pool; `None` if the block is unused.
fn candidate(
    block: Block,
    seen: &SeenBlock<'_>,
    is_overlapping: bool,
    pools: &[ForeignPool],
) -> Result<Option<(NodeName, usize)>, (RemarkName, String)> {
    if seen.is_of_load_balancer {
        return Ok(None);
    }
    let mut hosts = seen.hosts.iter();
    let (host, other) = (hosts.next(), hosts.next());
    let Some(host) = host else {
        if seen.used == 0 {
            return Ok(None);
        }
        let text = format!(
            "it belongs to no node, but {} of its addresses are in use: it is reserved",
            seen.used
        );
        return Err((RemarkName::BlockWithoutNode, text));
    };
    if other.is_some() {
        let hosts = listed(&seen.hosts);
        let text = format!(
            "it belongs to several nodes, {hosts}: it is reserved. Pin it to the right one"
        );
        return Err((RemarkName::BlockOfSeveralNodes, text));
    }
    if is_overlapping {
        let text = format!(
            "it overlaps another block: it is reserved. Drain node `{host}` before its Pods get other addresses"
        );
        return Err((RemarkName::BlockOverlaps, text));
    }
    if seen.is_unconfirmed {
        let text = format!(
            "Calico was giving it to node `{host}` or taking it back: it is reserved. Run `calicoctl ipam check`, then export again"
        );
        return Err((RemarkName::AffinityUnconfirmed, text));
    }
    let node: NodeName = host.parse().map_err(|error| {
        let text = format!("{error}: it is reserved");
        (RemarkName::BlockWithoutNode, text)
    })?;
    let pool = pool_of(pools, block).ok_or_else(|| {
        let text = format!(
            "it lies in no imported pool: node `{node}` gets another block. Add a pool for it, and a pin"
        );
        (RemarkName::BlockOutsidePools, text)
    })?;
    match pools[pool].block_size.get(block.family()) {
        Some(size) if *size == block.size() => Ok(Some((node, pool))),
        _ => Err((
            RemarkName::BlockOfOtherSize,
            format!(
                "it is a {}, and pool `{}` gives blocks of another size: it is reserved. Node `{node}` gets another block",
                block.size(),
                pools[pool].name
            ),
        )),
    }
}

fn borrowed(about: &str, seen: &SeenBlock<'_>) -> Option<Remark> {
    if seen.borrowed.is_empty() {
        return None;
    }
    let users: Vec<String> = seen
        .borrowed
        .iter()
        .map(|(node, addresses)| format!("{node} ({addresses})"))
        .collect();
    Some(Remark::to_do(
        RemarkName::BorrowedAddresses,
        about,
        format!(
            "other nodes use addresses of it: {}. Cilium routes the whole block to one node: re-create these Pods before Cilium serves the block",
            listed(users)
        ),
    ))
}

/// The pin of a node, and those of its blocks that are not pinned.
fn pin(
    node: NodeName,
    candidates: Vec<Candidate>,
    pools: &[ForeignPool],
    remarks: &mut Vec<Remark>,
) -> (Option<ForeignPin>, Vec<Block>) {
    let mut of_pin = Vec::new();
    let mut pinned: Vec<Candidate> = Vec::new();
    for family in Family::BOTH {
        let of_family: Vec<Candidate> = candidates
            .iter()
            .copied()
            .filter(|candidate| candidate.block.family() == family)
            .collect();
        let (preferred, disabled): (Vec<Candidate>, Vec<Candidate>) = of_family
            .iter()
            .partition(|candidate| pools[candidate.pool].state == PoolState::Active);
        let preferred = if preferred.is_empty() {
            disabled
        } else {
            preferred
        };
        if of_family.len() > 1 {
            of_pin.push(several_blocks(&node, family, &of_family, &preferred));
        }
        if let [only] = preferred[..] {
            let first_pool = pinned.first().map(|first| first.pool);
            if first_pool.is_none_or(|pool| pool == only.pool) {
                pinned.push(only);
            } else {
                of_pin.push(families_in_two_pools(&node, only, pools));
            }
        }
    }
    let blocks: PerFamily<Block> = pinned.iter().map(|candidate| candidate.block).collect();
    let not_pinned = candidates
        .iter()
        .map(|candidate| candidate.block)
        .filter(|block| !pinned.iter().any(|one| one.block == *block))
        .collect();
    let Some(first) = pinned.first() else {
        remarks.extend(of_pin);
        return (None, not_pinned);
    };
    of_pin.push(Remark::inferred(
        RemarkName::BlockPinned,
        format!("Node {node}"),
        format!("Calico gave it {}", listed(blocks.iter())),
    ));
    let pin = ForeignPin {
        node,
        pool: pools[first.pool].name.clone(),
        blocks,
        remarks: of_pin,
    };
    (Some(pin), not_pinned)
}

fn several_blocks(
    node: &NodeName,
    family: Family,
    candidates: &[Candidate],
    preferred: &[Candidate],
) -> Remark {
    let kept = match preferred {
        [only] => format!(
            "{} is pinned, because the pools of the others are disabled",
            only.block
        ),
        _ => "none is pinned: write a NodeAssignment for the one to keep".to_owned(),
    };
    let blocks = listed(candidates.iter().map(|candidate| candidate.block));
    Remark::left_out(
        RemarkName::SeveralBlocks,
        format!("Node {node}"),
        format!(
            "Calico gave it {} {family} blocks, {blocks}, and in ipam `kubernetes` and `cluster-pool` Cilium has one per node: {kept}. The others are reserved. Ipam `multi-pool` can hold several",
            candidates.len()
        ),
    )
}

fn families_in_two_pools(node: &NodeName, other: Candidate, pools: &[ForeignPool]) -> Remark {
    Remark::left_out(
        RemarkName::FamiliesInTwoPools,
        format!("Node {node}"),
        format!(
            "its block {} is in pool `{}`, and its other block is not: a node gets both from one pool, so {} is reserved",
            other.block, pools[other.pool].name, other.block
        ),
    )
}

/// Adds the block to the reserved ranges of its pool.
fn reserve(pools: &mut [ForeignPool], block: Block) {
    // An old block can be wider than a pool.
    for pool in pools {
        let parts = pool
            .cidrs
            .iter()
            .filter_map(|cidr| cidr.range().intersection(&block.range()));
        pool.reserved.extend(parts);
    }
}
