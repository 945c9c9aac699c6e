//! Rules for the changes of nodes. It knows no LoadBalancer pools but the addresses that they take.

use std::collections::BTreeSet;

use super::{Broken, Checks, Invariant};
use ipam_cilium::observed::{ANNOTATION_KEYS, Observed, Reading};
use ipam_core::model::NodeName;
use ipam_core::net::{Block, Family, Range};
use ipam_desired::{Desired, Pool, PoolState};
use ipam_plan::plan::{Change, Edit, NodeChange, Plan, Reason, Target, node_changes};

impl Checks<'_> {
    /// Each node is reported once, its block is one of its pool, and its pin is not forgotten.
    pub(super) fn nodes_of_plan(&mut self, plan: &Plan) {
        let is_node = |target: &&Target| matches!(target, Target::Node(_));
        let blocked = plan.blocked.iter().map(|blocked| &blocked.target);
        let waiting = blocked.chain(&plan.unchanged).filter(is_node).count();
        let (told, nodes) = (
            node_changes(&plan.changes).count() + waiting,
            self.observed.nodes.len(),
        );
        self.expect(told == nodes, Invariant::EachOnce, || {
            format!("{told} of {nodes} nodes are reported")
        });
        for change in node_changes(&plan.changes) {
            self.check_pool(change);
        }
        self.pins_kept(plan);
    }

    /// One change for each object, in its own fields, with nothing that is in use.
    pub(super) fn changes(&mut self, changes: &[Change]) {
        let targets: BTreeSet<Target> = changes.iter().map(Change::target).collect();
        self.expect(targets.len() == changes.len(), Invariant::EachOnce, || {
            format!("{} changes of {} objects", changes.len(), targets.len())
        });
        let observed = self.observed;
        let foreign = foreign(self.desired, observed);
        let claims = observed.live_claims(self.desired.policy.quarantine);
        let claimed = claims.held().map(|(block, node)| (node, block));
        let mut taken: Vec<(&NodeName, Block)> = observed.shown_blocks().chain(claimed).collect();
        for change in node_changes(changes) {
            self.expect(has_families(change), Invariant::Families, || {
                format!("{change:?}")
            });
            self.guarded(change);
            self.pins_respected(change);
            for block in written(change, observed) {
                self.free(change, block, &taken);
                for range in foreign.iter().filter(|range| block.range().overlaps(range)) {
                    let what = format!("{} gets {block}, and {range} is in use", change.node);
                    self.broken.push(Invariant::NothingForeign.broken(what));
                }
                taken.push((&change.node, block));
            }
        }
    }

    fn guarded(&mut self, change: &NodeChange) {
        let seen = self.observed.nodes.get(&change.node);
        let is_guarded = seen.is_some_and(|node| {
            change.guard.uid == node.uid && change.guard.resource_version == node.resource_version
        });
        self.expect(is_guarded, Invariant::Guarded, || format!("{change:?}"));
    }

    /// No other node shows the block, has claimed it, or gets it.
    fn free(&mut self, change: &NodeChange, block: Block, taken: &[(&NodeName, Block)]) {
        let others = taken.iter().filter(|(node, _)| **node != change.node);
        for (node, other) in others.filter(|(_, other)| block.overlaps(*other)) {
            let what = format!("{} gets {block}, and {node} has {other}", change.node);
            self.broken.push(Broken {
                other: Some(*other),
                ..Invariant::NoSharedBlock.broken(what)
            });
        }
    }

    /// A pool gives blocks of its size, to nodes that it selects, and no reserved ones.
    fn check_pool(&mut self, change: &NodeChange) {
        if !matches!(change.reason, Reason::LowestFree { .. }) {
            return;
        }
        let (desired, observed) = (self.desired, self.observed);
        let pool = change
            .pool
            .as_ref()
            .and_then(|name| desired.pools.get(name));
        let node = observed.nodes.get(&change.node);
        let (Some(pool), Some(node)) = (pool, node) else {
            self.expect(false, Invariant::FromItsPool, || {
                format!("{change:?} has no pool")
            });
            return;
        };
        let held = observed.holds(node);
        let is_new = |block: &&Block| !held.iter().any(|held| held.block == **block);
        let is_fine = |block: &Block| {
            pool.contains(*block) && pool.block_size.get(block.family()) == Some(&block.size())
        };
        let reserves = |pool: &Pool, block: &Block| {
            let mut reserved = pool.never_given();
            reserved.any(|range| range.overlaps(&block.range()))
        };
        let is_reserved = |block: &Block| desired.pools.values().any(|pool| reserves(pool, block));
        let mut new = change.after.iter().filter(is_new);
        let is_from_pool = pool.state == PoolState::Active
            && (pool.selector.matches(&node.labels) || held.iter().next().is_some())
            && new.all(|block| is_fine(block) && !is_reserved(block));
        self.expect(is_from_pool, Invariant::FromItsPool, || {
            format!("{change:?} of {pool:?}")
        });
    }

    /// A pinned node gets its block, has it, or waits.
    fn pins_kept(&mut self, plan: &Plan) {
        for pin in self.desired.pins.values() {
            let Some(node) = self.observed.nodes.get(&pin.node) else {
                continue;
            };
            let target = Target::Node(pin.node.clone());
            let waits = plan.blocked.iter().any(|blocked| blocked.target == target);
            let change = node_changes(&plan.changes).find(|change| change.node == pin.node);
            let held = self.observed.holds(node);
            let is_kept = |block: &Block| {
                let gets = change.is_some_and(|change| change.after.contains(block));
                waits || gets || held.iter().any(|held| held.block == *block)
            };
            let forgotten = !pin.blocks.iter().all(is_kept);
            self.expect(!forgotten, Invariant::Pins, || {
                format!("{pin:?} is forgotten")
            });
        }
    }

    /// No other node gets a pinned block, unless one of its fields shows the block: an undo may give it
    /// back.
    fn pins_respected(&mut self, change: &NodeChange) {
        let shown = self.observed.shown_blocks();
        let of_node: BTreeSet<Block> = shown
            .filter(|(name, _)| **name == change.node)
            .map(|(_, block)| block)
            .collect();
        let after = change.after.iter().copied();
        let new: Vec<Block> = after.filter(|block| !of_node.contains(block)).collect();
        for pin in self
            .desired
            .pins
            .values()
            .filter(|pin| pin.node != change.node)
        {
            let clashes = |block: &Block| pin.blocks.iter().any(|pinned| pinned.overlaps(*block));
            let is_clear = !new.iter().any(clashes);
            self.expect(is_clear, Invariant::Pins, || {
                format!("{change:?} gets one of {pin:?}")
            });
        }
    }
}

