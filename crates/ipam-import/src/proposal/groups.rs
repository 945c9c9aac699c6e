//! Groups of nodes that get a pool each, and the blocks that they hold. Blocks far from the others of
//! their group are left out, and racks of one name in several data centres get a remark.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::division::Demand;
use super::suggestion::{common_sizes, cover, own_pod_pool};
use super::{PoolNodes, ProposalOptions, ProposedPool, Remark, Split};
use ipam_cilium::observed::{FamilyUse, Node, Observed, SeenPodPool};
use ipam_core::model::{NodeName, Operator, PerFamily, PoolName, Requirement, first_of};
use ipam_core::net::{Block, BlockSize, Family};
use ipam_desired::PoolState;

/// Nodes of one pool.
pub(super) struct Group<'o> {
    pub(super) selected: PoolNodes,
    pub(super) purpose: Purpose,
    pub(super) nodes: Vec<&'o Node>,
    held: Vec<(Block, &'o NodeName)>,
}

/// Whether a pool gives new blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    /// The pool gives blocks of the wished sizes.
    Give,
    /// The pool keeps blocks of other sizes, of exactly these families.
    Keep(PerFamily<BlockSize>),
}

/// A held block, with the index of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldBlock {
    pub(super) block: Block,
    pub(super) group: usize,
}

/// The wished block sizes, and the common sizes of families that only held blocks have.
pub(super) fn sizes(observed: &Observed, options: &ProposalOptions) -> PerFamily<BlockSize> {
    let held = common_sizes(observed);
    let mut sizes = options.sizes;
    for family in Family::BOTH {
        let size = sizes.get_mut(family);
        *size = size.or(held.get(family).copied());
    }
    sizes
}

/// The blocks that a node holds of families that Cilium uses.
pub(crate) fn held_by(observed: &Observed, node: &Node) -> PerFamily<Block> {
    // Pods choose the pools, and a node has any number of blocks.
    if observed.is_multi_pool() {
        return PerFamily::NONE;
    }
    let held = observed.holds(node);
    let blocks = held.iter().map(|holding| holding.block);
    blocks
        .filter(|block| observed.cilium.use_of(block.family()) != FamilyUse::Off)
        .collect()
}

/// The groups, sorted. Each one that keeps blocks has a twin that gives some.
pub(super) fn groups<'o>(
    observed: &'o Observed,
    split: &Split,
    sizes: &PerFamily<BlockSize>,
) -> Vec<Group<'o>> {
    let mut groups: BTreeMap<(PoolNodes, Purpose), Group<'o>> = BTreeMap::new();
    let mut add =
        |selected: PoolNodes, purpose: Purpose, node: Option<(&'o Node, PerFamily<Block>)>| {
            let group = groups
                .entry((selected.clone(), purpose))
                .or_insert_with(|| Group {
                    selected,
                    purpose,
                    nodes: Vec::new(),
                    held: Vec::new(),
                });
            if let Some((node, held)) = node {
                group.nodes.push(node);
                group
                    .held
                    .extend(held.iter().map(|block| (*block, &node.name)));
            }
        };
    for selected in expected(split) {
        add(selected, Purpose::Give, None);
    }
    for node in observed.nodes.values() {
        let held = held_by(observed, node);
        let is_wished = |block: &Block| sizes.get(block.family()) == Some(&block.size());
        let purpose = match held.iter().all(is_wished) {
            true => Purpose::Give,
            false => Purpose::Keep(PerFamily {
                ipv4: held.ipv4.map(Block::size),
                ipv6: held.ipv6.map(Block::size),
            }),
        };
        let selected = selected(split, node);
        add(selected.clone(), Purpose::Give, None);
        add(selected, purpose, Some((&**node, held)));
    }
    groups.into_values().collect()
}

/// Pools that a person wants whatever the labels of the nodes are.
fn expected(split: &Split) -> BTreeSet<PoolNodes> {
    match split {
        Split::None => [PoolNodes::All].into(),
        Split::ByLabel { key, values } => {
            let selected = |value: &String| PoolNodes::WithLabel {
                key: key.clone(),
                value: value.clone(),
            };
            values.iter().map(selected).collect()
        }
    }
}

fn selected(split: &Split, node: &Node) -> PoolNodes {
    let Split::ByLabel { key, .. } = split else {
        return PoolNodes::All;
    };
    match node
        .labels
        .get(key)
        .filter(|value| is_selectable(key, value))
    {
        Some(value) => PoolNodes::WithLabel {
            key: key.clone(),
            value: value.clone(),
        },
        None => PoolNodes::Fallback,
    }
}

