//! From what is desired and what was observed to the plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::blocked::{Blocked, BlockedReason};
use super::candidates::Candidates;
use super::change::{Change, NodeChange, Target};
use super::file_blocks::FileBlocks;
use super::limits::refusals;
use super::misplaced::Placement;
use super::node_change::{NodeChanges, Pinned};
use super::others::Others;
use super::pins::PinOutcome;
use super::withheld::Withheld;
use super::{Plan, digest, drift, lb, misplaced, pairs, pins, pod_pools};
use crate::check;
use ipam_cilium::observed::{FamilyUse, Holding, Node, Observed, OtherUser, Reading};
use ipam_core::alloc::{Demand, Giving, Outcome, PoolId, PoolSupply, Shortfall, Supply, allocate};
use ipam_core::claims::Claims;
use ipam_core::model::{
    Finding, NodeName, ObjectRef, PerFamily, PoolName, Rule, Severity, grouped_digits,
};
use ipam_core::net::{Block, Family, Range, RangeIndex, merge};
use ipam_desired::{Desired, PoolState};

/// Plans. `file_findings` are what lowering and the checks of the files gave; with an error among
/// them there is nothing to plan from, and the caller must not call this.
pub fn plan(desired: &Desired, observed: &Observed, file_findings: Vec<Finding>) -> Plan {
    let claims = observed.claims_in_force(desired.policy.quarantine);
    let mut planner = Planner {
        desired,
        observed,
        claims: &claims,
        supply: supply(desired),
        plan: Plan::default(),
    };
    planner.plan.findings = file_findings;
    planner
        .plan
        .findings
        .extend(check::cluster(desired, observed));
    if pod_pools::are_used(observed, desired.policy.write_path) {
        planner.pod_pools();
    } else {
        planner.blocks_of_nodes();
    }
    planner.load_balancing();
    planner.pairs();
    planner.finish()
}

/// Blocks for nodes that join, from a supply in which everything else is taken.
pub(super) fn plan_newcomers(
    desired: &Desired,
    observed: &Observed,
    supply: Supply,
) -> (Supply, Plan) {
    let claims = observed.claims_in_force(desired.policy.quarantine);
    let mut planner = Planner {
        desired,
        observed,
        claims: &claims,
        supply,
        plan: Plan::default(),
    };
    planner.blocks_of_nodes();
    planner.plan.changes.sort_by_cached_key(by_pool);
    (planner.supply, planner.plan)
}

/// Every address that no node may get, or that some node has.
pub(super) fn addresses_in_use(
    desired: &Desired,
    observed: &Observed,
    claims: &Claims,
    withheld: &Withheld<'_>,
) -> Vec<Range> {
    let foreign = foreign(desired, observed, withheld);
    let reserved = desired
        .pools
        .values()
        .flat_map(|pool| pool.reserved.iter().copied());
    let shown = withheld.shown.iter().map(|(_, range)| *range);
    foreign
        .into_iter()
        .chain(reserved)
        .chain(shown)
        .chain(claims.ranges())
        .collect()
}

/// The order in which nodes' changes are sent.
fn by_pool(change: &Change) -> Option<(Option<PoolName>, NodeName)> {
    change
        .as_node()
        .map(|change| (change.pool.clone(), change.node.clone()))
}

/// The supply of all pools, nothing taken.
pub(super) fn supply(desired: &Desired) -> Supply {
    let pools = desired.pools.values().map(|pool| {
        let ranges: Vec<Block> = pool.ranges.iter().map(|range| range.block).collect();
        let giving = match pool.state {
            PoolState::Active => Giving::New,
            PoolState::Disabled => Giving::Nothing,
        };
        PoolSupply::new(pool.name.clone(), giving, &ranges, &pool.block_size)
    });
    Supply::new(pools.collect())
}

/// Addresses that no node may get: used by something else than nodes' pods, or excluded by the
/// Policy.
pub fn foreign_ranges(desired: &Desired, observed: &Observed) -> Vec<Range> {
    foreign(
        desired,
        observed,
        &Withheld::new(observed, &supply(desired)),
    )
}

