//! Ipam `multi-pool`: agents that keep many more blocks of a pool than the addresses that they
//! request fill. An agent releases a block only when no Pod has an address of it.

use std::collections::BTreeMap;

use super::{NAMED, finding};
use ipam_cilium::observed::{CiliumNode, Observed, PodRanges};
use ipam_core::model::{Finding, NodeName, ObjectRef, Severity, first_of, grouped_digits};
use ipam_core::net::{Block, Family};

/// Fewest blocks without need, so that a few scattered Pods are no finding.
const FEWEST: u64 = 8;

/// Blocks for each needed one, from which there are many.
const MANY: u64 = 4;

/// How to get the blocks back.
pub(super) const RELEASE: &str = "drain these nodes one by one, so that whole blocks have no Pod; if blocks stay, restart their agents";

/// The agents of a family of a pool that keep blocks without need.
#[derive(Default)]
pub(super) struct Surplus<'o> {
    nodes: Vec<(&'o NodeName, Kept)>,
}

#[derive(Clone, Copy)]
struct Kept {
    blocks: u64,
    addresses: u64,
}

impl<'o> Surplus<'o> {
    pub(super) fn of(
        observed: &'o Observed,
        (pool, family): (&str, Family),
        ranges: &PodRanges,
        held: &[(&NodeName, Block)],
    ) -> Surplus<'o> {
        let host_bits = u32::from(family.bits() - ranges.size.prefix_len());
        let of_block = 1_u64.checked_shl(host_bits).unwrap_or(u64::MAX);
        let mut counts: BTreeMap<&NodeName, u64> = BTreeMap::new();
        for (name, _) in held.iter().filter(|(_, block)| block.family() == family) {
            *counts.entry(*name).or_default() += 1;
        }
        let kept = |node: &'o CiliumNode| {
            // Older agents, and agents that just start, request no addresses.
            let requests = node.requested.iter().filter(|(name, _)| name == pool);
            let addresses = requests
                .filter_map(|(_, needed)| needed.get(family).copied())
                .max();
            let addresses = addresses.unwrap_or(0);
            let blocks = counts.get(&node.name).copied().unwrap_or(0);
            let needed = addresses.div_ceil(of_block);
            let is_much = blocks >= needed.max(1).saturating_mul(MANY) && blocks - needed >= FEWEST;
            is_much.then_some((&node.name, Kept { blocks, addresses }))
        };
        let is_alive = |node: &&CiliumNode| observed.nodes.contains_key(&node.name);
        let nodes = observed.cilium_nodes.values().map(|node| &**node);
        let nodes = nodes
            .filter(is_alive)
            .filter(|node| !node.requested.is_empty());
        Surplus {
            nodes: nodes.filter_map(kept).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn evidence(&self) -> impl Iterator<Item = String> + '_ {
        self.nodes.iter().map(|(name, kept)| {
            let [blocks, addresses] = [kept.blocks, kept.addresses].map(grouped_digits);
            format!(
                "CiliumNode `{name}`: {blocks} blocks in spec.ipam.pools.allocated, addresses in requested: {addresses}"
            )
        })
    }

    /// `a, b and 7 more`.
    pub(super) fn names(&self) -> String {
        first_of(
            NAMED,
            self.nodes.iter().map(|(name, _)| format!("`{name}`")),
        )
    }

    /// For a pool that has room.
    pub(super) fn finding(&self, pool: &str, family: Family) -> Option<Finding> {
        let (_, further) = self.nodes.split_first()?;
        let pool = pool.escape_debug();
        let agents = if further.is_empty() {
            "the agent"
        } else {
            "the agents"
        };
        let message = format!(
            "{agents} of {} keep many more {family} blocks of CiliumPodIPPool `{pool}` than requested",
            self.names()
        );
        let finding = finding(Severity::Info, "pod-pool-blocks-kept", message);
        let finding = finding.about_all(self.nodes.iter().map(|(name, _)| ObjectRef::node(name)));
        Some(
            finding
                .seen(self.evidence())
                .causes("other nodes cannot get these blocks")
                .help(RELEASE),
        )
    }
}
