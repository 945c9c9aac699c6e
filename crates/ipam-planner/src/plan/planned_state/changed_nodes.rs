//! The plan for the nodes that changed since a whole plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::node_state::{NodeState, Presence, node_states};
use super::others::Step;
use super::{Assigning, PlannedState, Reservations, Waiting};
use crate::plan::decide::plan_nodes_from;
use crate::plan::overview::Progress;
use crate::plan::overview_update::{MisplacedUpdate, OverviewUpdate, PoolUpdate};
use crate::plan::{BlockedReason, Change, Plan, Target, node_changes};
use ipam_cilium::observed::{Node, Observed};
use ipam_core::alloc::PoolId;
use ipam_core::model::{NodeName, PoolName};
use ipam_core::net::{Block, Range};
use ipam_desired::Desired;

/// Nodes that changed.
#[derive(Clone, Debug)]
pub struct ChangedNodes {
    /// Their names.
    pub names: BTreeSet<NodeName>,
    /// The Nodes and CiliumNodes of these names that exist, the claims, the tombstones and the time.
    pub seen: Observed,
}

/// The plan for nodes that changed.
#[derive(Clone, Debug)]
pub struct ChangedNodesPlan {
    /// The observed state with these nodes alone.
    pub observed: Observed,
    /// The changes that give blocks to new nodes.
    pub changes: Vec<Change>,
    /// Nodes that are blocked from now on, or for another reason.
    pub blocked: Vec<(Arc<Node>, BlockedReason)>,
    /// What becomes of the numbers of the whole plan, once the changes are written.
    pub update: OverviewUpdate,
    /// When the next whole plan is due.
    pub next: NextWholePlan,
}

/// When the next whole plan is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextWholePlan {
    /// These nodes change nothing for others.
    InTime,
    /// Other nodes may wait for this, or findings about them may be others now.
    Soon,
}

/// What changed about blocked nodes.
#[derive(Default)]
struct BlockedNodes {
    /// Blocked from now on, or for another reason.
    new: Vec<(Arc<Node>, BlockedReason)>,
    /// The reasons of these, and `None` for nodes that are no longer blocked.
    changed: BTreeMap<NodeName, Option<String>>,
}

impl PlannedState {
    /// Plans for changed nodes. `None` if that depends on more than these nodes; then this state is
    /// of no more use.
    pub fn plan_changed(&mut self, changed: ChangedNodes) -> Option<ChangedNodesPlan> {
        let ChangedNodes { names, seen } = changed;
        // Whether its write may still land follows from an object that may not be here.
        if !seen.claims.claims.in_flight.is_empty() {
            return None;
        }
        let observed = self.observed(seen);
        let is_shared = self.is_shared(&names);
        let forget = |name: &NodeName| (name.clone(), self.forget(name));
        let before: BTreeMap<NodeName, NodeState> = names.iter().map(forget).collect();
        let reservations = self.reserve_now(&observed);
        // What waits has waited for all of that time.
        if self.waiting != Waiting::Nothing && !reservations.ended.is_empty() {
            return None;
        }
        let after = self.take_apart(&before, &observed)?;
        let plan = self.plan(&names, &observed);
        self.accept(&plan, &observed)?;
        let blocked = self.block(&plan, &names, &observed)?;
        self.notice_freed(&Step::new(&before, &after));
        if self.waiting == Waiting::ForFreed && !plan.changes.is_empty() {
            return None;
        }
        let after = self.take_planned(after, &plan);
        let step = Step::new(&before, &after);
        let is_stale = is_shared || self.concerns_others(&step, &reservations, &plan);
        let update = self.update(before, after, reservations);
        let is_stale = self.notice_full(&update.pools) || is_stale;
        Some(ChangedNodesPlan {
            observed,
            changes: plan.changes,
            blocked: blocked.new,
            update: OverviewUpdate {
                blocked: blocked.changed,
                ..update
            },
            next: if is_stale {
                NextWholePlan::Soon
            } else {
                NextWholePlan::InTime
            },
        })
    }

