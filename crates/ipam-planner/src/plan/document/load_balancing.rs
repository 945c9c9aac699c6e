//! The part of a plan's JSON that is about LoadBalancer pools and Services.

use serde::{Deserialize, Serialize};

use super::{ChangeDocument, EditDocument, GuardDocument, OriginDocument};
use crate::plan::Plan;
use crate::plan::change::{Change, Target};
use crate::plan::lb::{
    AddressPoolChange, Effects, LostAddress, PoolAction, ServiceAction, ServiceChange,
    ServiceEffect,
};
use ipam_cilium::lbipam::{
    AddressBlock, AddressPoolManifest, Certainty, LossReason, Prospect, Translation,
};
use ipam_cilium::observed::FIELD_MANAGER;
use ipam_core::model::{ServiceName, grouped_digits};
use ipam_core::net::{Range, RangeIndex};

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
    #[serde(default)]
    pub uncertain_losses: usize,
}

impl LbSummary {
    pub(in crate::plan) fn new(plan: &Plan) -> LbSummary {
        let count = |wanted: &[PoolAction]| {
            let of = |change: &&Change| matches!(change, Change::AddressPool(pool) if wanted.contains(&pool.action));
            plan.changes.iter().filter(of).count()
        };
        LbSummary {
            create: count(&[PoolAction::Create]),
            update: count(&[PoolAction::Update, PoolAction::Restore]),
            adopt: count(&[PoolAction::Adopt]),
            delete: count(&[PoolAction::Delete]),
            pin: plan
                .changes
                .iter()
                .filter(|change| matches!(change, Change::Service(_)))
                .count(),
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
    pub fn losses_in_words(&self) -> Option<String> {
        let possible = self.uncertain_losses.min(self.lost_addresses);
        lost_in_words(self.lost_addresses - possible, possible)
    }

    /// Whether no pool and no pin would change.
    pub fn changes_nothing(&self) -> bool {
        self.create + self.update + self.adopt + self.delete + self.pin == 0
    }
}

fn uncertain(effects: &Effects) -> usize {
    let possible = effects
        .lost()
        .filter(|(_, lost)| lost.certainty == Certainty::LeftToChance);
    possible.count()
}

/// `2 addresses are lost, 1 may be lost`; `None` without any.
fn lost_in_words(certain: usize, possible: usize) -> Option<String> {
    let certain = match certain {
        0 => None,
        1 => Some("1 address is lost".to_owned()),
        several => Some(format!("{} addresses are lost", grouped_digits(several))),
    };
    let possible = match (possible, &certain) {
        (0, _) => None,
        (several, Some(_)) => Some(format!("{} may be lost", grouped_digits(several))),
        (1, None) => Some("1 address may be lost".to_owned()),
        (several, None) => Some(format!("{} addresses may be lost", grouped_digits(several))),
    };
    let parts: Vec<String> = certain.into_iter().chain(possible).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The effects on one Service, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceEffectDocument {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Addresses that it loses, or may lose.
    pub loses: Vec<LostAddressDocument>,
    /// Addresses that it gets, or may get, in words.
    pub gains: Vec<String>,
    /// Cilium's reasons why it then waits for an address.
    pub pending: Vec<String>,
    /// `certain`, or `possible` if another Service may get one of the addresses.
    #[serde(default = "certain")]
    pub certainty: String,
}

fn certain() -> String {
    in_words(Certainty::Certain).to_owned()
}

fn in_words(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Certain => "certain",
        Certainty::LeftToChance => "possible",
    }
}

/// An address that a Service loses, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostAddressDocument {
    /// The address.
    pub address: String,
    /// `now`, `operator-restart` or `upgrade`.
    pub when: String,
    /// `certain` or `possible`.
    pub certainty: String,
    /// Why, for people.
    pub reason: String,
    /// The object whose change takes it, as `KIND/NAME`; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl ServiceEffectDocument {
    /// Each lost address, with its Service and the time.
    pub fn lost(&self) -> impl Iterator<Item = (&str, &str, &str, &str)> {
        self.loses
            .iter()
            .map(|lost| (&*self.namespace, &*self.name, &*lost.address, &*lost.when))
    }
}

impl From<&ServiceEffect> for ServiceEffectDocument {
    fn from(effect: &ServiceEffect) -> ServiceEffectDocument {
        ServiceEffectDocument {
            namespace: effect.service.namespace().to_owned(),
            name: effect.service.name().to_owned(),
            loses: effect.loses.iter().map(LostAddressDocument::from).collect(),
            gains: effect.gains.iter().map(Prospect::to_string).collect(),
            pending: {
                let mut reasons: Vec<String> = effect
                    .pending
                    .iter()
                    .map(|why| why.reason().to_owned())
                    .collect();
                reasons.dedup();
                reasons
            },
            certainty: {
                let all = effect.gains.iter().map(|gain| gain.certainty);
                in_words(all.max().unwrap_or(Certainty::Certain)).to_owned()
            },
        }
    }
}

impl From<&LostAddress> for LostAddressDocument {
    fn from(lost: &LostAddress) -> LostAddressDocument {
        let LostAddress {
            address,
            when,
            why,
            certainty,
        } = lost;
        LostAddressDocument {
            address: address.to_string(),
            when: when.as_str().to_owned(),
            certainty: in_words(*certainty).to_owned(),
            reason: match certainty {
                Certainty::Certain => why.to_string(),
                Certainty::LeftToChance => possible_reason(*why),
            },
            cause: None,
        }
    }
}

fn possible_reason(why: LossReason) -> String {
    match why {
        LossReason::BlockEdited => {
            format!("{why}, so another Service may get it first")
        }
        _ => "another Service may get it first".to_owned(),
    }
}

/// The effects on Services, each lost address with the change that takes it.
pub(in crate::plan) fn service_effects(
    effects: &[ServiceEffect],
    changes: &[Change],
) -> Vec<ServiceEffectDocument> {
    let causes = LossCauses::new(changes);
    let document = |effect: &ServiceEffect| {
        let mut document = ServiceEffectDocument::from(effect);
        for (lost, shown) in effect.loses.iter().zip(&mut document.loses) {
            let cause = causes.of(&effect.service, lost);
            if cause.is_some_and(|change| lost.is_given_anew_by(change)) {
                shown.reason = possible_reason(LossReason::BlockEdited);
            }
            shown.cause = cause.map(|change| change.target().to_string());
        }
        document
    };
    effects.iter().map(document).collect()
}

/// The changes that may take addresses.
struct LossCauses<'c> {
    changes: &'c [Change],
    /// Ranges that pools have before their change, with the place of the change.
    ranges: RangeIndex<usize>,
}

