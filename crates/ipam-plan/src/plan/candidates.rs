//! Which pools a node may use, best first.
//!
//! Nodes that get a block of a later pool because a better one is full.
//!
//! The supply of all pools, and the addresses that are excluded from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::{Change, NodeChange, Reason, node_changes};
use super::kept_addresses::KeptAddresses;
use crate::openstack::SubnetPools;
use ipam_cilium::observed::{Node, Observed, OtherUser};
use ipam_core::alloc::{AllocationMode, PassedOver, PassedOverPool, PoolId, PoolSupply, Supply};
use ipam_core::claims::Claims;
use ipam_core::model::{
    Finding, Labels, NodeName, ObjectRef, PoolName, Rule, SelectorIndex, Severity,
};
use ipam_core::net::{Block, Range, merge};
use ipam_desired::{Desired, Pool, PoolState};

/// Evaluates selectors once for each distinct set of the labels that selectors look at.
pub(crate) struct Candidates<'d> {
    /// Best first: priority, then number of requirements, then name.
    ranked: Vec<(&'d Pool, PoolId)>,
    /// The selectors of the pools in `ranked`, in the same order.
    selectors: SelectorIndex,
    keys: BTreeSet<&'d str>,
    /// Pools of a node, by the node's labels that pool selectors use.
    known: BTreeMap<Vec<(&'d str, String)>, Arc<[PoolId]>>,
    ties: BTreeMap<(&'d PoolName, &'d PoolName), NodeName>,
}

impl<'d> Candidates<'d> {
    pub(crate) fn new(desired: &'d Desired, supply: &Supply) -> Candidates<'d> {
        let mut ranked: Vec<(&Pool, PoolId)> = desired
            .pools
            .values()
            .filter_map(|pool| Some((pool, supply.id(&pool.name)?)))
            .collect();
        ranked.sort_by(|(a, _), (b, _)| Pool::best_first(a, b));
        let keys = desired
            .pools
            .values()
            .flat_map(|pool| pool.selector.keys())
            .collect();
        Candidates {
            selectors: SelectorIndex::new(ranked.iter().map(|(pool, _)| &pool.selector)),
            ranked,
            keys,
            known: BTreeMap::new(),
            ties: BTreeMap::new(),
        }
    }

    /// The pools for a node, best first.
    pub(crate) fn of(&mut self, node: &Node) -> Arc<[PoolId]> {
        let looked_at =
            |(key, value): (&String, &String)| Some((*self.keys.get(key.as_str())?, value.clone()));
        let projection: Vec<(&str, String)> = node.labels.iter().filter_map(looked_at).collect();
        if let Some(known) = self.known.get(&projection) {
            return known.clone();
        }
        let matching = self.matching(&node.labels);
        if let [(first, _), (second, _), ..] = matching[..]
            && first.rank() == second.rank()
        {
            self.ties
                .entry((&first.name, &second.name))
                .or_insert_with(|| node.name.clone());
        }
        let ids: Arc<[PoolId]> = matching.into_iter().map(|(_, id)| id).collect();
        self.known.insert(projection, ids.clone());
        ids
    }

    fn matching(&self, labels: &Labels) -> Vec<(&'d Pool, PoolId)> {
        let selector = |place: usize| &self.ranked[place].0.selector;
        let places = self.selectors.matching(labels, selector);
        places.map(|place| self.ranked[place]).collect()
    }

    /// A warning for each pair of pools between which only the name decided, for some node.
    pub(super) fn ties(&self, desired: &Desired) -> Vec<Finding> {
        let finding = |(&(first, second), node): (&(&PoolName, &PoolName), &NodeName)| {
            let (first, second) = (desired.pools.get(first)?, desired.pools.get(second)?);
            if first.selector == second.selector {
                // The checks of the files report this one.
                return None;
            }
            let message = format!(
                "node `{node}` matches pools `{}` and `{}` equally well (priority {}, requirements: {}): only the name decides for `{}`",
                first.name,
                second.name,
                first.priority,
                first.selector.specificity(),
                first.name
            );
            let finding = Finding::new(Severity::Warning, Rule("selector-tie"), message)
                .about(ObjectRef::pool(&second.name));
            Some(
                finding
                    .at(&second.origin, "tied")
                    .and(&first.origin, "first by name")
                    .help("give one of them a higher `priority`"),
            )
        };
        self.ties.iter().filter_map(finding).collect()
    }
}

/// The full pools that rank before the pool of the block; best first.
pub(super) fn full_pools(change: &NodeChange) -> impl Iterator<Item = &PoolName> {
    let passed_over: &[PassedOverPool] = match &change.reason {
        Reason::LowestFree { passed_over } => passed_over,
        Reason::Pinned
        | Reason::MovedByPin { .. }
        | Reason::PinnedInPart
        | Reason::HeldElsewhere { .. }
        | Reason::Undo => &[],
    };
    let full = passed_over
        .iter()
        .filter(|passed| passed.why == PassedOver::Full);
    full.map(|passed| &passed.pool)
}

/// The best full pool; `None` if the node did not fall over.
pub(crate) fn full_pool(change: &NodeChange) -> Option<&PoolName> {
    full_pools(change).next()
}

/// A warning for each node that falls over. The warnings of one full pool have one cause.
pub(super) fn findings<'p>(
    changes: &'p [Change],
    desired: &'p Desired,
) -> impl Iterator<Item = Finding> + 'p {
    node_changes(changes).filter_map(|change| {
        let full = full_pool(change)?;
        let later = match &change.pool {
            Some(pool) => format!("pool `{pool}`"),
            None => "a later pool".to_owned(),
        };
        let message = format!(
            "node `{}` gets a block of {later}, because pool `{full}` is full",
            change.node
        );
        let finding = Finding::new(Severity::Warning, Rule("fell-over"), message)
            .about(ObjectRef::node(&change.node))
            .about_all([ObjectRef::pool(full)])
            .causes("the node keeps this block permanently: routes and policies for the full pool do not cover it")
            .help(format!(
                "add a CIDR to pool `{full}` before you apply; later, only `cilium-ipam migrate` moves the nodes"
            ));
        Some(match desired.pools.get(full) {
            Some(pool) => finding.at(&pool.origin, "full"),
            None => finding,
        })
    })
}