    /// The observed state with these nodes alone.
    fn observed(&self, seen: Observed) -> Observed {
        Observed {
            nodes: seen.nodes,
            cilium_nodes: seen.cilium_nodes,
            claims: seen.claims,
            tombstones: seen.tombstones,
            at: seen.at,
            ..self.rest.clone()
        }
    }

    /// Takes what the nodes keep now; `None` if other nodes have a part of it, or of their pins.
    fn take_apart(
        &mut self,
        before: &BTreeMap<NodeName, NodeState>,
        observed: &Observed,
    ) -> Option<BTreeMap<NodeName, NodeState>> {
        let after = node_states(observed, self.taken.free());
        for (name, state) in &after {
            for (range, taker) in &state.kept {
                if self.collides(name, range, taker) {
                    return None;
                }
                self.taken.take(range, taker);
            }
        }
        let machine = |states: &BTreeMap<NodeName, NodeState>, name| {
            let state = states.get(name);
            state
                .map(|state| self.machine_in_pools(state))
                .unwrap_or_default()
        };
        let has_new_machine = |name| machine(before, name) != machine(&after, name);
        // Which addresses a pool of Pods leaves out follows from the machines.
        if observed.is_multi_pool() && before.keys().any(has_new_machine) {
            return None;
        }
        let pins = after.keys().filter_map(|name| self.pins.get(name));
        let is_free = |block: &Block, node| !self.taken.is_shown_by_another(&block.range(), node);
        let mut pins = pins.filter(|pin| !pin.blocks.iter().all(|block| is_free(block, &pin.node)));
        pins.next().is_none().then_some(after)
    }

    /// The plan for these nodes alone. Only pins that touch them matter.
    fn plan(&mut self, names: &BTreeSet<NodeName>, observed: &Observed) -> Plan {
        let shown = observed.shown_blocks();
        let shown = shown.flat_map(|(_, block)| self.taken.pinned_to(&block.range()));
        let pinned: BTreeSet<&NodeName> = names.iter().chain(shown).collect();
        let pins = pinned
            .into_iter()
            .filter_map(|name| self.pins.get_key_value(name));
        let pins = pins
            .map(|(name, pin)| (name.clone(), pin.clone()))
            .collect();
        let desired = Desired {
            pins,
            ..std::mem::take(&mut self.desired)
        };
        let plan = self
            .taken
            .lend(|pools| plan_nodes_from(&desired, observed, pools));
        self.desired = Desired {
            pins: BTreeMap::new(),
            ..desired
        };
        plan
    }

    /// Fails unless the plan only gives blocks to nodes that show none and for which none is kept.
    fn accept(&self, plan: &Plan, observed: &Observed) -> Option<()> {
        let shown = observed.shown_blocks().map(|(name, _)| name);
        let claimed = observed.claims.claims.held().map(|(_, name)| name);
        let has_block: BTreeSet<&NodeName> = shown.chain(claimed).collect();
        let is_new = |name: &NodeName| {
            let mut node = observed.nodes.get(name).into_iter();
            node.any(|node| observed.unreadable(node).is_none()) && !has_block.contains(name)
        };
        let is_accepted = |change: &Change| {
            let node = change.as_node().filter(|_| change.gives_to_a_new_node());
            node.is_some_and(|change| is_new(&change.node))
        };
        let is_allowed = plan.changes.is_empty() || self.assigning == Assigning::NewNodes;
        (is_allowed && plan.changes.iter().all(is_accepted)).then_some(())
    }

