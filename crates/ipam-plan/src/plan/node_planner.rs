//! The plan of one node: nothing, a change, or the reason why a change must wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::blocked::{BlockedReason, CommonObstacle, NodeObstacle};
use super::change::{Action, Edit, NodeChange, Reason};
use super::file_blocks::{FileBlocks, PinOutcome};
use super::owners::{AddressOwners, ClaimedBlocks, Owner, Source, claimed_blocks};
use super::unattended::unapproved;
use super::undo;
use super::write_path::{Paths, Route};
use crate::plan;
use ipam_cilium::observed::{FamilyUse, Holding, Node, ObjectVersion, Observed};
use ipam_core::alloc::{Outcome, PassedOver, PassedOverPool, PassedOverPools, Supply};
use ipam_core::model::{Hazard, NodeName, Origin, PerFamily, PoolName};
use ipam_core::net::{Block, Family, RangeIndex};
use ipam_desired::Desired;

/// A node with a pin.
pub(super) struct Pinned {
    pub(super) outcome: PinOutcome,
    pub(super) origin: Origin,
    pub(super) pool: PoolName,
}

/// Plans node by node, after allocation.
pub(super) struct NodePlanner<'p> {
    desired: &'p Desired,
    observed: &'p Observed,
    supply: &'p Supply,
    others: &'p AddressOwners<'p>,
    files: &'p FileBlocks<'p>,
    paths: Paths<'p>,
    /// Blocks that pools give in this plan, by node.
    given: RangeIndex<&'p NodeName>,
    claimed: Arc<BTreeMap<PoolName, ClaimedBlocks>>,
}

