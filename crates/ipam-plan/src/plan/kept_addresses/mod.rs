//! Which addresses Nodes and CiliumNodes keep out of the pools, and how many one object may keep.
//!
//! A kubelet reports the addresses of its machine, and any Cilium agent can write any CiliumNode.
//! Without a bound, one broken node could fill every pool. Blocks that `Node.spec` shows or that
//! agents read are in use, and are never cut.
//!
//! The finding about an object that shows much of a pool, with the fields that show it.

mod budget;

use std::collections::{BTreeMap, BTreeSet};

use budget::{Bound, Budget, PoolShare, touched_blocks};

use super::drift;
use ipam_cilium::observed::{HoldingField, ModeSeen, Node, Observed, Reading};
use ipam_core::alloc::{PoolPart, Supply};
use ipam_core::model::{
    Finding, IpamMode, NodeName, ObjectRef, Rule, Severity, first_of, grouped_digits,
};
use ipam_core::net::{Block, Family, Range, covers, merge};

/// Addresses that are kept out of the pools.
pub(super) struct KeptAddresses<'o> {
    /// Addresses of machines.
    pub(super) machines: Vec<Range>,
    /// Blocks that objects show, with the nodes of these objects.
    pub(super) shown: Vec<(&'o NodeName, Range)>,
    /// The kept parts of those blocks of which the bound leaves the rest to others.
    pub(super) cut: BTreeMap<(&'o NodeName, Block), Vec<Range>>,
    /// All addresses of the machines that exceed their bound, by node.
    crowded: BTreeMap<&'o NodeName, Vec<Range>>,
    excess: Vec<Excess>,
}

impl<'o> KeptAddresses<'o> {
    /// Of all Nodes and CiliumNodes, with the supply of all pools.
    pub(super) fn new(observed: &'o Observed, supply: &Supply) -> KeptAddresses<'o> {
        let mut kept = KeptAddresses {
            machines: Vec::new(),
            shown: Vec::new(),
            cut: BTreeMap::new(),
            crowded: BTreeMap::new(),
            excess: Vec::new(),
        };
        for node in observed.nodes.values() {
            kept.add_machine(node, supply);
        }
        let held = held(observed);
        let mut blocks: BTreeMap<&NodeName, BTreeSet<Block>> = BTreeMap::new();
        for (name, block) in observed.shown_blocks() {
            blocks.entry(name).or_default().insert(block);
        }
        for (name, blocks) in blocks {
            let (used, unread) = blocks
                .into_iter()
                .partition(|block| held.contains(&(name, *block)));
            kept.add_used(observed, supply, name, used);
            kept.add_unread(observed, supply, name, unread);
        }
        kept
    }

    fn add_machine(&mut self, node: &'o Node, supply: &Supply) {
        let mut budget = Budget::new(supply, Bound::Machine);
        let kept = addresses(node).flat_map(|range| budget.take(range));
        self.machines.extend(kept);
        let over = budget.over_bound();
        if !over.is_empty() {
            self.crowded.insert(&node.name, addresses(node).collect());
        }
        let object = ObjectRef::node(&node.name);
        self.excess
            .extend(Excess::new(&object, Kind::Machine, over, || {
                vec![source_of_addresses(node)]
            }));
    }

    fn add_used(
        &mut self,
        observed: &Observed,
        supply: &Supply,
        name: &'o NodeName,
        used: Vec<Block>,
    ) {
        let mut budget = Budget::new(supply, Bound::All);
        let parts = used.iter().flat_map(|block| budget.take(block.range()));
        self.shown.extend(parts.map(|part| (name, part)));
        if budget.over_share().is_empty() {
            return;
        }
        let used = of_widest_field(observed, supply, name, &used);
        let mut budget = Budget::new(supply, Bound::All);
        used.iter()
            .for_each(|block| drop(budget.take(block.range())));
        let over = budget.over_share();
        let object = ObjectRef::node(name);
        let lives = observed.pod_blocks_of(name);
        let is_left = |block: &Block| !lives.iter().any(|home| home.overlaps(*block));
        let kind = match !lives.is_empty() && used.iter().all(is_left) {
            true => Kind::Left,
            false => Kind::Held,
        };
        self.excess.extend(Excess::new(&object, kind, over, || {
            sources_of_blocks(observed, name, &used)
        }));
    }

    fn add_unread(
        &mut self,
        observed: &Observed,
        supply: &Supply,
        name: &'o NodeName,
        mut unread: Vec<Block>,
    ) {
        // Narrow blocks, which may be honest, use the budget before wide ones.
        unread.sort_by_cached_key(|block| touched_blocks(supply, *block));
        let mut budget = Budget::new(supply, Bound::Unread);
        for block in &unread {
            let parts = budget.take(block.range());
            self.shown.extend(parts.iter().map(|part| (name, *part)));
            if !keeps_whole(&parts, &supply.parts(&block.range())) {
                self.cut.insert((name, *block), parts);
            }
        }
        let object = ObjectRef::node(name);
        let over = budget.over_bound();
        self.excess
            .extend(Excess::new(&object, Kind::Unread, over, || {
                sources_of_blocks(observed, name, &unread)
            }));
    }

    /// Addresses of a node's own machine that are not kept out of the pools.
    pub(super) fn own_addresses(&self, node: &NodeName) -> Vec<Range> {
        self.crowded.get(node).cloned().unwrap_or_default()
    }

    /// Names each object that shows more of a pool than its share.
    pub(super) fn findings(&self) -> Vec<Finding> {
        self.excess.iter().map(Excess::finding).collect()
    }
}

/// The used blocks of the field that shows the most of the pools. A node that was moved shows its old
/// block in one field and its new one in another: together they say nothing about the node.
fn of_widest_field(
    observed: &Observed,
    supply: &Supply,
    name: &NodeName,
    used: &[Block],
) -> Vec<Block> {
    let set = observed.nodes.get(name).into_iter().flat_map(|node| {
        let families = Family::BOTH.into_iter();
        families.filter_map(|family| observed.set_range(node, family))
    });
    let set = set.map(|block| (HoldingField::Setting, block));
    let mut fields: BTreeMap<HoldingField, Vec<Block>> = BTreeMap::new();
    for (field, block) in drift::all_shown(observed, name).chain(set) {
        if used.contains(&block) {
            fields.entry(field).or_default().push(block);
        }
    }
    let width = |blocks: &Vec<Block>| {
        let touched = blocks.iter().map(|block| touched_blocks(supply, *block));
        touched.fold(0u128, u128::saturating_add)
    };
    fields.into_values().max_by_key(width).unwrap_or_default()
}

/// Whether nothing that lies in a pool was cut off.
fn keeps_whole(kept: &[Range], in_pools: &[PoolPart]) -> bool {
    let kept = merge(kept.iter().copied());
    in_pools
        .iter()
        .all(|PoolPart { part, .. }| covers(&kept, part))
}

/// Addresses of a Node, internal ones first: they use the budget before others.
fn addresses(node: &Node) -> impl Iterator<Item = Range> {
    node.addresses.iter().map(|address| Range::from(*address))
}

/// Blocks of which no part may be given to another node: `Node.spec` shows them, or an agent reads
/// them. In ipam `multi-pool`, Cilium's operator allocates them.
fn held(observed: &Observed) -> BTreeSet<(&NodeName, Block)> {
    let mut held = BTreeSet::new();
    for node in observed.nodes.values() {
        held.extend(node.spec.iter().map(|block| (&node.name, *block)));
        let read = observed.holds(node);
        let read = read
            .iter()
            .filter(|holding| holding.reading == Reading::Read);
        held.extend(read.map(|holding| (&node.name, holding.block)));
    }
    // An agent of cluster-pool lives in its CiliumNode, whether its Node is there or not.
    if observed.cilium.mode() == ModeSeen::Known(IpamMode::ClusterPool) {
        let blocks = observed
            .cilium_nodes
            .values()
            .map(|node| (&node.name, &node.pod_cidrs));
        held.extend(
            blocks.flat_map(|(name, blocks)| blocks.iter().map(move |block| (name, *block))),
        );
    }
    if observed.is_multi_pool() {
        let allocated = observed.cilium_nodes.values().flat_map(|node| {
            node.allocated
                .iter()
                .flat_map(|(_, blocks)| blocks)
                .map(move |block| (&node.name, *block))
        });
        held.extend(allocated);
    }
    held
}

/// Limit of the values of one field that are listed; further ones are counted.
const LISTED: usize = 3;

/// How an object shows addresses.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// The addresses of the object's machine.
    Machine,
    /// Fields that no agent reads.
    Unread,
    /// Fields that are in use.
    Held,
    /// Fields that show the block from which the object was moved.
    Left,
}

/// An object that shows more of a pool than its share.
pub(super) struct Excess {
    object: ObjectRef,
    kind: Kind,
    share: PoolShare,
    /// The fields that show it, each with its object, some values and its last writer.
    sources: Vec<String>,
}

impl Excess {
    /// One excess for each pool of which the object shows too much.
    fn new(
        object: &ObjectRef,
        kind: Kind,
        shares: Vec<PoolShare>,
        sources: impl Fn() -> Vec<String>,
    ) -> Vec<Excess> {
        let excess = |share| Excess {
            object: object.clone(),
            kind,
            share,
            sources: sources(),
        };
        shares.into_iter().map(excess).collect()
    }

    pub(super) fn finding(&self) -> Finding {
        let Excess {
            object,
            kind,
            share: PoolShare { pool, shows, keeps },
            sources,
        } = self;
        let (all, kept) = (grouped_digits(*shows), grouped_digits(*keeps));
        let by = if sources.is_empty() {
            String::new()
        } else {
            format!(" ({})", sources.join("; "))
        };
        let claims = |what: &str| {
            (
                Severity::Error,
                format!(
                    "{object} claims {all} blocks of pool `{pool}` by {what}{by}; {kept} of them are kept free"
                ),
                "check who writes these fields; the pool gives the other blocks to nodes",
            )
        };
        let (severity, message, help) = match kind {
            Kind::Machine => claims("the addresses of its machine"),
            Kind::Unread => claims("fields that no agent reads"),
            Kind::Held => (
                Severity::Warning,
                format!("{object} holds {all} blocks of pool `{pool}`{by}"),
                "check that the node needs a block of this size, or drain and re-create it",
            ),
            Kind::Left => (
                Severity::Warning,
                format!(
                    "{object} still shows {all} blocks of pool `{pool}`, and its Pods live elsewhere{by}"
                ),
                "nothing is wrong with the node, which was moved: re-create its Node object with the block of its Pods, and the pool has these blocks again",
            ),
        };
        Finding::new(severity, Rule("one-node-fills-pool"), message)
            .about(object.clone())
            .help(help)
            .seen(sources.iter().cloned())
    }
}

/// `Node/m status.addresses: 10.0.0.1, 10.0.1.1 and 254 more`.
pub(super) fn source_of_addresses(node: &Node) -> String {
    let addresses: BTreeSet<Range> = addresses(node).collect();
    format!(
        "{} status.addresses: {}",
        ObjectRef::node(&node.name),
        first_of(LISTED, addresses.iter().map(Range::first))
    )
}

/// The fields that show these blocks for a node, each with its last writer if the server kept it.
pub(super) fn sources_of_blocks(
    observed: &Observed,
    name: &NodeName,
    blocks: &[Block],
) -> Vec<String> {
    let mut fields: BTreeMap<HoldingField, BTreeSet<Block>> = BTreeMap::new();
    let shown = drift::all_shown(observed, name).filter(|(_, block)| blocks.contains(block));
    for (field, block) in shown {
        fields.entry(field).or_default().insert(block);
    }
    let source = |(field, blocks): (HoldingField, BTreeSet<Block>)| {
        let (kind, field_name) = match field {
            HoldingField::CiliumNode => ("CiliumNode", "spec.ipam.podCIDRs"),
            HoldingField::Allocated => ("CiliumNode", "spec.ipam.pools.allocated"),
            HoldingField::NodeSpec
            | HoldingField::Annotation
            | HoldingField::OldAnnotation
            | HoldingField::Setting => ("Node", field.as_str()),
        };
        let author = drift::author(observed, name, field).map(|(manager, time)| {
            let (manager, time) = (manager.escape_debug(), time.escape_debug());
            format!(", written by {manager} at {time}")
        });
        format!(
            "{kind}/{name} {field_name}: {}{}",
            first_of(LISTED, &blocks),
            author.unwrap_or_default()
        )
    };
    fields.into_iter().map(source).collect()
}
