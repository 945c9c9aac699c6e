//! Which changes of a plan may be applied unattended, and which wait for approval.
//!
//! What a person must approve: changes that depend on unknown rules of a release, and blocks.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Edit, NodeChange, Sequence, Target, UnapprovedBlock};
use super::file_blocks::FileBlocks;
use super::ports::without_awaited_pairs;
use super::refusals::{Refusal, refusals};
use super::{Plan, drift, effects};
use crate::check;
use ipam_cilium::observed::{Holding, HoldingField, Node, Observed};
use ipam_core::model::{Hazard, PerFamily, Waiver};
use ipam_core::net::Block;
use ipam_desired::{Activity, Desired};

/// How often additions of pairs are judged for one plan.
const MAX_JUDGEMENTS: usize = 64;

/// The changes of a plan, divided into those that are applied and those that wait.
#[derive(Clone, Debug, Default)]
pub struct Unattended {
    /// Changes to apply, in the order of the plan.
    pub applied: Vec<Change>,
    /// Changes that wait for approval: their hazard exceeds the Policy, a block needs approval, the
    /// rules of the running release are unknown, or they depend on a change that waits.
    pub waiting: Vec<Change>,
    /// Refusals of the changes that would be applied. Then only blocks of new nodes are applied, and
    /// ports come to allow what their nodes hold, if they are not refused too.
    pub refusals: Vec<Refusal>,
}

/// Divides a plan into changes that are applied unattended and changes that wait. The other
/// arguments are the inputs of the plan.
pub fn unattended(
    plan: &Plan,
    desired: &Desired,
    observed: &Observed,
    waivers: &BTreeSet<Waiver>,
) -> Unattended {
    if desired.policy.activity == Activity::Paused {
        return Unattended {
            waiting: plan.changes.clone(),
            ..Unattended::default()
        };
    }
    let against = |changes: &[Change]| -> Vec<Refusal> {
        let mut refusals = refusals(changes, &effects(changes, observed), desired, observed);
        refusals.retain(|refusal| !refusal.is_waived(waivers));
        refusals
    };
    let approval = VersionRules::of(observed);
    let applied = harmless(&plan.changes, desired.policy.auto_apply, approval);
    let refusals = match applied == plan.changes {
        // The refusals of the plan are about exactly these changes.
        true => plan.unwaived(waivers).cloned().collect(),
        false => against(&applied),
    };
    let applied = match refusals.is_empty() {
        true => applied,
        false => urgent(applied, against),
    };
    let applied = without_awaited_pairs(applied);
    Unattended {
        waiting: left(&plan.changes, &applied),
        applied,
        refusals,
    }
}

/// The changes that are not applied, or only in part.
fn left(changes: &[Change], applied: &[Change]) -> Vec<Change> {
    let applied: BTreeMap<Target, &Change> = applied
        .iter()
        .map(|change| (change.target(), change))
        .collect();
    let is_left = |change: &&Change| applied.get(&change.target()) != Some(change);
    changes.iter().filter(is_left).cloned().collect()
}

/// Of changes that are refused as a whole: blocks of new nodes, and what ports come to allow. Pods
/// have no network without them.
fn urgent(changes: Vec<Change>, against: impl Fn(&[Change]) -> Vec<Refusal>) -> Vec<Change> {
    let (new, rest): (Vec<Change>, Vec<Change>) =
        changes.into_iter().partition(Change::gives_to_a_new_node);
    let new = match new.is_empty() || against(&new).is_empty() {
        true => new,
        false => Vec::new(),
    };
    let additions: Vec<Change> = rest.iter().filter_map(additions).collect();
    if additions.is_empty() {
        return new;
    }
    with_allowed(new, &additions, against)
}

