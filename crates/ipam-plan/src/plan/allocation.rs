//! From nodes and pools to one outcome for each node: what each node asks of which pools, and what
//! the allocator gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::candidates::addresses_in_use;
use super::file_blocks::{self, PinOutcome};
use super::kept_addresses::KeptAddresses;
use super::node_planner::Pinned;
use super::owners::AddressOwners;
use crate::growth::Growth;
use ipam_cilium::observed::{FamilyUse, Holding, Node, Observed};
use ipam_core::alloc::{Demand, Outcome, PoolId, Shortfall, Supply, WhenFull, allocate};
use ipam_core::claims::Claims;
use ipam_core::model::{Finding, NodeName, ObjectRef, PerFamily, Rule, Severity, grouped_digits};
use ipam_core::net::{Block, Family, Range, merge, touching};
use ipam_desired::Desired;

/// A node with its pools and its pin.
pub(super) struct NodePools<'p> {
    pub(super) node: &'p Node,
    /// The pools that select the node, best first.
    pub(super) candidates: Arc<[PoolId]>,
    pub(super) pinned: Option<Pinned>,
}

/// The blocks that pools give to nodes.
pub(super) fn given<'n>(
    nodes: &[NodePools<'n>],
    outcomes: &[Outcome],
) -> Vec<(Range, &'n NodeName)> {
    let blocks = |outcome: &Outcome| match outcome {
        Outcome::Assigned(assigned) => assigned.blocks,
        Outcome::NothingNeeded | Outcome::NoPool | Outcome::Short { .. } => PerFamily::NONE,
    };
    let each = nodes.iter().zip(outcomes).flat_map(|(pools, outcome)| {
        blocks(outcome)
            .iter()
            .map(|block| (block.range(), &pools.node.name))
            .collect::<Vec<_>>()
    });
    each.collect()
}

/// Allocates blocks for all nodes together.
pub(super) struct Allocator<'p> {
    pub(super) desired: &'p Desired,
    pub(super) observed: &'p Observed,
    pub(super) claims: &'p Claims,
    pub(super) owners: &'p AddressOwners<'p>,
    pub(super) kept_addresses: &'p KeptAddresses<'p>,
}

impl<'p> Allocator<'p> {
    /// One outcome for each node: the blocks that pools give it in addition to its held or pinned
    /// ones. Also a finding for each pool that is too small.
    pub(super) fn allocate(
        &self,
        supply: &mut Supply,
        nodes: &[NodePools<'_>],
    ) -> (Vec<Outcome>, Vec<Finding>) {
        let pins = file_blocks::blocks(&self.desired.pins);
        let reserved = self.desired.never_given();
        let never = merge(pins.iter().map(|block| block.range()).chain(reserved));
        let mut kept = self.kept(&never);
        let demand = |pools: &NodePools<'_>| {
            let name = &pools.node.name;
            Demand {
                kept: kept.remove(name).unwrap_or_default(),
                apart: self.kept_addresses.own_addresses(name),
                ..self.demand(supply, pools)
            }
        };
        let demands: Vec<Demand> = nodes.iter().map(demand).collect();
        let taken = addresses_in_use(
            self.desired,
            self.observed,
            self.claims,
            self.kept_addresses,
        );
        let allocation = allocate(supply, &taken, &pins, &demands);
        if allocation.shortfalls.is_empty() {
            return (allocation.outcomes, Vec::new());
        }
        let growth = Growth::of_files(self.desired, self.observed, taken);
        let shortfalls = allocation.shortfalls.iter();
        let findings = shortfalls.map(|shortfall| self.exhausted(shortfall, &growth));
        (allocation.outcomes, findings.collect())
    }