impl<'c> LossCauses<'c> {
    fn new(changes: &'c [Change]) -> LossCauses<'c> {
        let of_change = |(place, change): (usize, &'c Change)| {
            let before = as_pool(change).and_then(|pool| pool.before.as_ref());
            let ranges = before.into_iter().flat_map(|before| before.spec.ranges());
            ranges.map(move |range| (range, place))
        };
        LossCauses {
            changes,
            ranges: RangeIndex::new(changes.iter().enumerate().flat_map(of_change)),
        }
    }

    /// The pin of the Service if it no longer requests the address; otherwise the pool that had it.
    fn of(&self, service: &ServiceName, lost: &LostAddress) -> Option<&'c Change> {
        let address = Range::from(lost.address);
        let is_pin =
            |change: &&Change| matches!(change, Change::Service(pin) if pin.service == *service);
        if lost.why == LossReason::NotRequested {
            return self.changes.iter().find(is_pin);
        }
        let had = self.ranges.overlapping(&address);
        let had = had.filter_map(|(_, place)| self.changes.get(*place));
        had.min_by_key(|change| covers_after(change, &address))
    }
}

/// Whether the change leaves the address in its pool.
fn covers_after(change: &Change, address: &Range) -> bool {
    let after = as_pool(change).and_then(|pool| pool.after.as_ref());
    after.is_some_and(|after| after.spec.ranges().any(|range| range.contains(address)))
}