impl<'p> NodePlanner<'p> {
    pub(super) fn new(
        desired: &'p Desired,
        observed: &'p Observed,
        supply: &'p Supply,
        others: &'p AddressOwners<'p>,
        files: &'p FileBlocks<'p>,
        given: RangeIndex<&'p NodeName>,
    ) -> NodePlanner<'p> {
        let paths = Paths::new(observed, &desired.policy);
        NodePlanner {
            desired,
            observed,
            supply,
            others,
            files,
            paths,
            given,
            claimed: Arc::new(claimed_blocks(desired, observed, supply)),
        }
    }

    /// The change of a node. A node that a migration still moves changes by its steps only: a plan
    /// would write without draining it, or take back what the migration has written.
    pub(super) fn of(
        &self,
        node: &Node,
        pinned: Option<&Pinned>,
        outcome: Outcome,
    ) -> Result<Option<NodeChange>, BlockedReason> {
        let change = self.decided(node, pinned, outcome)?;
        let migration = self.observed.migration_of(&node.name);
        match (change, migration) {
            (Some(_), Some(migration)) if !self.observed.holds(node).is_empty() => {
                let obstacle = NodeObstacle::Migrating(migration.id.clone());
                Err(obstacle.into())
            }
            (change, _) => Ok(change),
        }
    }

    fn decided(
        &self,
        node: &Node,
        pinned: Option<&Pinned>,
        outcome: Outcome,
    ) -> Result<Option<NodeChange>, BlockedReason> {
        if let Some(text) = self.observed.unreadable(node) {
            return Err(CommonObstacle::PodCidrUnreadable(text.to_owned()).into());
        }
        if let Some(migration) = &node.migration {
            let obstacle = NodeObstacle::Migrating(migration.clone());
            return Err(obstacle.into());
        }
        let held = self.held_in_use(node);
        let mut blocks: PerFamily<Block> = held.iter().map(|holding| holding.block).collect();
        let (mut pin, mut chosen) = (None, PerFamily::NONE);
        match pinned.map(|pinned| (&pinned.outcome, pinned)) {
            Some((PinOutcome::Blocked(reason), _)) => return Err(reason.clone()),
            Some((PinOutcome::Move(blocks), pinned)) => {
                return self.moved(node, &held, blocks, pinned).map(Some);
            }
            Some((PinOutcome::Assign(assign), pinned)) if !assign.is_empty() => {
                assign.iter().for_each(|block| blocks.offer(*block));
                chosen = *assign;
                pin = Some(Source {
                    pool: Some(pinned.pool.clone()),
                    origin: Some(pinned.origin.clone()),
                    reason: Reason::Pinned,
                });
            }
            _ => {}
        }
        let (allocated, source) = self.allocated(outcome, &blocks, pin)?;
        allocated.iter().for_each(|block| blocks.offer(*block));
        let change = self.write(node, &held, &blocks, source)?;
        let Some(change) = change
            .map(|change| self.refuse_conflicts(change, &allocated))
            .transpose()?
        else {
            return Ok(None);
        };
        allocated.iter().for_each(|block| chosen.offer(*block));
        Ok(Some(NodeChange {
            needs_approval: unapproved(self.observed, self.files, node, &held, &change, &chosen),
            ..change
        }))
    }

    /// The blocks that a pool gives beside `blocks`, and the source of all new blocks. `pin` is the
    /// source of those that the node's pin gives.
    fn allocated(
        &self,
        outcome: Outcome,
        blocks: &PerFamily<Block>,
        pin: Option<Source>,
    ) -> Result<(PerFamily<Block>, Option<Source>), BlockedReason> {
        match outcome {
            Outcome::Assigned(assigned) => {
                let source = match pin {
                    Some(pin) => Source {
                        reason: Reason::PinnedInPart,
                        ..pin
                    },
                    None => Source::of_assigned(self.desired, self.supply, &assigned),
                };
                return Ok((assigned.blocks, Some(source)));
            }
            Outcome::Short { passed_over }
                if blocks.is_empty()
                    || is_left_short(&passed_over)
                    || self.waits_for_family(blocks) =>
            {
                return Err(self.exhausted(passed_over));
            }
            Outcome::NoPool if blocks.is_empty() => {
                return Err(NodeObstacle::NoPool.into());
            }
            Outcome::NothingNeeded if blocks.is_empty() => {
                let used = |family: &Family| self.observed.cilium.use_of(*family) != FamilyUse::Off;
                if let Some(family) = Family::BOTH.into_iter().find(used) {
                    return Err(CommonObstacle::FamilyMissing(family).into());
                }
            }
            Outcome::Short { .. } | Outcome::NoPool | Outcome::NothingNeeded => {}
        }
        Ok((PerFamily::NONE, pin))
    }

    /// Whether an agent with these blocks would wait for one of another family.
    fn waits_for_family(&self, blocks: &PerFamily<Block>) -> bool {
        let is_required =
            |family: &Family| self.observed.cilium.use_of(*family) == FamilyUse::Required;
        Family::BOTH
            .iter()
            .any(|family| is_required(family) && blocks.get(*family).is_none())
    }

    /// The node moves from the blocks that it holds to those of its pin.
    fn moved(
        &self,
        node: &Node,
        held: &PerFamily<Holding>,
        blocks: &PerFamily<Block>,
        pinned: &Pinned,
    ) -> Result<NodeChange, BlockedReason> {
        if node.uid.is_empty() || node.resource_version.is_empty() {
            return Err(CommonObstacle::MissingUid.into());
        }
        let edit = self.paths.by_node_config(node, blocks)?;
        let (before, after) = before_and_after(self.observed, node, held, &edit);
        let from = before.first().copied();
        let change = NodeChange {
            action: Action::Update,
            node: node.name.clone(),
            pool: Some(pinned.pool.clone()),
            freed: self.others.freed(&node.name, &before, &after),
            before,
            after,
            undo: undo::inverse(self.observed, node, &edit),
            edit,
            reason: from.map_or(Reason::Pinned, |from| Reason::MovedByPin { from }),
            hazard: Hazard::Disruptive,
            guard: ObjectVersion {
                uid: node.uid.clone(),
                resource_version: node.resource_version.clone(),
            },
            origin: Some(pinned.origin.clone()),
            needs_approval: Vec::new(),
        };
        self.refuse_conflicts(change, &PerFamily::NONE)
    }

    /// Blocks that the node holds, of the families that Cilium uses.
    fn held_in_use(&self, node: &Node) -> PerFamily<Holding> {
        let mut held = self.observed.holds(node);
        for family in Family::BOTH {
            if self.observed.cilium.use_of(family) == FamilyUse::Off {
                *held.get_mut(family) = None;
            }
        }
        held
    }

    fn write(
        &self,
        node: &Node,
        held: &PerFamily<Holding>,
        blocks: &PerFamily<Block>,
        source: Option<Source>,
    ) -> Result<Option<NodeChange>, BlockedReason> {
        if blocks.is_empty() {
            return Ok(None);
        }
        let edit = match self.paths.route(node, held, blocks)? {
            Route::AlreadyRead => return Ok(None),
            Route::Write(edit) => edit,
        };
        if node.uid.is_empty() || node.resource_version.is_empty() {
            return Err(CommonObstacle::MissingUid.into());
        }
        let action = if source.is_some() {
            Action::Assign
        } else {
            Action::Update
        };
        let source = source.unwrap_or_else(|| Source::of_held(self.desired, self.supply, held));
        let (before, after) = before_and_after(self.observed, node, held, &edit);
        let hazard = self.hazard(node, held, blocks);
        let guard = ObjectVersion {
            uid: node.uid.clone(),
            resource_version: node.resource_version.clone(),
        };
        let Source {
            pool,
            origin,
            reason,
        } = source;
        let undo = undo::inverse(self.observed, node, &edit);
        let freed = self.others.freed(&node.name, &before, &after);
        let (node, needs_approval) = (node.name.clone(), Vec::new());
        let change = NodeChange {
            action,
            node,
            pool,
            freed,
            before,
            after,
            edit,
            undo,
            reason,
            hazard,
            guard,
            origin,
            needs_approval,
        };
        Ok(Some(change))
    }

    /// A block that a node shows in one field may be wrong, and a write makes it real. So it must
    /// be as free as a new block, and not be given to another node by this plan.
    fn refuse_conflicts(
        &self,
        change: NodeChange,
        allocated: &PerFamily<Block>,
    ) -> Result<NodeChange, BlockedReason> {
        plan::keeps_edit(self.observed, &change.edit)?;
        if let Some((block, other)) = self.given_to_another(&change) {
            return Err(NodeObstacle::BlockSplitConflict(block, other).into());
        }
        match self.others.conflict(&change, allocated) {
            None => Ok(change),
            Some((block, Owner::Holder(other))) => {
                Err(NodeObstacle::DuplicateBlock(block, other).into())
            }
            Some((block, Owner::Claimant(other))) => {
                Err(NodeObstacle::Claimed(block, other).into())
            }
            Some((block, Owner::Foreign)) => Err(NodeObstacle::HeldNotFree(block).into()),
        }
    }

    fn given_to_another(&self, change: &NodeChange) -> Option<(Block, NodeName)> {
        let another = |block: &Block| {
            let given = self
                .given
                .overlapping(&block.range())
                .map(|(_, node)| *node);
            given.filter(|node| **node != change.node).min()
        };
        change
            .new_blocks()
            .into_iter()
            .find_map(|block| Some((block, another(&block)?.clone())))
    }

    /// A running agent has its blocks and does not read the field again. One that waits for its
    /// first block takes it at once (daemon/k8s/init.go WaitForNodeInformation, tested on 1.15.19
    /// and 1.19.3).
    fn hazard(&self, node: &Node, held: &PerFamily<Holding>, blocks: &PerFamily<Block>) -> Hazard {
        let cilium_node = self.observed.cilium_nodes.get(&node.name);
        let agent_runs = cilium_node.is_some_and(|cilium_node| !cilium_node.pod_cidrs.is_empty());
        let adds_family = blocks.families().any(|family| held.get(family).is_none());
        if agent_runs && adds_family {
            Hazard::Disruptive
        } else {
            Hazard::None
        }
    }

    fn exhausted(&self, passed_over: PassedOverPools) -> BlockedReason {
        NodeObstacle::NodePoolsExhausted {
            passed_over,
            claimed: self.claimed.clone(),
        }
        .into()
    }
}