/// The same, with what was withheld already.
pub(super) fn foreign(
    desired: &Desired,
    observed: &Observed,
    withheld: &Withheld<'_>,
) -> Vec<Range> {
    let is_machine = |user: &OtherUser<'_>| matches!(user, OtherUser::Machine(_));
    let used = observed
        .used_by_others()
        .filter(|(_, user)| !is_machine(user))
        .map(|(range, _)| range);
    let used = used.chain(withheld.machines.iter().copied());
    let wanted = desired
        .address_pools
        .values()
        .flat_map(|pool| pool.ranges.iter().map(|range| range.range));
    let of_nobody = observed.ranges_of_nobody().map(Block::range);
    let unattributed = observed
        .unattributed
        .iter()
        .map(|block| block.range())
        .chain(of_nobody);
    let excluded = desired.policy.excluded.iter().copied();
    let of_neutron = check::neutron_ranges(desired, observed).map(|(_, range)| range.range());
    merge(
        used.chain(wanted)
            .chain(unattributed)
            .chain(excluded)
            .chain(of_neutron),
    )
}

/// Oldest first, then by name: a later node never takes what an earlier one would have got.
fn nodes_in_order(observed: &Observed) -> Vec<&Node> {
    let mut nodes: Vec<&Node> = observed.nodes.values().map(AsRef::as_ref).collect();
    nodes.sort_by(|a, b| (&a.created, &a.name).cmp(&(&b.created, &b.name)));
    nodes
}

struct Planner<'p> {
    desired: &'p Desired,
    observed: &'p Observed,
    claims: &'p Claims,
    supply: Supply,
    plan: Plan,
}

/// A node with what the files say of it.
struct Joined<'p> {
    node: &'p Node,
    /// The pools that select it, best first.
    candidates: Arc<[PoolId]>,
    pinned: Option<Pinned>,
}

/// What the pools give to nodes.
fn given<'n>(nodes: &[Joined<'n>], outcomes: &[Outcome]) -> Vec<(Range, &'n NodeName)> {
    let blocks = |outcome: &Outcome| match outcome {
        Outcome::Assigned(assigned) => assigned.blocks,
        Outcome::NothingNeeded | Outcome::NoPool | Outcome::Short { .. } => PerFamily::NONE,
    };
    let each = nodes.iter().zip(outcomes).flat_map(|(joined, outcome)| {
        blocks(outcome)
            .iter()
            .map(|block| (block.range(), &joined.node.name))
            .collect::<Vec<_>>()
    });
    each.collect()
}

impl<'p> Planner<'p> {
    /// Each node gets its block.
    fn blocks_of_nodes(&mut self) {
        let withheld = Withheld::new(self.observed, &self.supply);
        self.plan.findings.extend(withheld.findings());
        let others = Others::new(
            self.observed,
            &withheld,
            &foreign(self.desired, self.observed, &withheld),
            self.claims,
        );
        let mut candidates = Candidates::new(self.desired, &self.supply);
        let nodes: Vec<Joined<'_>> = nodes_in_order(self.observed)
            .into_iter()
            .map(|node| Joined {
                node,
                candidates: candidates.of(node),
                pinned: self.pinned(node, &others),
            })
            .collect();
        self.plan.findings.extend(candidates.ties(self.desired));
        let outcomes = self.allocate(&nodes, &others, &withheld);
        self.decide(&nodes, &others, outcomes);
    }

    /// Nodes get blocks of pools, as they need them.
    fn pod_pools(&mut self) {
        let pod_pools::PodPoolPlan {
            changes,
            blocked,
            unchanged,
        } = pod_pools::plan(self.desired, self.observed);
        let nodes = self
            .observed
            .nodes
            .keys()
            .filter(|name| !self.desired.pins.contains_key(*name));
        let files = FileBlocks::new(self.desired);
        let withheld = Withheld::new(self.observed, &self.supply);
        let foreign = foreign(self.desired, self.observed, &withheld);
        let foreign = RangeIndex::new(foreign.into_iter().map(|range| (range, ())));
        let of_node = |node| misplaced::of_pod_pools(&files, &foreign, self.observed, node);
        let misplaced: Vec<_> = self
            .observed
            .nodes
            .values()
            .flat_map(|node| of_node(node))
            .collect();
        self.plan.misplaced.extend(misplaced);
        self.plan.unchanged.extend(nodes.cloned().map(Target::Node));
        self.plan.unchanged.extend(unchanged);
        self.plan.blocked.extend(blocked);
        self.plan
            .changes
            .extend(changes.into_iter().map(Change::from));
    }

    fn pinned(&self, node: &Node, others: &Others<'_>) -> Option<Pinned> {
        let pin = self.desired.pins.get(&node.name)?;
        let outcome = pins::outcome(
            pin,
            &self.observed.holds(node),
            self.desired,
            self.observed,
            others,
        );
        Some(Pinned {
            outcome,
            origin: pin.origin.clone(),
            pool: pin.pool.clone(),
        })
    }

