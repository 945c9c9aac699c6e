//! The state that a whole plan leaves for the nodes that change after it, so that the cost of a
//! change does not depend on the size of the cluster.
//!
//! Decides nothing by itself: changed nodes go through the functions of the whole plan, which see
//! these nodes alone and the addresses that everything else takes. What may depend on other nodes
//! takes a whole plan.

mod changed_nodes;
mod node_state;
mod others;
mod taken_addresses;

use std::collections::{BTreeMap, BTreeSet};

use super::supply::{fixed_ranges, supply};
use super::{Blocked, Change, NodeChange, Plan, Target, node_changes};
use crate::openstack::{Overlapping, SubnetPools};
use ipam_cilium::observed::Observed;
use ipam_core::alloc::{PoolId, Supply};
use ipam_core::model::{Finding, Limited, NodeName, ObjectRef, PoolName, Rule};
use ipam_core::net::{Block, Family, Range};
use ipam_desired::{Activity, Desired, Pin};
use node_state::{NodeState, Presence, node_states};
use taken_addresses::{TakenAddresses, Taker};

pub use changed_nodes::{ChangedNodes, ChangedNodesPlan, NextWholePlan};

/// The state after a whole plan.
#[derive(Clone, Debug)]
pub struct PlannedState {
    /// The files without pins.
    desired: Desired,
    pins: BTreeMap<NodeName, Pin>,
    /// The observed state without nodes.
    rest: Observed,
    taken: TakenAddresses,
    nodes: BTreeMap<NodeName, NodeState>,
    /// Nodes whose change is blocked, with the reason.
    blocked: BTreeMap<NodeName, String>,
    /// Number of nodes that have a block of each pool.
    nodes_of_pools: BTreeMap<PoolId, usize>,
    /// Claimed blocks, and those that may show in an object that is not reported yet.
    reserved: BTreeSet<Reserved>,
    assigning: Assigning,
    waiting: Waiting,
    /// Rule and object of each finding of the whole plan.
    findings: BTreeSet<FindingKey>,
    /// Pools that have no free block of a family.
    full: BTreeSet<(PoolName, Family)>,
    /// Number of Nodes.
    count: usize,
}

type FindingKey = (Rule, Option<ObjectRef>);

/// What changed about addresses that are taken for the moment.
struct Reservations {
    ended: BTreeSet<Range>,
    new: BTreeSet<Range>,
}

/// Addresses that are taken for the moment, and the node for which they are, if there is one.
type Reserved = (Range, Option<NodeName>);

/// Whether nodes may get blocks without a whole plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Assigning {
    NewNodes,
    /// A rule or a limit is about all changes together, or nothing is written at all.
    Never,
}

/// Whether something in the plan may wait for a change of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Nothing,
    Something,
    /// Something does, and addresses may have become free for it.
    ForFreed,
}

impl PlannedState {
    /// The state after this plan, which was made from these inputs; `None` if a change of a node may
    /// change the plan for other objects.
    pub fn after(plan: &Plan, desired: &Desired, observed: &Observed) -> Option<PlannedState> {
        let is_about_nodes =
            |target: &Target| !matches!(target, Target::PodPool(_) | Target::NodeConfig(_));
        let mut targets = plan
            .changes
            .iter()
            .map(Change::target)
            .chain(plan.blocked.iter().map(|blocked| blocked.target.clone()));
        if observed.is_multi_pool() && !targets.all(|target| is_about_nodes(&target)) {
            return None;
        }
        let mut state = PlannedState {
            desired: Desired {
                pins: BTreeMap::new(),
                ..desired.clone()
            },
            pins: desired.pins.clone(),
            rest: without_nodes(observed),
            taken: TakenAddresses::none_of(supply(desired)),
            nodes: BTreeMap::new(),
            blocked: blocked_nodes(&plan.blocked),
            nodes_of_pools: BTreeMap::new(),
            reserved: BTreeSet::new(),
            assigning: assigning(plan, desired, observed),
            waiting: waiting(plan),
            findings: plan.findings.iter().map(finding_key).collect(),
            full: BTreeSet::new(),
            count: 0,
        };
        state.take_fixed(desired, observed);
        state.reserve_now(observed);
        state.take_nodes(plan, observed);
        state.full = state.full_pools();
        Some(state)
    }