/// Whether a selector can have this label. A cluster in a file may have others.
pub(crate) fn is_selectable(key: &str, value: &str) -> bool {
    Requirement::new(key, Operator::In([value.to_owned()].into())).is_ok()
}

/// The held blocks of all groups, each once, sorted. Of blocks that overlap in different groups,
/// only the first is kept, because pools must not overlap.
pub(super) fn distinct_blocks(groups: &[Group<'_>]) -> (Vec<HeldBlock>, Vec<Remark>) {
    let mut all: Vec<(Block, usize, &NodeName)> = Vec::new();
    for (place, group) in groups.iter().enumerate() {
        all.extend(
            group
                .held
                .iter()
                .map(|(block, node)| (*block, place, *node)),
        );
    }
    all.sort_by_key(|(block, place, node)| {
        (
            block.range().first_and_family(),
            block.prefix_len(),
            *place,
            *node,
        )
    });
    let mut kept: Vec<HeldBlock> = Vec::new();
    let mut remarks = Vec::new();
    for (block, group, node) in all {
        match kept.last().filter(|last| last.block.overlaps(block)) {
            Some(last) if last.block == block && last.group == group => {}
            Some(_) => remarks.push(Remark::Overlapping(node.clone(), block)),
            None => kept.push(HeldBlock { block, group }),
        }
    }
    (kept, remarks)
}

impl Group<'_> {
    pub(super) fn demand(&self, family: Family, observed: &Observed) -> Demand {
        let held = self.held.iter();
        let holders = held.filter(|(block, _)| block.family() == family).count();
        Demand {
            // A pool of Pods with the name of its label keeps its CIDRs as they are.
            gives: self.purpose == Purpose::Give
                && (self.selected == PoolNodes::All || self.pod_pool(observed).is_none()),
            nodes: self.nodes.len() as u128,
            without: self.nodes.len().saturating_sub(holders) as u128,
        }
    }

    pub(super) fn sizes(&self, wished: &PerFamily<BlockSize>) -> PerFamily<BlockSize> {
        match self.purpose {
            Purpose::Give => *wished,
            Purpose::Keep(sizes) => sizes,
        }
    }

    pub(super) fn pool(
        &self,
        name: PoolName,
        cidrs: Vec<Block>,
        sizes: PerFamily<BlockSize>,
    ) -> ProposedPool {
        // A pool that keeps blocks comes before its twin: the twin has room, and a node whose pool
        // comes later than one with room is misplaced.
        let (state, before) = match self.purpose {
            Purpose::Give => (PoolState::Active, 0),
            Purpose::Keep(_) => (PoolState::Disabled, 1),
        };
        let priority = match self.selected {
            PoolNodes::All | PoolNodes::WithLabel { .. } => before,
            PoolNodes::Fallback => before - 100,
        };
        ProposedPool {
            name,
            selected: self.selected.clone(),
            cidrs,
            sizes,
            priority,
            state,
        }
    }

    /// In ipam `multi-pool`, the `CiliumPodIPPool` of the group's name.
    fn pod_pool<'o>(&self, observed: &'o Observed) -> Option<&'o SeenPodPool> {
        let name = self.base_name(observed)?;
        let seen = observed.pod_pools.get(name.as_str());
        seen.filter(|_| observed.is_multi_pool())
    }

    /// Puts the CIDRs and sizes of a pool that the cluster has before those of the share.
    pub(super) fn take_over_pod_pool(
        &self,
        observed: &Observed,
        cidrs: &mut Vec<Block>,
        sizes: &mut PerFamily<BlockSize>,
    ) {
        let Some(seen) = self.pod_pool(observed) else {
            return;
        };
        let mut own: Vec<Block> = seen.cidrs().collect();
        cidrs.retain(|cidr| !own.iter().any(|own| own.overlaps(*cidr)));
        own.append(cidrs);
        *cidrs = own;
        for family in Family::BOTH {
            if let Some(ranges) = seen.ranges.get(family) {
                *sizes.get_mut(family) = Some(ranges.size);
            }
        }
    }

    /// A name that tells the nodes, such as `rack-a` for `rack=a` and for `rack=rack-a`.
    pub(super) fn base_name(&self, observed: &Observed) -> Option<PoolName> {
        let text = match &self.selected {
            PoolNodes::All => own_pod_pool(observed)
                .map_or("default", |(name, _)| name)
                .to_owned(),
            PoolNodes::WithLabel { key, value } => {
                let last = key.rsplit('/').next().unwrap_or_default();
                match value.starts_with(&format!("{last}-")) {
                    true => value.clone(),
                    false => format!("{last}-{value}"),
                }
            }
            PoolNodes::Fallback => "fallback".to_owned(),
        };
        let sizes = match self.purpose {
            Purpose::Give => PerFamily::NONE,
            Purpose::Keep(sizes) => sizes,
        };
        let sizes = sizes.iter().map(|size| format!("-{}", size.prefix_len()));
        let text = text + &sizes.collect::<String>();
        pool_name(&text)
    }
}

