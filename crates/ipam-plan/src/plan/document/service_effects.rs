//! The effects of a plan on Services, as a document, each lost address with the change that takes it.
//! Decides nothing.

use serde::{Deserialize, Serialize};

use crate::plan::change::Change;
use crate::plan::lb::{AddressPoolChange, LossTime, LostAddress, ServiceEffect};
use ipam_cilium::lbipam::{AddressPoolManifest, Certainty, LossReason, Prospect};
use ipam_core::model::ServiceName;
use ipam_core::net::{Range, RangeIndex};

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
    pub certainty: Certainty,
}

/// An address that a Service loses, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostAddressDocument {
    /// The address.
    pub address: String,
    /// `now`, `operator-restart` or `upgrade`.
    pub when: LossTime,
    /// `certain` or `possible`.
    pub certainty: Certainty,
    /// Why, for people.
    pub reason: String,
    /// The object whose change takes it, as `KIND/NAME`; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl ServiceEffectDocument {
    /// Each lost address: namespace and name of the Service, address, and time of the loss.
    pub fn lost(&self) -> impl Iterator<Item = (&str, &str, &str, &str)> {
        let (namespace, name) = (&*self.namespace, &*self.name);
        let lost = self.loses.iter();
        lost.map(move |lost| (namespace, name, &*lost.address, lost.when.as_str()))
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
            certainty: (effect.gains.iter())
                .map(|gain| gain.certainty)
                .max()
                .unwrap_or_default(),
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
            when: *when,
            certainty: *certainty,
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
        let is_pin =
            |change: &&Change| matches!(change, Change::Service(pin) if pin.service == *service);
        if lost.why == LossReason::NotRequested {
            return self.changes.iter().find(is_pin);
        }
        let Some(address) = lost.address.ip().map(Range::from) else {
            return self.changes.iter().find(|change| makes_pool(change));
        };
        let had = self.ranges.overlapping(&address);
        let had = had.filter_map(|(_, place)| self.changes.get(*place));
        had.min_by_key(|change| covers_after(change, &address))
    }
}

/// Whether the change makes a pool that did not exist, such as the first one.
fn makes_pool(change: &Change) -> bool {
    as_pool(change).is_some_and(|pool| pool.before.is_none() && pool.after.is_some())
}

/// The range of a pool that has the address.
fn covering(manifest: Option<&AddressPoolManifest>, address: &Range) -> Option<Range> {
    let mut ranges = manifest?.spec.ranges();
    ranges.find(|range| range.contains(address))
}

/// Whether the pool still has the address after the change.
fn covers_after(change: &Change, address: &Range) -> bool {
    let after = as_pool(change).and_then(|pool| pool.after.as_ref());
    covering(after, address).is_some()
}

impl LostAddress {
    /// Whether the pool keeps the address, in a block that changes.
    fn is_given_anew_by(&self, change: &Change) -> bool {
        let Some(AddressPoolChange { before, after, .. }) = as_pool(change) else {
            return false;
        };
        let Some(address) = self.address.ip().map(Range::from) else {
            return false;
        };
        let (before, after) = (
            covering(before.as_ref(), &address),
            covering(after.as_ref(), &address),
        );
        let is_waiting = self.why == LossReason::Waiting && self.when == LossTime::Now;
        is_waiting && after.is_some() && before != after
    }
}

fn as_pool(change: &Change) -> Option<&AddressPoolChange> {
    match change {
        Change::AddressPool(pool) => Some(pool),
        Change::Service(_) | Change::PodPool(_) | Change::Port(_) | Change::Node(_) => None,
    }
}
