//! Undo of the blocks of nodes: the plan of an undo against the cluster as it is now. Other objects
//! follow the files.

mod cilium_node;
mod record;

use super::blocked::{BlockedReason, CommonObstacle, NodeObstacle, UndoObstacle};
use super::candidates::{foreign, supply};
use super::change::{Action, Edit, NodeChange, Reason, Target};
use super::document::{ChangeDocument, EditDocument, PlanDocument};
use super::file_blocks::FileBlocks;
use super::kept_addresses::KeptAddresses;
use super::owners::{AddressOwners, Owner};
use super::write_path::Paths;
use super::{Plan, digest};
use crate::check;
use crate::openstack::SubnetPools;
use ipam_cilium::observed::{Node, ObjectVersion, Observed};
use ipam_core::model::{Finding, Hazard, NodeName, PerFamily};
use ipam_core::net::Block;
use ipam_desired::Desired;

pub(super) use record::inverse;

/// The plan of an undo. It omits each saved change whose node does not show the applied value, or
/// shows the earlier value already; [`super::still_wanted`] reports those.
///
/// The file is not trusted. An undo removes a block that the node shows, or gives back one that no
/// other node may have. A blocked object holds up only those that depend on it.
pub fn plan_undo(
    saved: &PlanDocument,
    desired: &Desired,
    observed: &Observed,
    file_findings: Vec<Finding>,
) -> Plan {
    let mut plan = Plan {
        findings: file_findings,
        desired_digest: digest::of_desired(desired),
        ..Plan::default()
    };
    plan.findings.extend(check::cluster(desired, observed));
    let claims = observed.live_claims(desired.policy.quarantine);
    let kept_addresses = KeptAddresses::new(observed, &supply(desired));
    let foreign = foreign(desired, observed, &kept_addresses);
    let owners = AddressOwners::new(observed, &kept_addresses, &foreign, &claims);
    let planner = UndoPlanner {
        subnets: SubnetPools::resolve(desired, observed),
        observed,
        owners,
        files: FileBlocks::new(desired),
        paths: Paths::new(observed, &desired.policy),
    };
    for wanted in &saved.changes {
        if let Some((node, decided)) = planner.change(wanted) {
            plan.record(Target::Node(node.clone()), None, decided.map(Some));
        }
    }
    plan.judge(desired, observed);
    plan
}

struct UndoPlanner<'u> {
    subnets: SubnetPools<'u>,
    observed: &'u Observed,
    owners: AddressOwners<'u>,
    files: FileBlocks<'u>,
    paths: Paths<'u>,
}

/// What an undo writes into the field of a node, and what the field shows.
struct Step {
    before: Vec<Block>,
    after: Vec<Block>,
    edit: Edit,
    /// The write that does the change again.
    redo: Edit,
}

impl UndoPlanner<'_> {
    /// `None` if there is nothing to undo, or the node shows something else.
    fn change(
        &self,
        wanted: &ChangeDocument,
    ) -> Option<(&NodeName, Result<NodeChange, BlockedReason>)> {
        let node = self
            .observed
            .nodes
            .get(&wanted.name.parse::<NodeName>().ok()?)?;
        if node.uid != wanted.guard.uid {
            return None;
        }
        let (to, from) = (&wanted.edit, wanted.undo.as_ref()?);
        let step = match (to, from) {
            (EditDocument::Annotations(_), EditDocument::Annotations(_)) => {
                Ok(cilium_node::step(node, to, from)?)
            }
            (EditDocument::NodeConfig(to), EditDocument::NodeConfig(from)) => {
                self.node_config(node, to, from)?
            }
            _ => self.cilium_node(node, to, from)?,
        };
        let change = step.map(|step| self.change_of(node, wanted, step));
        let checked = change.and_then(|change| self.checked(node, change));
        Some((&node.name, checked))
    }

    fn change_of(&self, node: &Node, wanted: &ChangeDocument, step: Step) -> NodeChange {
        let Step {
            before,
            after,
            edit,
            redo,
        } = step;
        NodeChange {
            action: action(&edit, &before, &after),
            node: node.name.clone(),
            // The pool of the saved plan: the files may have other pools by now.
            pool: wanted.pool.as_ref().and_then(|pool| pool.parse().ok()),
            hazard: hazard(&edit, &after),
            freed: self.owners.freed(&node.name, &before, &after),
            before,
            after,
            edit,
            undo: Some(redo),
            reason: Reason::Undo,
            guard: ObjectVersion {
                uid: node.uid.clone(),
                resource_version: node.resource_version.clone(),
            },
            origin: None,
            needs_approval: Vec::new(),
        }
    }

    /// The change, if its write can be guarded, and if the node may have the blocks that it gives
    /// back.
    fn checked(&self, node: &Node, change: NodeChange) -> Result<NodeChange, BlockedReason> {
        if !change.guard.is_known() {
            return Err(CommonObstacle::MissingUid.into());
        }
        if let Some(reason) = self.conflict(&change) {
            return Err(reason);
        }
        let returned = |block: &&Block| !change.before.contains(block);
        let is_taken = |block: &&Block| self.owners.holder(**block, &node.name).is_some();
        let mut returned = change.after.iter().filter(returned);
        if let Some(block) = returned.find(is_taken) {
            return Err(UndoObstacle::CannotBeGivenBack(*block).into());
        }
        // A block to which a `CiliumNodeConfig` lets its node return is the node's already.
        let written = change.edit.blocks();
        let obstacle = written
            .iter()
            .filter(|block| !change.before.contains(block))
            .find_map(|block| self.obstacle(*block, node));
        obstacle.map_or(Ok(change), Err)
    }

    fn conflict(&self, change: &NodeChange) -> Option<BlockedReason> {
        self.owners
            .conflict(change, &PerFamily::NONE)
            .map(|(block, owner)| match owner {
                Owner::Claimant(other) => NodeObstacle::Claimed(block, other).into(),
                Owner::Holder(_) | Owner::Foreign => UndoObstacle::CannotBeGivenBack(block).into(),
            })
    }

    /// Why the files would not allow the block to return to the node.
    fn obstacle(&self, block: Block, node: &Node) -> Option<BlockedReason> {
        if let Some(unresolved) = self.subnets.unresolved() {
            return Some(unresolved.clone().into());
        }
        self.files
            .obstacle_to_new(node, block)
            .map(|_| UndoObstacle::CannotBeGivenBack(block).into())
    }
}

fn action(edit: &Edit, before: &[Block], after: &[Block]) -> Action {
    match (edit, before, after) {
        // The Node keeps a block, which the agent takes when it restarts.
        (Edit::NodeConfig(_), _, _) => Action::Update,
        (_, _, []) => Action::Release,
        (_, [], _) => Action::Assign,
        _ => Action::Update,
    }
}

/// The hazard of an undo, when it is planned and when it is applied. It is the worst case, so that
/// the actions of a node's agent in between do not make the plan stale.
fn hazard(edit: &Edit, after: &[Block]) -> Hazard {
    match edit {
        // Blocked if the agent has started.
        Edit::CiliumNode { .. } => Hazard::None,
        Edit::NodeConfig(_) => Hazard::Disruptive,
        Edit::NodeSpec { .. } | Edit::NodeAnnotations { .. } if after.is_empty() => {
            Hazard::Destructive
        }
        Edit::NodeSpec { .. } | Edit::NodeAnnotations { .. } => Hazard::Disruptive,
    }
}
