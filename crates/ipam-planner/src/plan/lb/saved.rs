//! LoadBalancer pools and Services as a saved plan names them: whether the cluster shows a change,
//! and whether the object is gone.

use std::collections::BTreeMap;

use super::super::document::{ChangeDocument, EditDocument};
use super::hidden;
use ipam_cilium::lbipam::{ADDRESSES, AddressPoolManifest, LbRules, LbService};
use ipam_cilium::observed::{Observed, ObservedKind, SeenAddressPool};
use ipam_core::model::ServiceName;
use ipam_core::net::Address;

type Value = Option<String>;

/// The one annotation of an edit with its value, if it asks for addresses, and if the earlier value
/// does too.
fn one_annotation<'e>(
    edit: &'e BTreeMap<String, Value>,
    undo: &BTreeMap<String, Value>,
) -> Option<(&'static str, &'e Value)> {
    let ([(key, value)], [(same, earlier)]) = (
        &edit.iter().collect::<Vec<_>>()[..],
        &undo.iter().collect::<Vec<_>>()[..],
    ) else {
        return None;
    };
    let known = ADDRESSES
        .into_iter()
        .find(|known| known == key && known == same)?;
    let is_address = |text: &str| text.trim().parse::<Address>().is_ok();
    earlier
        .as_ref()
        .is_none_or(|earlier| earlier.split(',').all(is_address))
        .then_some((known, *value))
}

/// Whether a pool shows `shown`, and not `other`, in everything in which the two differ.
fn is(
    seen: Option<&SeenAddressPool>,
    shown: Option<&AddressPoolManifest>,
    other: Option<&AddressPoolManifest>,
    rules: &LbRules,
) -> bool {
    let (Some(seen), Some(shown)) = (seen, shown) else {
        return seen.is_none() && shown.is_none();
    };
    let seen = &seen.manifest;
    let nothing = AddressPoolManifest::default();
    let other = other.unwrap_or(&nothing);
    let same = |seen: &BTreeMap<String, String>,
                shown: &BTreeMap<String, String>,
                other: &BTreeMap<String, String>| {
        shown
            .keys()
            .chain(other.keys())
            .all(|key| seen.get(key) == shown.get(key))
    };
    same(&seen.labels, &shown.labels, &other.labels)
        && same(&seen.annotations, &shown.annotations, &other.annotations)
        && seen.spec.means_the_same(&shown.spec, rules)
}

/// Whether the cluster shows the planned value.
pub(crate) fn shows(observed: &Observed, saved: &ChangeDocument) -> bool {
    if unseen(observed, saved).is_some() {
        return false;
    }
    match (&saved.edit, saved.undo.as_ref()) {
        (EditDocument::AddressPool(to), Some(EditDocument::AddressPool(from))) => {
            let seen = observed.address_pools.get(&saved.name);
            is(seen, to.as_ref(), from.as_ref(), &observed.lb_rules())
        }
        (EditDocument::Annotations(to), Some(EditDocument::Annotations(from))) => {
            let Some(service) = service(observed, saved) else {
                return false;
            };
            let annotation = one_annotation(to, from);
            annotation
                .is_some_and(|(key, value)| service.addresses.get(ADDRESSES, key) == value.as_ref())
        }
        _ => false,
    }
}

/// The Service of a change, if it was not created again since.
fn service<'o>(observed: &'o Observed, saved: &ChangeDocument) -> Option<&'o LbService> {
    let name: ServiceName = saved.name.parse().ok()?;
    let service = observed.services.get(&name)?;
    (service.version.uid == saved.guard.uid).then_some(service)
}

/// Why the object of a change cannot be read: then it is unknown whether it exists.
pub(crate) fn unseen(observed: &Observed, saved: &ChangeDocument) -> Option<String> {
    let kind = match saved.kind.as_str() {
        "Service" => ObservedKind::Service,
        "CiliumLoadBalancerIPPool" => ObservedKind::LoadBalancerPool,
        _ => return None,
    };
    hidden(observed, kind)
        .map(|why| format!("{} cannot be read: {}", kind.resource(), why.escape_debug()))
}

/// Whether a change creates a pool, so that the pool's absence is what it needs.
pub(crate) fn creates(saved: &ChangeDocument) -> bool {
    matches!(saved.edit, EditDocument::AddressPool(Some(_)))
        && !matches!(saved.undo, Some(EditDocument::AddressPool(Some(_))))
}

/// Whether the object that a change needs does not exist any more.
pub(crate) fn is_gone(observed: &Observed, saved: &ChangeDocument) -> bool {
    if unseen(observed, saved).is_some() || creates(saved) {
        return false;
    }
    match saved.kind.as_str() {
        "Service" => service(observed, saved).is_none(),
        _ => !observed.address_pools.contains_key(&saved.name),
    }
}