    /// Whether something in the plan may wait for an address to become free.
    pub fn may_wait_for_addresses(&self) -> bool {
        self.waiting != Waiting::Nothing
    }

    /// Addresses that stay taken whatever nodes do.
    fn take_fixed(&mut self, desired: &Desired, observed: &Observed) {
        let in_pools = |range: &Range, pools: &Supply| !pools.parts(range).is_empty();
        let fixed = fixed_ranges(desired, observed);
        let in_pools = fixed
            .iter()
            .filter(|range| in_pools(range, self.taken.free()));
        self.rest.unattributed = in_pools.flat_map(Range::blocks).collect();
        // The setting of a node stays when its Node goes.
        let settings = observed.node_configs.iter();
        let settings = settings.flat_map(|config| config.ranges().map(Block::range));
        let reserved = desired.pools.values();
        let reserved = reserved.flat_map(|pool| pool.reserved.iter().copied());
        for range in fixed.into_iter().chain(settings).chain(reserved) {
            self.taken.take(&range, &Taker::Other);
        }
        for pin in desired.pins.values() {
            for block in pin.blocks.iter() {
                let pinned = Taker::Pin(pin.node.clone());
                self.taken.take(&block.range(), &pinned);
            }
        }
    }

    /// Takes the claimed blocks, and those that may show in an object that is not reported yet.
    fn reserve_now(&mut self, observed: &Observed) -> Reservations {
        let mut reserved = claimed(&self.desired, observed);
        let tombstones = observed.tombstones.iter();
        reserved.extend(tombstones.map(|block| (block.range(), None)));
        self.reserve(reserved)
    }

    /// Replaces the addresses that are taken for the moment.
    fn reserve(&mut self, reserved: BTreeSet<Reserved>) -> Reservations {
        let before = std::mem::replace(&mut self.reserved, reserved);
        let ranges = |(range, _): &Reserved| *range;
        let ended: BTreeSet<Range> = before.difference(&self.reserved).map(ranges).collect();
        let new: BTreeSet<Range> = self.reserved.difference(&before).map(ranges).collect();
        for range in &ended {
            self.taken.release(range, &Taker::Other);
        }
        for range in &new {
            self.taken.take(range, &Taker::Other);
        }
        Reservations { ended, new }
    }

    fn take_nodes(&mut self, plan: &Plan, observed: &Observed) {
        let mut nodes = node_states(observed, self.taken.free());
        for one in &plan.misplaced {
            let state = nodes.entry(one.node.clone()).or_default();
            state.misplaced.push(one.clone());
        }
        // Otherwise a whole plan comes before any write.
        if self.assigning == Assigning::NewNodes {
            for change in node_changes(&plan.changes) {
                let state = nodes.entry(change.node.clone()).or_default();
                state.will_get(&change.node, &change.after);
            }
        }
        if observed.is_multi_pool() {
            // Which addresses a pool of Pods leaves out follows from all machines.
            let machines = nodes
                .values()
                .flat_map(|state| self.machine_in_pools(state));
            let machines: Vec<Block> = machines.flat_map(|range| range.blocks()).collect();
            self.rest.unattributed.extend(machines);
        }
        for (name, state) in nodes {
            self.take(&state);
            self.remember(name, state);
        }
    }

    fn take(&mut self, state: &NodeState) {
        for (range, taker) in &state.kept {
            self.taken.take(range, taker);
        }
    }