    /// One outcome for each node: what the pools give it besides what it holds and what it is
    /// pinned to.
    fn allocate(
        &mut self,
        nodes: &[Joined<'_>],
        others: &Others<'_>,
        withheld: &Withheld<'_>,
    ) -> Vec<Outcome> {
        let pins = pins::blocks(&self.desired.pins);
        let reserved: Vec<Range> = self
            .desired
            .pools
            .values()
            .flat_map(|pool| pool.reserved.iter().copied())
            .collect();
        let never: Vec<Range> = pins
            .iter()
            .map(|block| block.range())
            .chain(reserved.iter().copied())
            .collect();
        let mut kept = self.kept(others, &never);
        let demand = |joined: &Joined<'_>| {
            let name = &joined.node.name;
            let (kept, apart) = (
                kept.remove(name).unwrap_or_default(),
                withheld.own_addresses(name),
            );
            Demand {
                kept,
                apart,
                ..self.demand(joined)
            }
        };
        let demands: Vec<Demand> = nodes.iter().map(demand).collect();
        let taken = addresses_in_use(self.desired, self.observed, self.claims, withheld);
        let allocation = allocate(&mut self.supply, &taken, &pins, &demands);
        for shortfall in &allocation.shortfalls {
            let finding = self.shortfall(shortfall);
            self.plan.findings.push(finding);
        }
        allocation.outcomes
    }

