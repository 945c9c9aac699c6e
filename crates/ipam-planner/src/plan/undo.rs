//! Undo: the inverse of a write, and the plan of an undo against the cluster as it is now.

use std::collections::{BTreeMap, BTreeSet};

use super::blocked::{Blocked, BlockedReason, NodeObstacle, UndoObstacle};
use super::change::{Action, Change, Edit, NodeChange, Reason, Target, node_changes};
use super::document::{ChangeDocument, EditDocument, Intent, PlanDocument};
use super::file_blocks::FileBlocks;
use super::kept_addresses::KeptAddresses;
use super::lb::{self, Effects};
use super::owners::{AddressOwners, Owner};
use super::supply::{foreign, supply};
use super::{Plan, digest, ports};
use crate::check;
use crate::openstack::SubnetPools;
use ipam_cilium::observed::{ANNOTATION_KEYS, Node, ObjectVersion, Observed, family_of_annotation};
use ipam_core::model::{Finding, Hazard, NodeName, PerFamily, Waiver};
use ipam_core::net::Block;
use ipam_desired::Desired;

/// The write that restores the current values of a node's fields; `None` if the API server would
/// refuse it: `spec.podCIDRs` is write-once.
pub(super) fn inverse(node: &Node, edit: &Edit) -> Option<Edit> {
    match edit {
        // A CiliumNode that an agent uses cannot be emptied. A person deletes an unused one.
        Edit::NodeSpec { .. } | Edit::CiliumNode { .. } | Edit::NodeConfig(_) => None,
        // An unreadable value could not be restored.
        Edit::NodeAnnotations { .. } if node.unreadable_annotation.is_some() => None,
        Edit::NodeAnnotations { values } => {
            let values = values
                .keys()
                .map(|key| (*key, node.annotation_at(key)))
                .collect();
            Some(Edit::NodeAnnotations { values })
        }
    }
}

/// The plan of an undo. It omits each saved change whose node does not show the applied value, or
/// shows the earlier value already; [`super::still_wanted`] reports those.
///
/// The file is not trusted. An undo removes a block that the node shows, or gives back one that no
/// other node may have. It never replaces one block with another.
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
    };
    (plan.changes, plan.blocked, plan.effects) = lb::undone(saved, desired, observed);
    for wanted in saved.changes.iter().filter(|wanted| wanted.kind == "Node") {
        match planner.change(wanted) {
            Some(Ok(change)) => plan.changes.push(Change::Node(change)),
            Some(Err(blocked)) => plan.blocked.push(blocked),
            None => {}
        }
    }
    let taken = planner.taken(saved);
    let of_ports = saved.changes.iter().filter_map(|wanted| {
        ports::undone(wanted, &taken, &planner.files, observed, &planner.owners)
    });
    for port in of_ports {
        match port {
            Ok(change) => plan.changes.push(Change::Port(Box::new(change))),
            Err(blocked) => plan.blocked.push(blocked),
        }
    }
    plan.refusals = super::refusals(&plan.changes, &plan.effects, desired, observed);
    plan
}

struct UndoPlanner<'u> {
    subnets: SubnetPools<'u>,
    observed: &'u Observed,
    owners: AddressOwners<'u>,
    files: FileBlocks<'u>,
}

type Values = BTreeMap<&'static str, Option<Block>>;

