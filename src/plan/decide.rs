//! From what is desired and what was observed to the plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::candidates::Candidates;
use super::change::{Action, Blocked, BlockedReason, Change, Edit, Guard, Hazard, PassedOverPool, Reason};
use super::pins::{Others, PinOutcome};
use super::write_path::{Paths, Route};
use super::{Plan, digest, drift, pins};
use crate::alloc::{Assigned, Demand, Giving, Outcome, PassedOver, PoolId, PoolSupply, Shortfall, Supply, allocate};
use crate::check;
use crate::desired::{Desired, PoolState};
use crate::model::{Finding, ObjectRef, Origin, PerFamily, PoolName, Rule, Severity};
use crate::net::{Block, Family, Range, merge};
use crate::observed::{Holding, Node, Observed};

/// Plans. `file_findings` are what lowering and the checks of the files gave; with an error among them there is nothing
/// to plan from, and the caller must not call this.
pub fn plan(desired: &Desired, observed: &Observed, file_findings: Vec<Finding>) -> Plan {
    let mut planner = Planner::new(desired, observed);
    planner.findings.extend(file_findings);
    planner.findings.extend(check::cluster(desired, observed));
    let nodes = planner.nodes_in_order();
    let pinned = planner.pinned(&nodes);
    let assigned = planner.allocate(&nodes, &pinned);
    for (node, assigned) in nodes.iter().zip(assigned) {
        planner.node(node, pinned.get(node.name.as_str()), assigned);
    }
    planner.finish()
}

/// The supply of all pools, with what their own files reserve taken.
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

/// Addresses that no node may get: used by something else than nodes' pods, or excluded by the Policy.
pub(super) fn foreign_ranges(desired: &Desired, observed: &Observed) -> Vec<Range> {
    let machines = observed.nodes.values().flat_map(|node| node.addresses.iter().map(|address| Range::from(*address)));
    let balancers = observed.load_balancer_ranges.iter().map(|(_, range)| *range);
    let services = observed.service_ranges.iter().copied();
    merge(machines.chain(balancers).chain(services).chain(desired.policy.excluded.iter().copied()))
}

struct Planner<'p> {
    desired: &'p Desired,
    observed: &'p Observed,
    paths: Paths,
    supply: Supply,
    foreign: Vec<Range>,
    plan: Plan,
    findings: Vec<Finding>,
}

struct Pinned {
    outcome: PinOutcome,
    origin: Origin,
    pool: PoolName,
}