    fn demand(&self, joined: &Joined<'_>) -> Demand {
        let node = joined.node;
        let held = self.observed.holds(node);
        let mut families: Vec<Family> = Family::BOTH.into();
        families.retain(|family| {
            held.get(*family).is_none() && self.observed.cilium.use_of(*family) != FamilyUse::Off
        });
        let mut pools = joined.candidates.clone();
        match &joined.pinned {
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
                pools = self.supply.id(pool).into_iter().collect();
            }
            None => {
                if let Some(pool) = self.pool_of_held(&held, &joined.candidates) {
                    pools = self.beside(pool, &mut families).unwrap_or(pools);
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
        let (node, candidates) = (node.name.clone(), pools);
        Demand {
            node,
            families,
            required,
            candidates,
            kept: Vec::new(),
            apart: Vec::new(),
        }
    }

    /// The pool of what a node holds of the families that Cilium uses, if it selects the node
    /// still.
    fn pool_of_held(&self, held: &PerFamily<Holding>, candidates: &[PoolId]) -> Option<PoolId> {
        let is_used = |holding: &&Holding| {
            self.observed.cilium.use_of(holding.block.family()) != FamilyUse::Off
        };
        let pools = held
            .iter()
            .filter(is_used)
            .filter_map(|holding| self.supply.pool_of(holding.block));
        pools.into_iter().find(|pool| candidates.contains(pool))
    }

    /// What is claimed for each node or rests after it, as far as it may have it; what is in
    /// `never` it may not.
    fn kept(&self, others: &Others<'_>, never: &[Range]) -> BTreeMap<&'p NodeName, Vec<Block>> {
        let mut kept: BTreeMap<&NodeName, Vec<Block>> = BTreeMap::new();
        for (block, node) in self.claims.held() {
            let is_of_another =
                others.keeper(block, node).is_some() || others.claimant(block, node).is_some();
            let is_free = !is_of_another && !others.uses(block);
            if is_free && !never.iter().any(|range| range.overlaps(&block.range())) {
                kept.entry(node).or_default().push(block);
            }
        }
        kept
    }

    /// The pool of what a node holds, when it has the other family too: a pool's dual-stack blocks
    /// stay pairs. When it has not, the node has all that it gives, and only what an agent cannot
    /// do without comes from elsewhere.
    fn beside(&self, pool: PoolId, missing: &mut Vec<Family>) -> Option<Arc<[PoolId]>> {
        let has = |family: &Family| self.supply.pool(pool).has(*family);
        missing.retain(|family| has(family) || self.is_required(*family));
        missing.iter().any(has).then(|| [pool].into())
    }

    fn is_required(&self, family: Family) -> bool {
        self.observed.cilium.use_of(family) == FamilyUse::Required
    }

    fn decide(&mut self, nodes: &[Joined<'_>], others: &Others<'_>, outcomes: Vec<Outcome>) {
        let files = FileBlocks::new(self.desired);
        let given = RangeIndex::new(given(nodes, &outcomes));
        let changes = NodeChanges::new(
            self.desired,
            self.observed,
            &self.supply,
            others,
            &files,
            given,
        );
        let mut placement =
            Placement::new(self.desired, self.observed, &self.supply, &files, others);
        let unknown = check::neutron_trouble(self.desired, self.observed);
        for (joined, outcome) in nodes.iter().zip(outcomes) {
            let Joined {
                node,
                candidates,
                pinned,
            } = joined;
            drift::of_node(
                self.observed,
                node,
                self.desired.pins.get(&node.name),
                &mut self.plan.drift,
            );
            let misplaced = placement.of_node(node, candidates);
            let decided = match (changes.of(node, pinned.as_ref(), outcome), &unknown) {
                // It may be of a subnet that nobody could look at.
                (Ok(Some(change)), Some(trouble)) if self.makes_real(node, &change) => {
                    Err(BlockedReason::NeutronUnknown(Box::new(trouble.clone())))
                }
                (decided, _) => decided,
            };
            match decided {
                Ok(Some(change)) => self.plan.changes.push(Change::Node(change)),
                Ok(None) => self.plan.unchanged.push(Target::Node(node.name.clone())),
                Err(reason) => {
                    let origin = pinned.as_ref().map(|pinned| pinned.origin.clone());
                    self.plan.blocked.push(Blocked {
                        target: Target::Node(node.name.clone()),
                        reason,
                        origin,
                    });
                }
            }
            self.plan.misplaced.extend(misplaced);
        }
    }

    /// Whether a block comes into use by it, though a field that nobody reads may show it.
    fn makes_real(&self, node: &Node, change: &NodeChange) -> bool {
        let held = self.observed.holds(node);
        let is_in_use = |block: &Block| {
            held.iter()
                .any(|one| one.block == *block && one.reading == Reading::Read)
        };
        change.after.iter().any(|block| !is_in_use(block))
    }

    /// Pools and pins go first, so that what they do is as near as can be to what was observed.
    fn load_balancing(&mut self) {
        self.plan.changes.sort_by_cached_key(by_pool);
        let lb::LbPlan {
            changes,
            blocked,
            unchanged,
            effects,
            findings,
        } = lb::plan(self.desired, self.observed);
        self.plan.changes.splice(..0, changes);
        self.plan.blocked.extend(blocked);
        self.plan.unchanged.extend(unchanged);
        self.plan.findings.extend(findings);
        self.plan.effects = effects;
    }

    fn shortfall(&self, shortfall: &Shortfall) -> Finding {
        let Shortfall {
            pool,
            family,
            missing,
            largest_free_run,
        } = shortfall;
        let blocks = if *missing == 1 { "block" } else { "blocks" };
        let nothing = || "nothing is free".to_owned();
        let left =
            largest_free_run.map_or_else(nothing, |run| format!("the largest free run is {run}"));
        let missing = grouped_digits(missing);
        let message = format!("pool `{pool}` is {missing} {family} {blocks} short; {left}");
        let finding = Finding::new(Severity::Error, Rule("pool-exhausted"), message)
            .about(ObjectRef::pool(pool));
        let finding = finding
            .help("add a CIDR to its `cidrs`, or a further pool that matches the same nodes");
        match self.desired.pools.get(pool) {
            Some(pool) => finding.at(&pool.origin, "exhausted"),
            None => finding,
        }
    }

    /// Pairs go last: they follow what nodes hold, or get.
    fn pairs(&mut self) {
        if let Some(findings) = pairs::unplanned(self.desired, self.observed) {
            self.plan.findings.extend(findings);
            return;
        }
        let withheld = Withheld::new(self.observed, &supply(self.desired));
        let foreign = foreign(self.desired, self.observed, &withheld);
        let others = Others::new(self.observed, &withheld, &foreign, self.claims);
        let planned = pairs::plan(self.desired, self.observed, &others, &self.plan.changes);
        let pairs::PairsPlan {
            changes,
            drift,
            unchanged,
            findings,
        } = planned;
        self.plan.changes.extend(changes);
        self.plan.drift.extend(drift);
        self.plan.unchanged.extend(unchanged);
        self.plan.findings.extend(findings);
    }

    fn finish(mut self) -> Plan {
        self.plan.findings.sort();
        self.plan.findings.dedup();
        self.plan.blocked.sort_by(|a, b| a.target.cmp(&b.target));
        self.plan.misplaced.sort();
        self.plan.drift.sort();
        self.plan.unchanged.sort();
        self.plan.refusals = refusals(
            &self.plan.changes,
            &self.plan.effects,
            self.desired,
            self.observed,
        );
        self.plan.desired_digest = digest::of_desired(self.desired);
        self.plan
    }
}
