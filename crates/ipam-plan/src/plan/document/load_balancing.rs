//! The part of a plan's JSON that is about LoadBalancer pools and Services.

use serde::{Deserialize, Serialize};

use super::{ChangeDocument, EditDocument, OriginDocument};
use crate::plan::Plan;
use crate::plan::change::{Change, ChangeAction, Target, TargetKind};
use crate::plan::lb::{Effects, ServiceChange};
use crate::plan::owned::PoolAction;
use ipam_cilium::lbipam::Certainty;
use ipam_core::model::grouped_digits;

/// Counts of pools and Services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LbSummary {
    /// Pools that are created.
    pub create: usize,
    /// Pools that are changed.
    pub update: usize,
    /// Pools that become ours.
    pub adopt: usize,
    /// Pools that are deleted.
    pub delete: usize,
    /// Services that will ask for other addresses.
    pub pin: usize,
    /// Pools and pins that need no change.
    pub unchanged: usize,
    /// Addresses that Services lose, or may lose, now or later.
    pub lost_addresses: usize,
    /// Those of `lost_addresses` that Services may also keep.
    pub uncertain_losses: usize,
}

impl LbSummary {
    pub(in crate::plan) fn new(plan: &Plan) -> LbSummary {
        let count = |action: PoolAction| {
            plan.count(
                |change| matches!(change, Change::AddressPool(pool) if pool.action == action),
            )
        };
        LbSummary {
            create: count(PoolAction::Create),
            update: count(PoolAction::Update),
            adopt: count(PoolAction::Adopt),
            delete: count(PoolAction::Delete),
            pin: plan.count(|change| matches!(change, Change::Service(_))),
            unchanged: plan
                .unchanged
                .iter()
                .filter(|target| matches!(target, Target::AddressPool(_) | Target::Service(_)))
                .count(),
            lost_addresses: plan.effects.lost().count(),
            uncertain_losses: uncertain(&plan.effects),
        }
    }

    /// `2 addresses are lost, 1 may be lost`; `None` without any.
    pub fn losses_in_words(&self, losing: Losing) -> Option<String> {
        let possible = self.uncertain_losses.min(self.lost_addresses);
        lost_in_words(self.lost_addresses - possible, possible, losing)
    }

    /// Number of pools and pins that change.
    pub fn changes(&self) -> usize {
        self.create + self.update + self.adopt + self.delete + self.pin
    }

    /// Whether no pool and no pin would change.
    pub fn changes_nothing(&self) -> bool {
        self.changes() == 0
    }
}

/// Whether an apply makes the losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losing {
    Planned,
    /// The plan is refused.
    Refused,
}

fn uncertain(effects: &Effects) -> usize {
    let possible = effects
        .lost()
        .filter(|(_, lost)| lost.certainty == Certainty::LeftToChance);
    possible.count()
}

/// `2 addresses are lost, 1 may be lost`; `None` without any.
fn lost_in_words(certain: usize, possible: usize, losing: Losing) -> Option<String> {
    let (is, are, may) = match losing {
        Losing::Planned => ("is lost", "are lost", "may be lost"),
        Losing::Refused => ("would be lost", "would be lost", "might be lost"),
    };
    let addresses = |number: usize| match number {
        1 => "1 address".to_owned(),
        several => format!("{} addresses", grouped_digits(several)),
    };
    let verb = if certain == 1 { is } else { are };
    let parts = match (certain, possible) {
        (0, 0) => return None,
        (0, _) => format!("{} {may}", addresses(possible)),
        (_, 0) => format!("{} {verb}", addresses(certain)),
        _ => {
            let possible = grouped_digits(possible);
            format!("{} {verb}, {possible} {may}", addresses(certain))
        }
    };
    Some(parts)
}

impl From<&ServiceChange> for ChangeDocument {
    fn from(change: &ServiceChange) -> ChangeDocument {
        let ServiceChange {
            service,
            key,
            before,
            after,
            hazard,
            guard,
            origin,
        } = change;
        let listed = |value: &Option<String>| -> Vec<String> {
            value
                .iter()
                .flat_map(|value| value.split(','))
                .map(|text| text.trim().to_owned())
                .collect()
        };
        let edit = |value: &Option<String>| {
            EditDocument::Annotations([((*key).to_owned(), value.clone())].into())
        };
        ChangeDocument {
            action: ChangeAction::Pin,
            kind: TargetKind::Service,
            name: service.to_string(),
            write_path: (*key).to_owned(),
            before: listed(before),
            after: listed(after),
            pool: None,
            failure_domain: None,
            reason: match origin {
                Some(origin) => format!("pinned by {origin}"),
                None => "pinned".to_owned(),
            },
            hazard: *hazard,
            edit: edit(after),
            undo: Some(edit(before)),
            guard: guard.clone(),
            origin: origin.as_ref().map(OriginDocument::from),
            needs_approval: Vec::new(),
        }
    }
}