/// The supply of all pools, with every block free.
pub(crate) fn supply(desired: &Desired) -> Supply {
    let pools = desired.pools.values().map(|pool| {
        let ranges: Vec<Block> = pool.ranges.iter().map(|range| range.block).collect();
        let giving = match pool.state {
            PoolState::Active => AllocationMode::New,
            PoolState::Disabled => AllocationMode::Nothing,
        };
        PoolSupply::new(pool.name.clone(), giving, &ranges, &pool.block_size)
            .with_when_full(pool.when_full)
    });
    Supply::new(pools.collect())
}

/// Addresses that no node may get: used by something other than nodes' pods, or excluded by the
/// Policy.
pub fn foreign_ranges(desired: &Desired, observed: &Observed) -> Vec<Range> {
    foreign(
        desired,
        observed,
        &KeptAddresses::new(observed, &supply(desired)),
    )
}

/// Like [`foreign_ranges`], with known kept addresses.
pub(super) fn foreign(
    desired: &Desired,
    observed: &Observed,
    kept_addresses: &KeptAddresses<'_>,
) -> Vec<Range> {
    let machines = kept_addresses.machines.iter().copied();
    // A recorded block is free for its last node alone, and may show at that node only.
    let quarantine = desired.policy.quarantine;
    let is_recorded = |block: Block| {
        let departed = &observed.departed.departed;
        departed.last_node(block, observed.at, quarantine).is_some()
    };
    let tombstones = observed.tombstones.iter();
    let tombstones = tombstones
        .filter(|block| !is_recorded(**block))
        .map(|block| block.range());
    let fixed = fixed_ranges(desired, observed).into_iter();
    merge(fixed.chain(machines).chain(tombstones))
}

/// The foreign ranges that stay whatever nodes do.
fn fixed_ranges(desired: &Desired, observed: &Observed) -> Vec<Range> {
    let is_machine = |user: &OtherUser<'_>| matches!(user, OtherUser::Machine(_));
    let used = observed
        .used_by_others()
        .filter(|(_, user)| !is_machine(user))
        .map(|(range, _)| range);
    let wanted = desired
        .address_pools
        .values()
        .flat_map(|pool| pool.ranges.iter().map(|range| range.range));
    let unowned = observed.unowned_ranges().map(Block::range);
    let unattributed = observed
        .unattributed
        .iter()
        .map(|block| block.range())
        .chain(unowned);
    let excluded = desired.policy.excluded.iter().copied();
    let subnets = SubnetPools::resolve(desired, observed);
    let of_neutron = subnets.ranges().map(|(_, range)| range.range());
    merge(
        used.chain(wanted)
            .chain(unattributed)
            .chain(excluded)
            .chain(of_neutron),
    )
}

/// Every address that no node may get, or that a node has.
pub(super) fn addresses_in_use(
    desired: &Desired,
    observed: &Observed,
    claims: &Claims,
    kept_addresses: &KeptAddresses<'_>,
) -> Vec<Range> {
    let foreign = foreign(desired, observed, kept_addresses);
    let reserved = desired.never_given();
    let shown = kept_addresses.shown.iter().map(|(_, range)| *range);
    foreign
        .into_iter()
        .chain(reserved)
        .chain(shown)
        .chain(claims.ranges())
        .collect()
}