    /// Notes changes of the whole plan that are written.
    pub fn written<'c>(&mut self, changes: impl Iterator<Item = &'c NodeChange>) {
        for change in changes {
            let mut state = self.forget(&change.node);
            state.is_written(&change.node, &change.after);
            self.take(&state);
            self.remember(change.node.clone(), state);
        }
    }

    /// Notes a node whose addresses are taken.
    fn remember(&mut self, name: NodeName, state: NodeState) {
        self.count += usize::from(state.presence != Presence::NoNode);
        for pool in self.pools_of(&state.blocks) {
            *self.nodes_of_pools.entry(pool).or_default() += 1;
        }
        if state.is_known() {
            self.nodes.insert(name, state);
        }
    }

    /// Gives back what a node kept.
    fn forget(&mut self, name: &NodeName) -> NodeState {
        let state = self.nodes.remove(name).unwrap_or_default();
        self.count -= usize::from(state.presence != Presence::NoNode);
        for (range, taker) in &state.kept {
            self.taken.release(range, taker);
        }
        for pool in self.pools_of(&state.blocks) {
            let nodes = self.nodes_of_pools.entry(pool).or_default();
            *nodes = nodes.saturating_sub(1);
        }
        state
    }

    fn pools_of(&self, blocks: &BTreeSet<Block>) -> BTreeSet<PoolId> {
        let pools = blocks
            .iter()
            .filter_map(|block| self.taken.free().pool_of(*block));
        pools.collect()
    }
}

fn finding_key(finding: &Finding) -> FindingKey {
    (finding.rule, finding.subject.clone())
}

fn blocked_nodes(blocked: &[Blocked]) -> BTreeMap<NodeName, String> {
    let of_node = |blocked: &Blocked| match &blocked.target {
        Target::Node(name) => Some((name.clone(), blocked.reason.to_string())),
        _ => None,
    };
    blocked.iter().filter_map(of_node).collect()
}

fn assigning(plan: &Plan, desired: &Desired, observed: &Observed) -> Assigning {
    let policy = &desired.policy;
    let is_limited = policy
        .limits
        .keys()
        .any(|limit| limit.limited == Limited::Assign);
    let is_judged = is_limited || !policy.rules.is_empty() || !plan.refusals.is_empty();
    let subnets = SubnetPools::resolve(desired, observed);
    // A node that such a pool leaves without a block is blocked, and not served by another pool.
    let has_overlap = subnets
        .overlaps()
        .iter()
        .any(|overlap| matches!(overlap.other, Overlapping::Pool(_)));
    let is_paused = policy.activity == Activity::Paused;
    if is_judged || is_paused || has_overlap || subnets.unresolved().is_some() {
        Assigning::Never
    } else {
        Assigning::NewNodes
    }
}

fn waiting(plan: &Plan) -> Waiting {
    let is_pending = plan
        .changes
        .iter()
        .any(|change| !change.gives_to_a_new_node());
    let is_blocked = plan
        .blocked
        .iter()
        .any(|blocked| !blocked.reason.is_of_object_alone());
    match is_pending || is_blocked || !plan.refusals.is_empty() {
        true => Waiting::Something,
        false => Waiting::Nothing,
    }
}

/// The claimed blocks.
fn claimed(desired: &Desired, observed: &Observed) -> BTreeSet<Reserved> {
    let claims = observed.live_claims(desired.policy.quarantine);
    let reserved = |(block, node): (Block, &NodeName)| (block.range(), Some(node.clone()));
    claims.held().map(reserved).collect()
}

fn without_nodes(observed: &Observed) -> Observed {
    let Observed {
        nodes: _,
        cilium_nodes: _,
        at,
        claims: _,
        migration,
        cilium,
        definitions,
        // These addresses are taken in the supply.
        unattributed: _,
        // They pass.
        tombstones: _,
        service_ranges,
        primary_family,
        address_pools_served,
        address_pools: _,
        pod_pools_served,
        pod_pools,
        services: _,
        unread_annotations: _,
        allocators,
        node_configs_served,
        node_configs,
        announcing: _,
        // The next whole plan sets the pairs of new nodes.
        ports: _,
        subnets,
        blind_spots,
        findings: _,
    } = observed;
    Observed {
        at: *at,
        cilium: cilium.clone(),
        definitions: definitions.clone(),
        service_ranges: service_ranges.clone(),
        primary_family: *primary_family,
        address_pools_served: *address_pools_served,
        pod_pools_served: *pod_pools_served,
        pod_pools: pod_pools.clone(),
        allocators: allocators.clone(),
        node_configs_served: *node_configs_served,
        node_configs: node_configs.clone(),
        subnets: subnets.clone(),
        blind_spots: blind_spots.clone(),
        migration: migration.clone(),
        ..Observed::default()
    }
}