/// The text as a name that Kubernetes allows: every other character becomes `-`.
pub(crate) fn pool_name(text: &str) -> Option<PoolName> {
    let allowed = |c: char| {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_alphanumeric() { c } else { '-' }
    };
    let text: String = text.chars().map(allowed).collect();
    text.trim_matches('-').parse().ok()
}

/// Last parts of the keys of labels that name places wider than a rack.
const WIDER: [&str; 6] = ["region", "zone", "datacenter", "data-center", "dc", "site"];

/// Places that a message names; more are counted.
const NAMED: usize = 4;

/// A value of a label that nodes in several places have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeveralPlaces {
    /// Key and value of the label, such as `rack=a`.
    pub label: String,
    /// The key of the wider label.
    pub wider: String,
    /// Values of the wider label.
    pub places: BTreeSet<String>,
}

impl fmt::Display for SeveralPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "nodes with {} are in {} places by the label `{}` ({}), and get one pool: if these are different racks of one name, write a pool for each, whose nodeSelector has both labels",
            self.label.escape_debug(),
            self.places.len(),
            self.wider.escape_debug(),
            first_of(NAMED, &self.places).escape_debug()
        )
    }
}

/// The first wider label that tells the nodes of a group apart.
pub(super) fn of_group(group: &Group<'_>) -> Option<SeveralPlaces> {
    let PoolNodes::WithLabel { key, value } = &group.selected else {
        return None;
    };
    if group.purpose != Purpose::Give {
        return None;
    }
    let labels = group.nodes.iter().flat_map(|node| &node.labels);
    let is_wider = |other: &&String| {
        let last = other.rsplit('/').next().unwrap_or_default();
        *other != key && WIDER.contains(&last)
    };
    let keys: BTreeSet<&String> = labels.map(|(key, _)| key).filter(is_wider).collect();
    keys.into_iter().find_map(|wider| {
        let nodes = group.nodes.iter();
        let places: BTreeSet<String> = nodes
            .filter_map(|node| node.labels.get(wider).cloned())
            .collect();
        (places.len() > 1).then(|| SeveralPlaces {
            label: format!("{key}={value}"),
            wider: wider.clone(),
            places,
        })
    })
}

/// Fewest blocks that lie together. Beside fewer, no block is a stray one.
const TOGETHER: usize = 4;

/// How often the range of the others would double to contain a stray block.
const DOUBLINGS: u8 = 3;

/// Blocks by their neighbourhood, the widest CIDR that may be suggested around them.
pub(super) type Near = BTreeMap<Block, Vec<Block>>;

/// Splits blocks by whether they are stray: far from the blocks of other nodes.
pub(super) fn set_apart(near: Near) -> (Near, Vec<Block>) {
    let most = near.values().map(Vec::len).max().unwrap_or_default();
    let (mut together, mut strays) = (Near::new(), Vec::new());
    for (widest, mut blocks) in near {
        if blocks.len() == 1 && most >= TOGETHER {
            strays.append(&mut blocks);
            continue;
        }
        blocks.sort_by_key(|block| (block.range().first_and_family(), block.prefix_len()));
        while let Some(place) = stray(&blocks, widest) {
            strays.push(blocks.remove(place));
        }
        together.insert(widest, blocks);
    }
    (together, strays)
}

/// The place of a stray block: the first or the last one.
fn stray(sorted: &[Block], widest: Block) -> Option<usize> {
    if sorted.len() <= TOGETHER {
        return None;
    }
    let whole = cover(sorted, widest).prefix_len();
    let last = sorted.len() - 1;
    let shrinks = |rest: &[Block]| cover(rest, widest).prefix_len() >= whole + DOUBLINGS;
    match (shrinks(&sorted[1..]), shrinks(&sorted[..last])) {
        (true, _) => Some(0),
        (false, true) => Some(last),
        (false, false) => None,
    }
}
