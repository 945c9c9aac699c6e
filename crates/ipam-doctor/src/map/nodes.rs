//! Map areas of nodes: their blocks, blocks only in unused fields, blocks that the plan assigns or
//! releases, and machine addresses.
//!
//! One area: a block, its use, its owner, and whether it is there now, after the plan, or both.
//!
//! Areas of addresses of Services, with those that the plan takes away or gives.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipam_cilium::lbipam::GainedAddress;
use ipam_cilium::observed::Observed;
use ipam_core::model::{NodeName, ServiceName};
use ipam_core::net::{Block, Range, RangeIndex};
use ipam_desired::Desired;
use ipam_plan::allocators::overlapping_holders;
use ipam_plan::plan::{NodeChange, Plan, Reason, node_changes};

pub(super) fn areas(desired: &Desired, observed: &Observed, plan: &Plan) -> Vec<Area> {
    let mut blocks = held(observed);
    mark_shared(&mut blocks);
    mark_misplaced(&mut blocks, plan);
    for change in node_changes(&plan.changes) {
        apply(change, &mut blocks);
    }
    let pools = RangeIndex::new(desired.pools.values().flat_map(|pool| {
        let ranges = pool.ranges.iter();
        ranges.map(move |range| (range.block.range(), pool.name.as_str()))
    }));
    let mut areas: Vec<Area> = blocks.into_values().chain(machines(observed)).collect();
    for area in &mut areas {
        let pool = pools.overlapping(&area.block.range()).next();
        area.pool = pool.map(|(_, name)| (*name).to_owned());
        let node = area.owner.parse::<NodeName>().ok();
        let node = node.and_then(|name| observed.nodes.get(&name));
        area.domain = node
            .and_then(|node| node.labels.get(&desired.policy.failure_domain))
            .cloned();
    }
    areas
}

type Blocks = BTreeMap<(NodeName, Block), Area>;

/// What nodes hold, and what fields only show.
fn held(observed: &Observed) -> Blocks {
    let mut blocks = BTreeMap::new();
    for node in observed.nodes.values() {
        for holding in observed.holds(node).iter() {
            let area = Area::new(AreaKind::Node, holding.block, &node.name);
            let area = area.with_note(format!("in {}", holding.field));
            blocks.insert((node.name.clone(), holding.block), area);
        }
    }
    for node in observed.cilium_nodes.values() {
        let lives: BTreeSet<Block> = observed.pod_blocks_of(&node.name).into_iter().collect();
        let allocated = node.allocated.iter();
        let allocated =
            allocated.flat_map(|(pool, blocks)| blocks.iter().map(move |block| (pool, block)));
        for (pool, block) in allocated {
            let area = Area::new(AreaKind::Node, *block, &node.name);
            let area = area.with_note(format!("of pool {}", pool.escape_debug()));
            blocks.insert((node.name.clone(), *block), area);
        }
        for block in lives {
            blocks
                .entry((node.name.clone(), block))
                .or_insert_with(|| Area::new(AreaKind::Node, block, &node.name));
        }
    }
    for (name, block) in observed.shown_blocks() {
        blocks
            .entry((name.clone(), block))
            .or_insert_with(|| Area::new(AreaKind::Shown, block, name));
    }
    blocks
}

fn mark_shared(blocks: &mut Blocks) {
    let holders = blocks
        .iter()
        .filter(|(_, area)| area.kind == AreaKind::Node)
        .map(|((name, block), _)| (name, *block));
    let pairs: Vec<_> = overlapping_holders(holders.collect())
        .into_iter()
        .map(|(a, b)| ((a.0.clone(), a.1), (b.0.clone(), b.1)))
        .collect();
    for (one, other) in pairs {
        for (key, with) in [(&one, &other), (&other, &one)] {
            if let Some(area) = blocks.get_mut(key) {
                area.shared_with.push(with.0.to_string());
            }
        }
    }
}

fn mark_misplaced(blocks: &mut Blocks, plan: &Plan) {
    for misplaced in &plan.misplaced {
        if let Some(area) = blocks.get_mut(&(misplaced.node.clone(), misplaced.block)) {
            area.misplaced = Some(misplaced.reason.to_string());
        }
    }
}

/// A field that a change writes may not be the one that shows the block now: such a block stays.
fn apply(change: &NodeChange, blocks: &mut Blocks) {
    for block in &change.after {
        let key = (change.node.clone(), *block);
        let note = format!("the plan writes it to {}", change.edit.write_path().field());
        match blocks.get_mut(&key) {
            Some(area) if area.kind == AreaKind::Node => area.notes.push(note),
            _ => {
                let area = Area::new(AreaKind::Node, *block, &change.node);
                blocks.insert(key, area.present(Presence::Added).with_note(note));
            }
        }
    }
    let moved = match &change.reason {
        Reason::MovedByPin { from } => Some(from),
        _ => None,
    };
    let left = change.before.iter().chain(moved);
    for block in left.filter(|block| !change.after.contains(block)) {
        if let Some(area) = blocks.get_mut(&(change.node.clone(), *block)) {
            area.presence = Presence::Removed;
        }
    }
}