    fn demand(&self, supply: &Supply, node_pools: &NodePools<'_>) -> Demand {
        let node = node_pools.node;
        let held = self.observed.holds(node);
        let mut families: Vec<Family> = Family::BOTH.into();
        families.retain(|family| {
            held.get(*family).is_none() && self.observed.cilium.use_of(*family) != FamilyUse::Off
        });
        let mut pools = node_pools.candidates.clone();
        match &node_pools.pinned {
            Some(Pinned {
                outcome: PinOutcome::Blocked(_) | PinOutcome::Move(_),
                ..
            }) => families.clear(),
            Some(Pinned {
                outcome: PinOutcome::Assign(blocks),
                pool,
                ..
            }) => {
                families.retain(|family| blocks.get(*family).is_none());
                pools = supply.id(pool).into_iter().collect();
            }
            None => {
                if let Some(pool) = self.pool_of_held(supply, &held, &node_pools.candidates) {
                    pools = self.beside(supply, pool, &mut families).unwrap_or(pools);
                }
            }
        }
        if self.observed.unreadable(node).is_some() {
            families.clear();
        }
        let required = families
            .iter()
            .copied()
            .filter(|family| self.is_required(*family))
            .collect();
        Demand {
            node: node.name.clone(),
            families,
            required,
            candidates: pools,
            kept: Vec::new(),
            apart: Vec::new(),
        }
    }

    /// The pool of a block that the node holds, of a family that Cilium uses, if that pool still
    /// selects the node.
    fn pool_of_held(
        &self,
        supply: &Supply,
        held: &PerFamily<Holding>,
        candidates: &[PoolId],
    ) -> Option<PoolId> {
        let is_used = |holding: &&Holding| {
            self.observed.cilium.use_of(holding.block.family()) != FamilyUse::Off
        };
        let pools = held
            .iter()
            .filter(is_used)
            .filter_map(|holding| supply.pool_of(holding.block));
        pools.into_iter().find(|pool| candidates.contains(pool))
    }

    /// Blocks that are claimed for each node or quarantined after it, and that it may get: none in
    /// `never`, which must come from [`merge`], and none that others use.
    fn kept(&self, never: &[Range]) -> BTreeMap<&'p NodeName, Vec<Block>> {
        let owners = self.owners;
        let mut kept: BTreeMap<&NodeName, Vec<Block>> = BTreeMap::new();
        for (block, node) in self.claims.held() {
            let is_of_another =
                owners.keeper(block, node).is_some() || owners.claimant(block, node).is_some();
            let is_free = !is_of_another && !owners.uses(block);
            if is_free && touching(never, &block.range()).is_empty() {
                kept.entry(node).or_default().push(block);
            }
        }
        kept
    }

    /// The pool of the node's block, if it has a missing family too: a pool's dual-stack blocks
    /// stay pairs. Otherwise the node has all that this pool gives, and only a family that Cilium
    /// requires comes from another pool.
    fn beside(
        &self,
        supply: &Supply,
        pool: PoolId,
        missing: &mut Vec<Family>,
    ) -> Option<Arc<[PoolId]>> {
        let has = |family: &Family| supply.pool(pool).has(*family);
        missing.retain(|family| has(family) || self.is_required(*family));
        missing.iter().any(has).then(|| [pool].into())
    }

    fn is_required(&self, family: Family) -> bool {
        self.observed.cilium.use_of(family) == FamilyUse::Required
    }

    fn exhausted(&self, shortfall: &Shortfall, growth: &Growth<'_>) -> Finding {
        let Shortfall {
            pool,
            family,
            missing,
            largest_free_run,
        } = shortfall;
        let blocks = if *missing == 1 { "block" } else { "blocks" };
        let left = match largest_free_run {
            Some(run) => format!("the largest free run is {run}"),
            None => "no block is left".to_owned(),
        };
        let short = grouped_digits(missing);
        let known = self.desired.pools.get(pool);
        let waits = known.is_some_and(|pool| pool.when_full == WhenFull::Wait);
        let (state, or_next) = match waits {
            true => (
                ", and its `whenFull` is `Wait`",
                "; or set its `whenFull` to `NextPool`: nodes then get blocks of the next pool that selects them",
            ),
            false => ("", ""),
        };
        let message = format!("pool `{pool}` is {short} {family} {blocks} short{state}; {left}");
        let finding = Finding::new(Severity::Error, Rule("pool-exhausted"), message)
            .about(ObjectRef::pool(pool));
        match known {
            Some(pool) => finding.at(&pool.origin, "exhausted").help(format!(
                "{}{or_next}",
                growth.advice(pool, *family, *missing)
            )),
            None => finding,
        }
    }
}