impl UndoPlanner<'_> {
    fn change(&self, wanted: &ChangeDocument) -> Option<Result<NodeChange, Blocked>> {
        let node = self
            .observed
            .nodes
            .get(&wanted.name.parse::<NodeName>().ok()?)?;
        let (to, from) = (values(&wanted.edit)?, values(wanted.undo.as_ref()?)?);
        let shows = |values: &Values| {
            values
                .iter()
                .all(|(key, block)| node.annotation_at(key) == *block)
        };
        if node.uid != wanted.guard.uid || to.keys().ne(from.keys()) || !shows(&from) || shows(&to)
        {
            return None;
        }
        let steps = || {
            to.iter()
                .map(|(key, block)| (from.get(key).copied().flatten(), *block))
        };
        if steps().any(|(from, to)| from.is_some() && to.is_some() && from != to) {
            return None;
        }
        let given_back: Vec<Block> = steps()
            .filter(|(from, _)| from.is_none())
            .filter_map(|(_, to)| to)
            .collect();
        let (before, after) = (blocks(&from), blocks(&to));
        let guard = ObjectVersion {
            uid: node.uid.clone(),
            resource_version: node.resource_version.clone(),
        };
        let change = NodeChange {
            action: action(&before, &after),
            node: node.name.clone(),
            // The pool of the saved plan: the files may have other pools by now.
            pool: wanted.pool.as_ref().and_then(|pool| pool.parse().ok()),
            hazard: hazard(&after),
            freed: self.owners.freed(&node.name, &before, &after),
            before,
            after,
            edit: Edit::NodeAnnotations { values: to },
            undo: Some(Edit::NodeAnnotations { values: from }),
            reason: Reason::Undo,
            guard,
            origin: None,
            needs_approval: Vec::new(),
        };
        let obstacle = match change.guard.is_known() {
            true => self.conflict(&change).or_else(|| {
                given_back
                    .iter()
                    .find_map(|block| self.obstacle(*block, node))
            }),
            false => Some(BlockedReason::NoIdentity),
        };
        let blocked = |reason| Blocked {
            target: Target::Node(node.name.clone()),
            reason,
            origin: None,
        };
        Some(match obstacle {
            None => Ok(change),
            Some(reason) => Err(blocked(reason)),
        })
    }

    fn conflict(&self, change: &NodeChange) -> Option<BlockedReason> {
        self.owners
            .conflict(change, &PerFamily::NONE)
            .map(|(block, owner)| match owner {
                Owner::Claimant(other) => BlockedReason::Node(NodeObstacle::Claimed(block, other)),
                Owner::Holder(_) | Owner::Foreign => {
                    BlockedReason::Undo(UndoObstacle::CannotBeGivenBack(block))
                }
            })
    }

    /// Blocks that the undo takes from nodes, or took before it was interrupted.
    fn taken(&self, saved: &PlanDocument) -> BTreeMap<NodeName, BTreeSet<Block>> {
        let of_node = |wanted: &ChangeDocument| {
            let node = self
                .observed
                .nodes
                .get(&wanted.name.parse::<NodeName>().ok()?)?;
            let (to, from) = (values(&wanted.edit)?, values(wanted.undo.as_ref()?)?);
            let left = blocks(&to);
            let taken = blocks(&from)
                .into_iter()
                .filter(|block| !left.contains(block))
                .collect();
            (node.uid == wanted.guard.uid).then(|| (node.name.clone(), taken))
        };
        saved
            .changes
            .iter()
            .filter(|wanted| wanted.kind == "Node")
            .filter_map(of_node)
            .collect()
    }

    /// Why the files would not give a block back.
    fn obstacle(&self, block: Block, node: &Node) -> Option<BlockedReason> {
        if let Some(unresolved) = self.subnets.unresolved() {
            return Some(BlockedReason::NeutronUnknown(Box::new(unresolved.clone())));
        }
        self.files
            .obstacle_to_new(node, block)
            .map(|_| BlockedReason::Undo(UndoObstacle::CannotBeGivenBack(block)))
    }
}

fn action(before: &[Block], after: &[Block]) -> Action {
    match (before, after) {
        (_, []) => Action::Release,
        ([], _) => Action::Assign,
        _ => Action::Update,
    }
}

/// The hazard of an undo, when it is planned and when it is applied. It is the worst case, so that
/// the actions of a node's agent in between do not make the plan stale.
fn hazard(after: &[Block]) -> Hazard {
    if after.is_empty() {
        Hazard::Destructive
    } else {
        Hazard::Disruptive
    }
}

fn blocks(values: &Values) -> Vec<Block> {
    let blocks: BTreeSet<Block> = values.values().flatten().copied().collect();
    blocks.into_iter().collect()
}

/// The annotations of a saved edit; `None` with a foreign key, a text that is no block, or a block
/// of another family than the key's.
fn values(edit: &EditDocument) -> Option<Values> {
    let EditDocument::Annotations(values) = edit else {
        return None;
    };
    let entry = |(key, text): (&String, &Option<String>)| {
        let key = ANNOTATION_KEYS.into_iter().find(|known| known == key)?;
        let Some(text) = text else {
            return Some((key, None));
        };
        let block: Block = text.parse().ok()?;
        (family_of_annotation(key) == Some(block.family())).then_some((key, Some(block)))
    };
    values.iter().map(entry).collect()
}