fn machines(observed: &Observed) -> impl Iterator<Item = Area> {
    observed.nodes.values().flat_map(|node| {
        let addresses: BTreeSet<Block> = node
            .addresses
            .iter()
            .filter_map(|address| single(*address))
            .collect();
        addresses
            .into_iter()
            .map(|address| Area::new(AreaKind::Machine, address, &node.name))
    })
}

ipam_core::text_enum! {
    /// The use of an area. The order is that of drawing: later ones lie on earlier ones. The text
    /// is printed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum AreaKind {
        /// A Service CIDR of the cluster.
        ServiceCidr = "Service CIDR",
        /// A network that holds addresses of machines, or addresses that lie in no other range.
        Network = "network of machines",
        /// A range that Cilium's operator gives to nodes.
        ClusterPool = "pool of Cilium's operator",
        /// A range of a `CiliumPodIPPool`.
        PodPool = "CiliumPodIPPool",
        /// A range of a LoadBalancer pool.
        AddressPool = "LoadBalancer pool",
        /// A subnet of Neutron that is a pool.
        Subnet = "Neutron subnet",
        /// A range of an `IPPool`.
        Pool = "IPPool",
        /// A range of an `IPPool` that gives no new blocks.
        DisabledPool = "disabled IPPool",
        /// A range that the Policy excludes.
        Excluded = "excluded",
        /// A range that a pool reserves.
        Reserved = "reserved",
        /// Freed, and kept free for a while.
        Quarantined = "quarantined",
        /// A write may be in flight.
        Claimed = "claimed",
        /// A block that is pinned to a node that does not hold it.
        Pinned = "pinned",
        /// Shown in a field that no agent reads, and kept free.
        Shown = "shown, not used",
        /// The block of a node.
        Node = "node block",
        /// The address of a Service.
        Service = "Service address",
        /// The address of a machine.
        Machine = "machine address",
    }
}

impl AreaKind {
    /// Whether other areas lie in an area of this kind.
    pub fn is_range(self) -> bool {
        self <= AreaKind::DisabledPool
    }
}

ipam_core::text_enum! {
    /// When an area is there. The text is printed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Presence {
        /// The area is there now and after the plan.
        #[default]
        Stays = "stays",
        /// The area is there only after the plan.
        Added = "added by the plan",
        /// The area is there now, and the plan removes it.
        Removed = "removed by the plan",
    }
}

/// A block of the address map, and its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    pub block: Block,
    pub kind: AreaKind,
    pub presence: Presence,
    /// The object: a node, a pool, or a Service as `namespace/name`.
    pub owner: String,
    /// Of a range, how much of its pool is used: `4 of 252 blocks`.
    pub used: Option<String>,
    /// The pool that the block of a node lies in.
    pub pool: Option<String>,
    /// The failure domain of the node.
    pub domain: Option<String>,
    /// Why the files would not give the node the block.
    pub misplaced: Option<String>,
    /// Names of other nodes that hold addresses of the block.
    pub shared_with: Vec<String>,
    /// Further facts, such as the field that shows the block.
    pub notes: Vec<String>,
}

impl Area {
    /// An area that stays, and of which nothing more is known.
    pub fn new(kind: AreaKind, block: Block, owner: impl ToString) -> Area {
        Area {
            block,
            kind,
            presence: Presence::Stays,
            owner: owner.to_string(),
            used: None,
            pool: None,
            domain: None,
            misplaced: None,
            shared_with: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn present(self, presence: Presence) -> Area {
        Area { presence, ..self }
    }

    pub(super) fn with_note(mut self, note: impl ToString) -> Area {
        self.notes.push(note.to_string());
        self
    }
}

pub(super) fn service_areas(observed: &Observed, plan: &Plan) -> Vec<Area> {
    let mut areas: BTreeMap<(IpAddr, &ServiceName), Area> = BTreeMap::new();
    for (name, service) in &observed.services {
        let held = service.ingress.iter();
        areas.extend(held.filter_map(|at| Some(((*at, name), area(*at, name)?))));
    }
    for effect in &plan.effects.services {
        let name = &effect.service;
        let lost = effect.loses.iter().filter_map(|lost| {
            let address = lost.address.ip()?;
            let area = area(address, name)?.present(Presence::Removed);
            Some(((address, name), area.with_note(lost.why)))
        });
        areas.extend(lost);
        let gains = effect.gains.iter().flat_map(|gain| &gain.any_of);
        let gained = gains.filter_map(|gained| match gained {
            GainedAddress::Exactly(at) => {
                Some(((*at, name), area(*at, name)?.present(Presence::Added)))
            }
            _ => None,
        });
        areas.extend(gained);
    }
    let pools = RangeIndex::new(
        observed
            .load_balancer_ranges()
            .map(|(name, range)| (range, name)),
    );
    let with_pool = |mut area: Area| {
        let pool = pools.overlapping(&area.block.range()).next();
        area.pool = pool.map(|(_, name)| (*name).to_owned());
        area
    };
    areas.into_values().map(with_pool).collect()
}

/// The area of a Service's address. `None` if no block has the address, which no server accepts.
fn area(address: IpAddr, service: &ServiceName) -> Option<Area> {
    Some(Area::new(AreaKind::Service, single(address)?, service))
}

/// The block of one address.
pub(super) fn single(address: IpAddr) -> Option<Block> {
    Range::from(address).largest_block()
}