impl LostAddress {
    /// Whether the pool keeps the address, in a block that changes.
    fn is_given_anew_by(&self, change: &Change) -> bool {
        self.why == LossReason::Waiting && covers_after(change, &Range::from(self.address))
    }
}

fn as_pool(change: &Change) -> Option<&AddressPoolChange> {
    match change {
        Change::AddressPool(pool) => Some(pool),
        Change::Service(_) | Change::PodPool(_) | Change::Port(_) | Change::Node(_) => None,
    }
}

fn ranges(manifest: Option<&AddressPoolManifest>) -> Vec<String> {
    let spec = manifest.map(|manifest| &manifest.spec);
    spec.into_iter()
        .flat_map(|spec| spec.cidrs.iter().chain(&spec.blocks))
        .map(AddressBlock::text)
        .collect()
}

impl From<&AddressPoolChange> for ChangeDocument {
    fn from(change: &AddressPoolChange) -> ChangeDocument {
        let AddressPoolChange {
            action,
            name,
            api,
            before,
            after,
            hazard,
            guard,
            origin,
            ..
        } = change;
        ChangeDocument {
            action: action.as_str().to_owned(),
            kind: Target::AddressPool(name.clone()).kind().to_owned(),
            name: name.to_string(),
            write_path: api.as_str().to_owned(),
            before: ranges(before.as_ref()),
            after: ranges(after.as_ref()),
            pool: None,
            failure_domain: None,
            reason: change.reason(),
            hazard: hazard.as_str().to_owned(),
            edit: EditDocument::AddressPool(after.clone()),
            undo: Some(EditDocument::AddressPool(before.clone())),
            guard: GuardDocument {
                uid: guard.uid.clone(),
                resource_version: guard.resource_version.clone(),
            },
            origin: origin.as_ref().map(OriginDocument::from),
            needs_approval: Vec::new(),
        }
    }
}

impl AddressPoolChange {
    /// Why the pool changes, with remarks on the translation.
    fn reason(&self) -> String {
        let why = match self.action {
            PoolAction::Create if self.origin.is_some() => {
                "in the files, and not in the cluster".to_owned()
            }
            PoolAction::Update => match self.author.as_ref() {
                Some((manager, time)) if manager != FIELD_MANAGER => {
                    format!("differs from the files; last written by {manager} at {time}")
                }
                _ => "differs from the files".to_owned(),
            },
            PoolAction::Adopt => "exists unmanaged in the cluster; apply will adopt it".to_owned(),
            PoolAction::Delete if self.origin.is_none() && self.after.is_none() => {
                "ours, and not in the files".to_owned()
            }
            PoolAction::Create | PoolAction::Restore | PoolAction::Disown | PoolAction::Delete => {
                "undoes an earlier apply".to_owned()
            }
        };
        why + match self.translation {
            Translation::None => "",
            Translation::CidrsToBlocks => {
                "; `cidrs` are written as `blocks`, which 1.15 and every later Cilium reads"
            }
            Translation::BlocksToCidrs => {
                "; `blocks` are written as `cidrs`, because this Cilium reads no `blocks`"
            }
        }
    }
}

impl From<&ServiceChange> for ChangeDocument {
    fn from(change: &ServiceChange) -> ChangeDocument {
        let ServiceChange {
            action,
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
            action: action.as_str().to_owned(),
            kind: Target::Service(service.clone()).kind().to_owned(),
            name: service.to_string(),
            write_path: (*key).to_owned(),
            before: listed(before),
            after: listed(after),
            pool: None,
            failure_domain: None,
            reason: match (action, origin) {
                (ServiceAction::Pin, Some(origin)) => format!("pinned by {origin}"),
                (ServiceAction::Pin, None) => "pinned".to_owned(),
                (ServiceAction::Restore, _) => "undoes an earlier apply".to_owned(),
            },
            hazard: hazard.as_str().to_owned(),
            edit: edit(after),
            undo: Some(edit(before)),
            guard: GuardDocument {
                uid: guard.uid.clone(),
                resource_version: guard.resource_version.clone(),
            },
            origin: origin.as_ref().map(OriginDocument::from),
            needs_approval: Vec::new(),
        }
    }
}
