//! Plans for changed nodes beside whole plans, and their comparison.

use std::collections::{BTreeMap, BTreeSet};

use super::world::{Mode, World, names, number};
use ipam_cilium::observed::{Observed, Reader};
use ipam_core::net::Block;
use ipam_desired::Desired;
use ipam_planner::plan::{
    Change, ChangedNodes, ChangedNodesPlan, Overview, Plan, PlannedState, Target, node_changes,
    plan,
};

/// A controller: it plans for changed nodes where it can, and as a whole where it must.
pub struct Controller {
    pub desired: Desired,
    pub known: Option<PlannedState>,
    pub overview: Overview,
    pub blocked: BTreeMap<Target, String>,
}

pub fn blocked(plan: &Plan) -> BTreeMap<Target, String> {
    let blocked = plan.blocked.iter();
    blocked
        .map(|one| (one.target.clone(), one.reason.to_string()))
        .collect()
}

impl Controller {
    pub fn new(desired: Desired, world: &mut World) -> Controller {
        let mut controller = Controller {
            desired,
            known: None,
            overview: Overview::default(),
            blocked: BTreeMap::new(),
        };
        controller.plan_as_a_whole(world, &BTreeSet::new());
        controller
    }

    /// Returns the nodes that it writes.
    pub fn plan_as_a_whole(
        &mut self,
        world: &mut World,
        tombstones: &BTreeSet<Block>,
    ) -> BTreeSet<u8> {
        let observed = world.observed(tombstones);
        let plan = plan(&self.desired, &observed, Vec::new());
        self.known = PlannedState::after(&plan, &self.desired, &observed);
        self.overview = Overview::of(&plan, &self.desired, &observed);
        self.blocked = blocked(&plan);
        let new: Vec<Change> = plan
            .changes
            .into_iter()
            .filter(Change::gives_to_a_new_node)
            .collect();
        node_changes(&new).for_each(|change| self.overview.note(change));
        if let Some(known) = &mut self.known {
            known.written(node_changes(&new));
        }
        world.write(&new)
    }

    pub fn plan_changed(
        &mut self,
        world: &World,
        changed: &BTreeSet<u8>,
        tombstones: &BTreeSet<Block>,
    ) -> Option<ChangedNodesPlan> {
        let changed = ChangedNodes {
            names: names(changed),
            seen: Observed {
                tombstones: tombstones.clone(),
                ..world.seen(changed, Reader::default())
            },
        };
        let planned = self.known.as_mut()?.plan_changed(changed)?;
        self.overview.update(&planned.update);
        for (node, reason) in &planned.update.blocked {
            let target = Target::Node(node.clone());
            match reason {
                Some(reason) => self.blocked.insert(target, reason.clone()),
                None => self.blocked.remove(&target),
            };
        }
        Some(planned)
    }

    /// Holds the plan for changed nodes against the whole plan.
    pub fn compare(
        &self,
        world: &World,
        planned: &ChangedNodesPlan,
        changed: &BTreeSet<u8>,
        tombstones: &BTreeSet<Block>,
        due: Option<u8>,
    ) {
        let whole = plan(&self.desired, &world.observed(tombstones), Vec::new());
        let is_changed = |change: &&Change| matches!(change.target(), Target::Node(name) if changed.contains(&number(&name)));
        let (of_these, of_others): (Vec<&Change>, Vec<&Change>) =
            whole.changes.iter().partition(is_changed);
        assert_eq!(planned.changes.iter().collect::<Vec<_>>(), of_these);
        if due.is_none() {
            let new = of_others
                .into_iter()
                .filter(|change| change.gives_to_a_new_node());
            assert_eq!(new.collect::<Vec<_>>(), Vec::<&Change>::new(), "others");
            let whole = blocked(&whole);
            assert!(
                self.blocked.keys().eq(whole.keys()),
                "{:?}, {whole:?}",
                self.blocked
            );
            // In a whole plan, nodes that the operator serves still use up the pools.
            let is_told = world.mode != Mode::OperatorGives;
            for (node, reason) in planned.update.blocked.iter().filter(|_| is_told) {
                assert_eq!(reason.as_ref(), whole.get(&Target::Node(node.clone())));
            }
        }
    }

    /// Holds the numbers against those of a whole plan.
    pub fn compare_overview(&self, world: &World, tombstones: &BTreeSet<Block>) {
        let observed = world.observed(tombstones);
        let plan = plan(&self.desired, &observed, Vec::new());
        let expected = Overview::of(&plan, &self.desired, &observed);
        let is_pending = plan
            .changes
            .iter()
            .any(|change| !change.gives_to_a_new_node());
        let numbers = |overview: &Overview| {
            let mut pools = overview.pools.clone();
            // The report of the whole plan stays.
            pools.values_mut().for_each(|pool| pool.exhausted = None);
            if is_pending {
                // Planned blocks that wait for a person count as reserved, not as free.
                pools.values_mut().for_each(|pool| pool.blocks.clear());
            }
            let Overview {
                nodes,
                pins,
                misplaced,
                ..
            } = overview.clone();
            (nodes, pools, pins, misplaced)
        };
        assert_eq!(numbers(&self.overview), numbers(&expected));
    }
}