/// What a change writes that its agent does not take from the node already.
fn written(change: &NodeChange, observed: &Observed) -> Vec<Block> {
    let node = observed.nodes.get(&change.node);
    let held = node.map(|node| observed.holds(node));
    let is_read = |block: &Block| {
        let mut held = held.iter().flat_map(|held| held.iter());
        held.any(|held| held.block == *block && held.reading == Reading::Read)
    };
    let blocks = change.edit.blocks().into_iter();
    blocks.filter(|block| !is_read(block)).collect()
}

fn has_families(change: &NodeChange) -> bool {
    match &change.edit {
        Edit::NodeSpec { pod_cidrs } | Edit::CiliumNode { pod_cidrs, .. } => {
            let families: BTreeSet<_> = pod_cidrs.iter().map(|block| block.family()).collect();
            // Only an undo leaves nothing.
            let has_blocks = !pod_cidrs.is_empty() || change.after.is_empty();
            has_blocks && families.len() == pod_cidrs.len()
        }
        Edit::NodeConfig(config) => !config.ranges.is_empty() || !config.removed.is_empty(),
        Edit::NodeAnnotations { values } => values.iter().all(|(key, block)| {
            let is_ipv4 = key.contains("ipv4");
            let family = if is_ipv4 { Family::Ipv4 } else { Family::Ipv6 };
            let is_of_family = block.is_none_or(|block| block.family() == family);
            ANNOTATION_KEYS.contains(key) && is_of_family
        }),
    }
}

/// Addresses that no node may get.
fn foreign(desired: &Desired, observed: &Observed) -> Vec<Range> {
    let machines = observed
        .nodes
        .values()
        .flat_map(|node| node.addresses.iter().map(|address| Range::from(*address)));
    let balancers = observed.load_balancer_ranges().map(|(_, range)| range);
    let unattributed = observed.unattributed.iter().chain(&observed.tombstones);
    let unattributed = unattributed.map(|block| block.range());
    let others = observed
        .service_ranges
        .iter()
        .chain(&desired.policy.excluded)
        .copied();
    let wanted = desired
        .address_pools
        .values()
        .flat_map(|pool| pool.ranges.iter().map(|range| range.range));
    wanted
        .chain(machines)
        .chain(balancers)
        .chain(unattributed)
        .chain(others)
        .collect()
}
