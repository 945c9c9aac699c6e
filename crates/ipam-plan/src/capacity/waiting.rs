//! Nodes that lack a block of an enabled family, with the reason that the plan or the supplies show.

use std::collections::{BTreeMap, BTreeSet};

use super::{Row, Supplier};
use crate::plan::{BlockedReason, Plan, Target, node_changes};
use ipam_cilium::observed::{CiliumNode, FamilyUse, ModeSeen, Node, Observed};
use ipam_core::model::{IpamMode, NodeName};
use ipam_core::net::{BlockSize, Family};

/// A node that lacks a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub node: NodeName,
    pub families: Vec<Family>,
    /// As a clause.
    pub why: String,
}

/// The nodes that lack a block, by the plan of the files or by the supplies of the cluster.
pub(super) fn nodes(observed: &Observed, rows: &[Row], plan: Option<&Plan>) -> Vec<Waiting> {
    let planned = plan.map(Planned::new).unwrap_or_default();
    let waiting = observed.nodes.values().filter_map(|node| {
        let families = lacks(observed, node);
        (!families.is_empty()).then(|| Waiting {
            node: node.name.clone(),
            why: planned
                .why(&node.name)
                .unwrap_or_else(|| why(observed, node, &families, rows)),
            families,
        })
    });
    waiting.collect()
}

/// What a plan does about nodes.
#[derive(Default)]
struct Planned<'p> {
    blocked: BTreeMap<&'p NodeName, &'p BlockedReason>,
    changed: BTreeSet<&'p NodeName>,
}

impl<'p> Planned<'p> {
    fn new(plan: &'p Plan) -> Planned<'p> {
        // Of several reasons, the first one counts.
        let blocked = plan.blocked.iter().rev();
        let blocked = blocked.filter_map(|one| match &one.target {
            Target::Node(name) => Some((name, &one.reason)),
            _ => None,
        });
        Planned {
            blocked: blocked.collect(),
            changed: node_changes(&plan.changes)
                .map(|change| &change.node)
                .collect(),
        }
    }

    fn why(&self, node: &NodeName) -> Option<String> {
        match self.blocked.get(node) {
            Some(reason) => Some(reason.to_string()),
            None => self
                .changed
                .contains(node)
                .then(|| "`cilium-ipam apply` assigns one".to_owned()),
        }
    }
}

/// Enabled families of which a node lacks a block. Without a CiliumNode no agent has started, where
/// Cilium's operator assigns the blocks.
pub fn lacks(observed: &Observed, node: &Node) -> Vec<Family> {
    let lives = observed.pod_blocks_of(&node.name);
    let lives_in = |family: Family| lives.iter().any(|block| block.family() == family);
    match observed.cilium.mode() {
        ModeSeen::Known(IpamMode::Kubernetes) => lacking(observed, |family| {
            lives_in(family) || node.annotated(family).is_some()
        }),
        ModeSeen::Known(IpamMode::ClusterPool | IpamMode::MultiPool)
            if observed.cilium_nodes.contains_key(&node.name) =>
        {
            lacking(observed, lives_in)
        }
        _ => Vec::new(),
    }
}

fn lacking(observed: &Observed, has: impl Fn(Family) -> bool) -> Vec<Family> {
    let families = Family::BOTH.into_iter();
    families
        .filter(|family| observed.cilium.use_of(*family) == FamilyUse::Required && !has(*family))
        .collect()
}

fn why(observed: &Observed, node: &Node, families: &[Family], rows: &[Row]) -> String {
    let of = supplier(observed, node);
    let is_full = |row: &&Row| {
        of.as_ref() == Some(&row.of) && families.contains(&row.family) && row.is_full()
    };
    if let Some(full) = rows.iter().find(is_full) {
        return format!("{} has no free {} block", full.of, full.family);
    }
    let cilium_node = observed.cilium_nodes.get(&node.name);
    match cilium_node.and_then(|node| node.operator_error.as_ref()) {
        Some(error) => format!("Cilium's operator reports: {}", error.escape_debug()),
        None => "`cilium-ipam doctor` looks for the cause".to_owned(),
    }
}

/// Who gives the node its block without the files.
fn supplier(observed: &Observed, node: &Node) -> Option<Supplier> {
    match observed.cilium.mode() {
        ModeSeen::Known(IpamMode::ClusterPool) => Some(Supplier::ClusterPool),
        ModeSeen::Known(IpamMode::MultiPool) => {
            Some(Supplier::PodPool(observed.default_pool(node).to_owned()))
        }
        ModeSeen::Known(IpamMode::Kubernetes) => {
            let active =
                crate::allocators::OtherAllocator::of(observed, &Default::default()).active();
            active.map(|allocator| Supplier::Allocator(allocator.name.clone()))
        }
        _ => None,
    }
}

/// Addresses that an agent gets of a block of this size (`addrsInPrefix` of `pool_allocator.go` @
/// 1.19). From 1.20 on, a pool can give its first and last addresses, too.
pub fn usable_addresses(size: BlockSize) -> u128 {
    let host_bits = size.family().bits() - size.prefix_len();
    let addresses = 1_u128.checked_shl(host_bits.into()).unwrap_or(u128::MAX);
    match addresses {
        0..=2 => addresses,
        _ => addresses - 2,
    }
}

/// Addresses of a family that a node has of a `CiliumPodIPPool`.
fn allocated(node: &CiliumNode, pool: &str, family: Family) -> u128 {
    let of_pool = node.allocated.iter().filter(|(name, _)| name == pool);
    let blocks = of_pool.flat_map(|(_, blocks)| blocks);
    blocks
        .filter(|block| block.family() == family)
        .fold(0, |all: u128, block| {
            all.saturating_add(usable_addresses(block.size()))
        })
}

/// Whether the agent asks for more addresses of a pool and a family than the node has.
pub fn asks_for_more(node: &CiliumNode, pool: &str, family: Family) -> bool {
    let requests = node.requested.iter().filter(|(name, _)| name == pool);
    let needed = requests.filter_map(|(_, needed)| needed.get(family).copied());
    let needed = needed.max().unwrap_or(0);
    u128::from(needed) > allocated(node, pool, family)
}
