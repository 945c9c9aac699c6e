//! Pins that no file has any more: the annotation goes if we wrote it.
//!
//! Never takes away a request that others wrote, and knows nothing of files.

use super::super::change::Change;
use super::change::{ServiceAction, ServiceChange};
use ipam_cilium::lbipam::{ADDRESSES, LbService};
use ipam_cilium::observed::Observed;
use ipam_core::model::Hazard;
use ipam_desired::Desired;

pub(super) fn decide(desired: &Desired, observed: &Observed) -> Vec<Change> {
    let unpinned = observed
        .services
        .values()
        .filter(|service| !desired.service_pins.contains_key(&service.name));
    unpinned
        .filter_map(|service| Some(Change::Service(release(service)?)))
        .collect()
}

/// The newer key hides the older one, so the older one goes first: nothing comes to light.
fn release(service: &LbService) -> Option<ServiceChange> {
    let is_ours = |key: &&'static str| {
        service.our_requests.contains(key) && service.addresses.get(ADDRESSES, key).is_some()
    };
    let key = ADDRESSES.into_iter().rev().find(is_ours)?;
    service.version.is_known().then(|| ServiceChange {
        action: ServiceAction::Release,
        service: service.name.clone(),
        key,
        before: service.addresses.get(ADDRESSES, key).cloned(),
        after: None,
        hazard: Hazard::None,
        guard: service.version.clone(),
        origin: None,
    })
}