/// Whether a node with a block of one family lacks one that it should get. A disabled pool gives
/// nothing new on purpose.
fn is_left_short(passed_over: &[PassedOverPool]) -> bool {
    passed_over
        .iter()
        .any(|passed| passed.why != PassedOver::Disabled)
}

fn before_and_after(
    observed: &Observed,
    node: &Node,
    held: &PerFamily<Holding>,
    edit: &Edit,
) -> (Vec<Block>, Vec<Block>) {
    match edit {
        Edit::NodeSpec { pod_cidrs } => (node.spec.iter().copied().collect(), pod_cidrs.clone()),
        Edit::NodeConfig(config) => {
            let ranges = &config.ranges;
            let of_family = |holding: &&Holding| ranges.get(holding.block.family()).is_some();
            let before = held.iter().filter(of_family).map(|holding| holding.block);
            (before.collect(), ranges.iter().copied().collect())
        }
        Edit::CiliumNode { pod_cidrs, .. } => {
            let shown = observed
                .cilium_nodes
                .get(&node.name)
                .into_iter()
                .flat_map(|seen| &seen.pod_cidrs);
            (shown.copied().collect(), pod_cidrs.clone())
        }
        Edit::NodeAnnotations { values } => {
            let after: PerFamily<Block> = values.values().flatten().copied().collect();
            let shown = |family: Family| node.annotated(family).map(|(block, _)| block);
            (
                after.families().filter_map(shown).collect(),
                after.iter().copied().collect(),
            )
        }
    }
}
