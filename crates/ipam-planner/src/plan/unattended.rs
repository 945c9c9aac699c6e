//! Which changes of a plan may be applied unattended, and which wait for a person.

use std::collections::BTreeSet;

use super::change::{Change, Sequence};
use super::refusals::{Refusal, refusals};
use super::{Plan, effects};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Hazard, Waiver};
use ipam_desired::{Activity, Desired};

/// The changes of a plan, divided into those that are applied and those that wait.
#[derive(Clone, Debug, Default)]
pub struct Unattended {
    /// Changes to apply, in the order of the plan.
    pub applied: Vec<Change>,
    /// Changes that wait for a person: their hazard exceeds the Policy, a block needs approval, or
    /// they depend on a change that waits.
    pub waiting: Vec<Change>,
    /// Refusals of the changes that would be applied. Then only blocks of new nodes are applied, if
    /// they are not refused too.
    pub refusals: Vec<Refusal>,
}

/// Divides a plan that was made from these inputs.
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
    let (mut applied, mut waiting) = harmless(&plan.changes, desired.policy.unattended);
    let refusals = match waiting.is_empty() {
        // The plan was judged with just these changes.
        true => plan.unwaived(waivers).cloned().collect(),
        false => against(&applied),
    };
    if !refusals.is_empty() {
        let (new, rest): (Vec<Change>, Vec<Change>) =
            applied.into_iter().partition(Change::gives_to_a_new_node);
        waiting.extend(rest);
        applied = if new.is_empty() || against(&new).is_empty() {
            new
        } else {
            waiting.extend(new);
            Vec::new()
        };
    }
    Unattended {
        applied,
        waiting,
        refusals,
    }
}

fn harmless(changes: &[Change], worst: Hazard) -> (Vec<Change>, Vec<Change>) {
    let (mut applied, mut waiting) = (Vec::new(), Vec::new());
    let mut is_held_back = false;
    for change in changes {
        let in_order = change.sequence() == Sequence::AfterThoseBefore;
        let must_wait = change.hazard() > worst || !change.needs_approval().is_empty();
        if must_wait || (in_order && is_held_back) {
            is_held_back |= in_order;
            applied.extend(harmless_part(change, worst));
            waiting.push(change.clone());
        } else {
            applied.push(change.clone());
        }
    }
    (applied, waiting)
}

/// The additions of a port whose removals wait: without them, Pods have no network.
fn harmless_part(change: &Change, worst: Hazard) -> Option<Change> {
    let additions = change.as_port()?.additions()?;
    (additions.hazard() <= worst).then(|| Change::Port(Box::new(additions)))
}
