//! Taking changes back: the inverse of a write, and what an undo plan asks of the cluster as it is now.

use std::collections::BTreeMap;

use super::change::{Action, Blocked, BlockedReason, Change, Edit, Hazard, Reason};
use super::document::{ChangeDocument, EditDocument, Intent, PlanDocument};
use super::pins::Others;
use super::{Plan, digest};
use crate::check;
use crate::desired::Desired;
use crate::model::{Finding, NodeName};
use crate::net::Block;
use crate::observed::{ANNOTATION_KEYS, Node, ObjectVersion, Observed};

/// The write that brings a node's fields back to what they show now; `None` where the API server would refuse it:
/// `spec.podCIDRs` is write-once.
pub(super) fn inverse(node: &Node, edit: &Edit) -> Option<Edit> {
    match edit {
        Edit::NodeSpec { .. } => None,
        Edit::NodeAnnotations { values } => {
            let values = values.keys().map(|key| (*key, node.annotation_at(key))).collect();
            Some(Edit::NodeAnnotations { values })
        }
    }
}

/// What an undo plan asks for. A change of it whose node does not show what was applied, or shows already what was there before, is
/// not planned; that the saved plan wants it all the same is for [`super::still_wanted`] to say.
pub fn plan_undo(saved: &PlanDocument, desired: &Desired, observed: &Observed, file_findings: Vec<Finding>) -> Plan {
    let mut plan = Plan { findings: file_findings, desired_digest: digest::of_desired(desired), ..Plan::default() };
    plan.findings.extend(check::cluster(desired, observed));
    let claims = observed.claims_in_force(desired.policy.quarantine);
    let foreign = super::decide::foreign_ranges(desired, observed);
    let others = Others::new(observed, &foreign, &claims);
    for wanted in &saved.changes {
        match change(wanted, desired, observed, &others) {
            Some(Ok(change)) => plan.changes.push(change),
            Some(Err(blocked)) => plan.blocked.push(blocked),
            None => {}
        }
    }
    plan.refusals = super::refusals(&plan.changes, desired, observed);
    plan
}

fn change(
    wanted: &ChangeDocument,
    desired: &Desired,
    observed: &Observed,
    others: &Others<'_>,
) -> Option<Result<Change, Blocked>> {
    let node = observed.nodes.get(&wanted.name.parse::<NodeName>().ok()?)?;
    let (to, from) = (values(&wanted.edit)?, values(wanted.undo.as_ref()?)?);
    let shows = |values: &Values| values.iter().all(|(key, block)| node.annotation_at(key) == *block);
    if node.uid != wanted.guard.uid || to.keys().ne(from.keys()) || !shows(&from) || shows(&to) {
        return None;
    }
    let restored = to.values().flatten().find_map(|block| obstacle(*block, node, others));
    if let Some(reason) = restored {
        return Some(Err(Blocked { node: node.name.clone(), reason, origin: None }));
    }
    let blocks = |values: &Values| {
        let mut blocks: Vec<Block> = values.values().flatten().copied().collect();
        blocks.sort();
        blocks.dedup();
        blocks
    };
    let (before, after) = (blocks(&from), blocks(&to));
    let pool = before.iter().chain(&after).find_map(|block| desired.pools.values().find(|pool| pool.contains(*block)));
    Some(Ok(Change {
        action: action(&before, &after),
        node: node.name.clone(),
        pool: pool.map(|pool| pool.name.clone()),
        hazard: hazard(&after),
        before,
        after,
        edit: Edit::NodeAnnotations { values: to },
        undo: Some(Edit::NodeAnnotations { values: from }),
        reason: Reason::Undo,
        guard: ObjectVersion { uid: node.uid.clone(), resource_version: node.resource_version.clone() },
        origin: None,
    }))
}

fn action(before: &[Block], after: &[Block]) -> Action {
    match (before, after) {
        (_, []) => Action::Release,
        ([], _) => Action::Assign,
        _ => Action::Update,
    }
}

/// The same when the undo plan is made and when it is applied: what a node's agent does in between must not make it stale.
fn hazard(after: &[Block]) -> Hazard {
    if after.is_empty() { Hazard::Destructive } else { Hazard::None }
}

type Values = BTreeMap<&'static str, Option<Block>>;

/// The annotations of a saved edit. Keys that are not ours to write, and texts that are no blocks, make it none.
fn values(edit: &EditDocument) -> Option<Values> {
    let EditDocument::NodeAnnotations(values) = edit else { return None };
    let entry = |(key, text): (&String, &Option<String>)| {
        let key = ANNOTATION_KEYS.into_iter().find(|known| known == key)?;
        let block = text.as_ref().map(|text| text.parse::<Block>().ok()).map_or(Some(None), |block| block.map(Some))?;
        Some((key, block))
    };
    values.iter().map(entry).collect()
}

fn obstacle(block: Block, node: &Node, others: &Others<'_>) -> Option<BlockedReason> {
    if let Some(other) = others.holder(block, &node.name) {
        return Some(BlockedReason::HeldTwice(block, other.clone()));
    }
    if let Some(other) = others.claimant(block, &node.name) {
        return Some(BlockedReason::SpokenFor(block, other.clone()));
    }
    others.uses(block).then_some(BlockedReason::HeldNotFree(block))
}

impl PlanDocument {
    /// The plan that takes these changes back, as far as that can be done; the others are blocked in it. `waivers` are those that
    /// it needs.
    pub fn undoing(changes: &[&Change], directory: &str, desired: &Desired, observed: &Observed) -> PlanDocument {
        let can_be_undone = |change: &Change| change.undo.clone().map(|undo| inverted(change, undo));
        let undone: Vec<Change> = changes.iter().filter_map(|change| can_be_undone(change)).collect();
        let blocked = changes.iter().filter(|change| change.undo.is_none()).map(|change| Blocked {
            node: change.node.clone(),
            reason: BlockedReason::CannotBeUndone(change.after.clone()),
            origin: None,
        });
        let plan = Plan {
            waivers: super::exceeded_limits(&undone, &desired.policy, observed).into_iter().collect(),
            changes: undone,
            blocked: blocked.collect(),
            desired_digest: digest::of_desired(desired),
            ..Plan::default()
        };
        PlanDocument { intent: Intent::Undo, ..PlanDocument::new(&plan, directory) }.sealed()
    }
}

fn inverted(change: &Change, undo: Edit) -> Change {
    let after: Vec<Block> = undo.blocks().into_iter().collect();
    let before: Vec<Block> = change.edit.blocks().into_iter().collect();
    Change {
        action: action(&before, &after),
        hazard: hazard(&after),
        before,
        after,
        undo: Some(change.edit.clone()),
        edit: undo,
        reason: Reason::Undo,
        origin: None,
        ..change.clone()
    }
}