impl PlanDocument {
    /// The plan that undoes these changes, with the waivers that it needs. Changes that cannot be
    /// undone are blocked in it.
    pub fn undoing(
        changes: &[&Change],
        directory: &str,
        desired: &Desired,
        observed: &Observed,
    ) -> PlanDocument {
        let nodes = || node_changes(changes.iter().copied());
        let of_nodes =
            nodes().filter_map(|change| Some(Change::Node(inverted(change, change.undo.clone()?))));
        let mut undone = undone_lb(changes);
        let effects = match undone.is_empty() {
            true => Effects::default(),
            false => super::effects(&undone, &lb::after(changes.iter().copied(), observed)),
        };
        undone.extend(of_nodes);
        let (of_ports, open_ports) = ports::inverted(changes);
        undone.extend(of_ports);
        let blocked = nodes()
            .filter(|change| change.undo.is_none())
            .map(|change| Blocked {
                target: Target::Node(change.node.clone()),
                reason: BlockedReason::Undo(UndoObstacle::NodeKeeps(
                    change.edit.write_path(),
                    change.after.clone(),
                )),
                origin: None,
            });
        let of_pod_pools = changes.iter().filter_map(|change| match change {
            Change::PodPool(change) => Some(change.object.target()),
            Change::AddressPool(_) | Change::Service(_) | Change::Port(_) | Change::Node(_) => None,
        });
        let by_files = |target| Blocked {
            target,
            reason: BlockedReason::Undo(UndoObstacle::DecidedByFiles),
            origin: None,
        };
        let blocked = blocked.chain(of_pod_pools.map(by_files)).chain(open_ports);
        let limits = super::exceeded_limits(&undone, &desired.policy, observed)
            .into_iter()
            .map(Waiver::Limit);
        let plan = Plan {
            waivers: limits
                .chain(lb_waivers(changes, &undone, &effects, observed))
                .collect(),
            blocked: blocked.collect(),
            effects,
            changes: undone,
            desired_digest: digest::of_desired(desired),
            ..Plan::default()
        };
        PlanDocument {
            intent: Intent::Undo,
            ..PlanDocument::new(&plan, directory)
        }
        .sealed()
    }
}

/// Undoes changes of pools and pins: pins first, then changes that remove addresses, then changes
/// that add them.
fn undone_lb(changes: &[&Change]) -> Vec<Change> {
    let mut undone: Vec<Change> = changes
        .iter()
        .rev()
        .filter_map(|change| lb::inverted(change))
        .collect();
    undone.sort_by_key(|change| match change {
        Change::AddressPool(change) => Some(change.action),
        Change::Service(_) | Change::PodPool(_) | Change::Port(_) | Change::Node(_) => None,
    });
    undone
}

/// Waivers for the addresses that Services lose by an undo: those that the undo moves, and each
/// that the changes gave to a Service.
fn lb_waivers(
    changes: &[&Change],
    undone: &[Change],
    effects: &Effects,
    observed: &Observed,
) -> Vec<Waiver> {
    let given: usize = super::effects(changes.iter().copied(), observed)
        .services
        .iter()
        .map(|s| s.gains.len())
        .sum();
    let lost = effects.lost().count() + given;
    let lost = u32::try_from(lost).unwrap_or(u32::MAX);
    let deletes = undone
        .iter()
        .any(|change| matches!(change, Change::AddressPool(pool) if pool.after.is_none()));
    let last = deletes.then_some(Waiver::LastAddressPools);
    (lost > 0)
        .then_some(Waiver::LostAddresses(lost))
        .into_iter()
        .chain(last)
        .collect()
}

fn inverted(change: &NodeChange, undo: Edit) -> NodeChange {
    let after: Vec<Block> = undo.blocks().into_iter().collect();
    let before: Vec<Block> = change.edit.blocks().into_iter().collect();
    NodeChange {
        action: action(&before, &after),
        hazard: hazard(&after),
        // A document has no use for it: an undo is planned again before it is applied.
        freed: Vec::new(),
        before,
        after,
        undo: Some(change.edit.clone()),
        edit: undo,
        reason: Reason::Undo,
        origin: None,
        ..change.clone()
    }
}