/// Adds those of the pairs that nothing refuses together with the changes. A refusal may be about a
/// few of them, so they are judged by halves; the rest waits after [`MAX_JUDGEMENTS`].
fn with_allowed(
    changes: Vec<Change>,
    pairs: &[Change],
    against: impl Fn(&[Change]) -> Vec<Refusal>,
) -> Vec<Change> {
    let mut allowed = changes;
    let mut parts = vec![pairs];
    for _ in 0..MAX_JUDGEMENTS {
        let Some(part) = parts.pop() else { break };
        let together = without_awaited_pairs([&allowed[..], part].concat());
        if against(&together).is_empty() {
            allowed = together;
        } else if part.len() > 1 {
            let (some, others) = part.split_at(part.len() / 2);
            parts.extend([others, some]);
        }
    }
    allowed
}

/// Changes that need no person: their hazard does not exceed `worst`, and they depend on no unknown
/// rule or waiting change.
fn harmless(changes: &[Change], worst: Hazard, rules: VersionRules) -> Vec<Change> {
    let mut applied = Vec::new();
    let mut is_held_back = false;
    for change in changes {
        let in_order = change.sequence() == Sequence::AfterThoseBefore;
        let must_wait = change.hazard() > worst
            || !change.needs_approval().is_empty()
            || rules.hold_back(change);
        if must_wait || (in_order && is_held_back) {
            is_held_back |= in_order;
            let part = harmless_part(change, worst);
            applied.extend(part.filter(|part| !rules.hold_back(part)));
        } else {
            applied.push(change.clone());
        }
    }
    applied
}

/// The additions of a port whose removals wait: without them, Pods have no network.
fn harmless_part(change: &Change, worst: Hazard) -> Option<Change> {
    additions(change).filter(|additions| additions.hazard() <= worst)
}

fn additions(change: &Change) -> Option<Change> {
    let additions = change.as_port()?.additions()?;
    Some(Change::Port(Box::new(additions)))
}

/// New blocks of the change that need approval. `chosen` are those that the files or the allocator
/// chose.
pub(super) fn unapproved(
    observed: &Observed,
    files: &FileBlocks<'_>,
    node: &Node,
    held: &PerFamily<Holding>,
    change: &NodeChange,
    chosen: &PerFamily<Block>,
) -> Vec<UnapprovedBlock> {
    let new = change.new_blocks();
    let is_new = |holding: &&Holding| {
        let is_chosen = chosen.get(holding.block.family()) == Some(&holding.block);
        !is_chosen && new.contains(&holding.block)
    };
    let unapproved = |holding: &Holding| {
        Some(UnapprovedBlock {
            block: holding.block,
            field: holding.field,
            reason: files.obstacle_to_new(node, holding.block)?,
            author: drift::author(observed, &node.name, holding.field),
        })
    };
    held.iter()
        .filter(|holding| agent_can_write(holding.field))
        .filter(is_new)
        .filter_map(unapproved)
        .collect()
}

/// Whether the node's own agent may write the field.
fn agent_can_write(field: HoldingField) -> bool {
    match field {
        HoldingField::CiliumNode | HoldingField::Annotation | HoldingField::OldAnnotation => true,
        HoldingField::NodeSpec | HoldingField::Setting | HoldingField::Allocated => false,
    }
}

/// Whether the rules of the running release are known. Of operators of several releases, any may
/// lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionRules {
    Known,
    Unknown,
}

impl VersionRules {
    pub fn of(observed: &Observed) -> VersionRules {
        let is_one = observed.operator_releases().len() == 1;
        match is_one && check::are_known(observed) {
            true => VersionRules::Known,
            false => VersionRules::Unknown,
        }
    }

    /// Whether the change needs approval because it depends on the rules of a release. Every release
    /// reads `spec.podCIDRs` in the same way; pairs of ports are not Cilium's.
    pub fn hold_back(self, change: &Change) -> bool {
        let depends = match change {
            Change::Node(change) => !matches!(change.edit, Edit::NodeSpec { .. }),
            Change::AddressPool(_) | Change::Service(_) | Change::PodPool(_) => true,
            Change::Port(_) => false,
        };
        self == VersionRules::Unknown && depends
    }
}