impl<'p> Planner<'p> {
    fn new(desired: &'p Desired, observed: &'p Observed) -> Planner<'p> {
        Planner {
            desired,
            observed,
            paths: Paths::new(observed, desired.policy.write_path),
            supply: supply(desired),
            foreign: foreign_ranges(desired, observed),
            plan: Plan::default(),
            findings: Vec::new(),
        }
    }

    /// Oldest first, then by name: a later node never takes what an earlier one would have got.
    fn nodes_in_order(&self) -> Vec<&'p Node> {
        let mut nodes: Vec<&Node> = self.observed.nodes.values().collect();
        nodes.sort_by(|a, b| (&a.created, &a.name).cmp(&(&b.created, &b.name)));
        nodes
    }

    fn pinned(&self, nodes: &[&'p Node]) -> BTreeMap<&'p str, Pinned> {
        let others = Others::new(self.observed, &self.foreign);
        let pinned = nodes.iter().filter_map(|node| {
            let pin = self.desired.pins.get(&node.name)?;
            let outcome = pins::outcome(pin, &self.observed.holds(node), self.desired, &others);
            Some((node.name.as_str(), Pinned { outcome, origin: pin.origin.clone(), pool: pin.pool.clone() }))
        });
        pinned.collect()
    }

    /// One outcome for each node: what the pools give it besides what it holds and what it is pinned to.
    fn allocate(&mut self, nodes: &[&Node], pinned: &BTreeMap<&str, Pinned>) -> Vec<Outcome> {
        let mut candidates = Candidates::new(self.desired, &self.supply);
        let demands: Vec<Demand> =
            nodes.iter().map(|node| self.demand(node, pinned.get(node.name.as_str()), &mut candidates)).collect();
        self.findings.extend(candidates.ties(self.desired));
        let reserved = self.desired.pools.values().flat_map(|pool| pool.reserved.iter().copied());
        let shown = self.observed.shown_blocks().map(|(_, block)| block.range());
        let taken: Vec<Range> = self.foreign.iter().copied().chain(reserved).chain(shown).collect();
        let allocation = allocate(&mut self.supply, &taken, &pins::blocks(&self.desired.pins), &demands);
        let shortfalls: Vec<Finding> =
            allocation.shortfalls.iter().map(|shortfall| self.shortfall(shortfall)).collect();
        self.findings.extend(shortfalls);
        allocation.outcomes
    }

    fn demand(&self, node: &Node, pinned: Option<&Pinned>, candidates: &mut Candidates<'_>) -> Demand {
        let held = self.observed.holds(node);
        let mut families: Vec<Family> = Family::BOTH.into();
        families.retain(|family| held.get(*family).is_none() && !self.observed.cilium.has_switched_off(*family));
        let mut pools = candidates.of(node);
        match pinned {
            Some(Pinned { outcome: PinOutcome::Blocked(_), .. }) => families.clear(),
            Some(Pinned { outcome: PinOutcome::Assign(blocks), pool, .. }) => {
                families.retain(|family| blocks.get(*family).is_none());
                pools = self.supply.id(pool).into_iter().collect();
            }
            None => {}
        }
        // The second family comes from the pool of the first, so that a pool's dual-stack blocks stay pairs.
        if let Some(pool) = held.iter().find_map(|holding| self.supply.pool_of(holding.block)) {
            pools = [pool].into();
        }
        if families.is_empty() || !node.unreadable.is_empty() {
            (families, pools) = (Vec::new(), Arc::from(pools.first().copied().as_slice()));
        }
        Demand { node: node.name.clone(), families, candidates: pools }
    }

    fn node(&mut self, node: &Node, pinned: Option<&Pinned>, outcome: Outcome) {
        let held = self.observed.holds(node);
        drift::of_node(self.observed, node, self.desired.pins.get(&node.name), &mut self.plan.drift);
        match self.decide(node, &held, pinned, outcome) {
            Ok(Some(change)) => self.plan.changes.push(change),
            Ok(None) => self.plan.unchanged.push(node.name.clone()),
            Err(reason) => {
                let origin = pinned.map(|pinned| pinned.origin.clone());
                self.plan.blocked.push(Blocked { node: node.name.clone(), reason, origin });
            }
        }
    }

    fn decide(
        &self,
        node: &Node,
        held: &PerFamily<Holding>,
        pinned: Option<&Pinned>,
        outcome: Outcome,
    ) -> Result<Option<Change>, BlockedReason> {
        if let Some(text) = self.unreadable(node) {
            return Err(BlockedReason::Unreadable(text));
        }
        let mut blocks: PerFamily<Block> = held.iter().map(|holding| holding.block).collect();
        let mut source = Source { pool: None, origin: None, reason: None };
        match pinned.map(|pinned| (&pinned.outcome, pinned)) {
            Some((PinOutcome::Blocked(reason), _)) => return Err(reason.clone()),
            Some((PinOutcome::Assign(assign), pinned)) if !assign.is_empty() => {
                assign.iter().for_each(|block| blocks.offer(*block));
                source = Source {
                    pool: Some(pinned.pool.clone()),
                    origin: Some(pinned.origin.clone()),
                    reason: Some(Reason::Pinned),
                };
            }
            _ => {}
        }
        match outcome {
            Outcome::Assigned(assigned) => {
                assigned.blocks.iter().for_each(|block| blocks.offer(*block));
                source = source.or(|| self.source_of(&assigned));
            }
            Outcome::Short { passed_over } => return Err(self.exhausted(&passed_over)),
            Outcome::NoPool if blocks.is_empty() => return Err(BlockedReason::NoPool),
            Outcome::NoPool | Outcome::NothingNeeded => {}
        }
        self.write(node, held, &blocks, source)
    }

    fn write(
        &self,
        node: &Node,
        held: &PerFamily<Holding>,
        blocks: &PerFamily<Block>,
        source: Source,
    ) -> Result<Option<Change>, BlockedReason> {
        if blocks.is_empty() {
            return Ok(None);
        }
        let edit = match self.paths.route(node, blocks)? {
            Route::AlreadyRead => return Ok(None),
            Route::Write(edit) => edit,
        };
        if node.uid.is_empty() || node.resource_version.is_empty() {
            return Err(BlockedReason::NoIdentity);
        }
        let action = if source.reason.is_some() { Action::Assign } else { Action::Update };
        let source = source.or(|| self.source_of_held(held));
        let (before, after) = before_and_after(node, &edit);
        Ok(Some(Change {
            action,
            node: node.name.clone(),
            pool: source.pool,
            before,
            after,
            edit,
            reason: source.reason.unwrap_or(Reason::Pinned),
            hazard: self.hazard(node, held, blocks),
            guard: Guard { uid: node.uid.clone(), resource_version: node.resource_version.clone() },
            origin: source.origin,
        }))
    }

    /// An agent that runs has its blocks already and does not look again; one that waits for its first takes it at once
    /// (daemon/k8s/init.go WaitForNodeInformation, tried on 1.15.19 and 1.19.3).
    fn hazard(&self, node: &Node, held: &PerFamily<Holding>, blocks: &PerFamily<Block>) -> Hazard {
        let agent_runs =
            self.observed.cilium_nodes.get(&node.name).is_some_and(|cilium_node| !cilium_node.pod_cidrs.is_empty());
        let adds_family = blocks.families().any(|family| held.get(family).is_none());
        if agent_runs && adds_family { Hazard::Disruptive } else { Hazard::None }
    }

    fn unreadable(&self, node: &Node) -> Option<String> {
        let of_cilium_node =
            self.observed.cilium_nodes.get(&node.name).and_then(|cilium_node| cilium_node.unreadable.first());
        node.unreadable.first().or(of_cilium_node).cloned()
    }

    fn source_of(&self, assigned: &Assigned) -> Source {
        let name = |id: PoolId| self.supply.pool(id).name().clone();
        let passed_over = assigned
            .passed_over
            .iter()
            .map(|(id, why)| PassedOverPool { pool: name(*id), why: why_text(*why) })
            .collect();
        let pool = name(assigned.pool);
        let origin = self.desired.pools.get(&pool).map(|pool| pool.origin.clone());
        Source { pool: Some(pool), origin, reason: Some(Reason::LowestFree { passed_over }) }
    }

    fn source_of_held(&self, held: &PerFamily<Holding>) -> Source {
        let holding = held.iter().next();
        let pool = holding
            .and_then(|holding| self.supply.pool_of(holding.block))
            .map(|id| self.supply.pool(id).name().clone());
        let origin = pool.as_ref().and_then(|pool| self.desired.pools.get(pool)).map(|pool| pool.origin.clone());
        Source { pool, origin, reason: holding.map(|holding| Reason::HeldElsewhere { field: holding.field }) }
    }

    fn exhausted(&self, passed_over: &[(PoolId, PassedOver)]) -> BlockedReason {
        BlockedReason::Exhausted(
            passed_over.iter().map(|(id, why)| (self.supply.pool(*id).name().clone(), why_text(*why))).collect(),
        )
    }

    fn shortfall(&self, shortfall: &Shortfall) -> Finding {
        let Shortfall { pool, family, missing, largest_free_run } = shortfall;
        let blocks = if *missing == 1 { "block" } else { "blocks" };
        let left = largest_free_run
            .map_or_else(|| "nothing is free".to_owned(), |run| format!("the largest free run is {run}"));
        let message = format!("pool `{pool}` is {missing} {family} {blocks} short; {left}");
        let finding = Finding::new(Severity::Error, Rule("pool-exhausted"), message).about(ObjectRef::pool(pool));
        let finding = finding.help("add a CIDR to its `cidrs`, or a further pool that matches the same nodes");
        match self.desired.pools.get(pool) {
            Some(pool) => finding.at(&pool.origin, "exhausted"),
            None => finding,
        }
    }

    fn finish(mut self) -> Plan {
        self.findings.sort();
        self.findings.dedup();
        self.plan.findings = self.findings;
        self.plan.changes.sort_by(|a, b| (&a.pool, &a.node).cmp(&(&b.pool, &b.node)));
        self.plan.blocked.sort_by(|a, b| a.node.cmp(&b.node));
        self.plan.drift.sort();
        self.plan.unchanged.sort();
        self.plan.desired_digest = digest::of_desired(self.desired);
        self.plan
    }
}

/// Where a block comes from.
struct Source {
    pool: Option<PoolName>,
    origin: Option<Origin>,
    reason: Option<Reason>,
}

impl Source {
    fn or(self, other: impl FnOnce() -> Source) -> Source {
        if self.reason.is_some() { self } else { other() }
    }
}

fn why_text(why: PassedOver) -> &'static str {
    match why {
        PassedOver::Full => "is full",
        PassedOver::Disabled => "is disabled",
    }
}

fn before_and_after(node: &Node, edit: &Edit) -> (Vec<Block>, Vec<Block>) {
    match edit {
        Edit::NodeSpec { pod_cidrs } => (node.spec.iter().copied().collect(), pod_cidrs.clone()),
        Edit::NodeAnnotations { values } => {
            let after: PerFamily<Block> = values.values().copied().collect();
            let shown = |family: Family| node.annotation.get(family).or(node.old_annotation.get(family)).copied();
            (after.families().filter_map(shown).collect(), after.iter().copied().collect())
        }
    }
}