    /// Notes which nodes are blocked now, and returns what changed; `None` if another object may be
    /// the reason.
    fn block(
        &mut self,
        plan: &Plan,
        names: &BTreeSet<NodeName>,
        observed: &Observed,
    ) -> Option<BlockedNodes> {
        let BlockedNodes {
            mut new,
            mut changed,
        } = BlockedNodes::default();
        let mut still: BTreeSet<&NodeName> = BTreeSet::new();
        for blocked in &plan.blocked {
            let Target::Node(name) = &blocked.target else {
                return None;
            };
            still.insert(name);
            let reason = blocked.reason.to_string();
            if self.blocked.get(name) == Some(&reason) {
                continue;
            }
            if !names.contains(name) || !blocked.reason.is_of_object_alone() {
                return None;
            }
            let node = observed.nodes.get(name);
            new.extend(node.map(|node| (node.clone(), blocked.reason.clone())));
            changed.insert(name.clone(), Some(reason));
        }
        let no_longer = names.iter().filter(|name| !still.contains(name));
        for name in no_longer.filter(|name| self.blocked.contains_key(*name)) {
            changed.insert(name.clone(), None);
        }
        for (name, reason) in &changed {
            match reason {
                Some(reason) => self.blocked.insert(name.clone(), reason.clone()),
                None => self.blocked.remove(name),
            };
        }
        Some(BlockedNodes { new, changed })
    }

    /// Takes the blocks that the plan gives.
    fn take_planned(
        &mut self,
        mut after: BTreeMap<NodeName, NodeState>,
        plan: &Plan,
    ) -> BTreeMap<NodeName, NodeState> {
        for change in node_changes(&plan.changes) {
            let state = after.entry(change.node.clone()).or_default();
            let kept = state.kept.len();
            state.is_written(&change.node, &change.after);
            for (range, taker) in &state.kept[kept..] {
                self.taken.take(range, taker);
            }
        }
        for one in &plan.misplaced {
            let state = after.entry(one.node.clone()).or_default();
            state.misplaced.push(one.clone());
        }
        after
    }

    /// Notes the new states of the nodes.
    fn update(
        &mut self,
        before: BTreeMap<NodeName, NodeState>,
        mut after: BTreeMap<NodeName, NodeState>,
        reservations: Reservations,
    ) -> OverviewUpdate {
        let mut update = OverviewUpdate::default();
        let Reservations { ended, new } = reservations;
        let mut touched: BTreeSet<Range> = ended.union(&new).copied().collect();
        touched.extend(kept(before.values()).chain(kept(after.values())));
        for (name, before) in before {
            let after = after.remove(&name).unwrap_or_default();
            if self.pins.contains_key(&name) {
                update
                    .pins
                    .insert(name.clone(), self.progress(&name, after.presence));
            }
            if before.misplaced != after.misplaced {
                update.misplaced.push(MisplacedUpdate {
                    before: before.misplaced,
                    after: after.misplaced.clone(),
                });
            }
            self.remember(name, after);
        }
        update.nodes = self.count;
        update.pools = self.pool_updates(&touched);
        update
    }

    fn progress(&self, pinned: &NodeName, presence: Presence) -> Progress {
        match (self.blocked.get(pinned), presence) {
            (Some(why), _) => Progress::Blocked(why.clone()),
            (None, Presence::NoNode) => Progress::Absent,
            (None, Presence::Node | Presence::WrittenNode) => Progress::Done,
        }
    }

    /// The pools of these addresses in new numbers.
    fn pool_updates(&self, touched: &BTreeSet<Range>) -> BTreeMap<PoolName, PoolUpdate> {
        let pools = self.taken.free();
        let parts = touched.iter().flat_map(|range| pools.parts(range));
        let touched: BTreeSet<PoolId> = parts.map(|part| part.pool).collect();
        let update = |pool: PoolId| {
            let update = PoolUpdate {
                nodes: self.nodes_of_pools.get(&pool).copied().unwrap_or_default(),
                blocks: self.taken.counts(pool),
            };
            (pools.pool(pool).name().clone(), update)
        };
        touched.into_iter().map(update).collect()
    }
}

/// The addresses that these nodes take.
fn kept<'n>(nodes: impl Iterator<Item = &'n NodeState>) -> impl Iterator<Item = Range> {
    nodes.flat_map(|state| state.kept.iter().map(|(range, _)| *range))
}
