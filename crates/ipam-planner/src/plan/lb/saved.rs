//! LoadBalancer pools and Services as a saved plan names them: whether the cluster shows a change,
//! and whether the object is gone.

use std::collections::BTreeMap;

use super::super::document::{ChangeDocument, EditDocument};
use super::hidden;
use ipam_cilium::lbipam::{ADDRESSES, AddressPoolManifest, LbRules};
use ipam_cilium::observed::{Observed, ObservedKind, SeenAddressPool};
use ipam_core::model::ServiceName;
use ipam_core::net::Address;

type Value = Option<String>;

/// The one annotation of an edit and of its undo, if it is an annotation that asks for addresses.
fn one_annotation(
    from: &BTreeMap<String, Value>,
    to: &BTreeMap<String, Value>,
) -> Option<(&'static str, Value, Value)> {
    let ([(key, before)], [(same, after)]) = (
        &from.iter().collect::<Vec<_>>()[..],
        &to.iter().collect::<Vec<_>>()[..],
    ) else {
        return None;
    };
    let known = ADDRESSES
        .into_iter()
        .find(|known| known == key && known == same)?;
    let is_address = |text: &str| text.trim().parse::<Address>().is_ok();
    let is_readable = |value: &Value| {
        value
            .as_ref()
            .is_none_or(|value| value.split(',').all(is_address))
    };
    if !is_readable(after) {
        return None;
    }
    Some((known, (*before).clone(), (*after).clone()))
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
            let service = saved
                .name
                .parse::<ServiceName>()
                .ok()
                .and_then(|name| observed.services.get(&name));
            let Some(service) = service.filter(|service| service.version.uid == saved.guard.uid)
            else {
                return false;
            };
            let Some((key, after, _)) = one_annotation(to, from) else {
                return false;
            };
            service.addresses.get(ADDRESSES, key) == after.as_ref()
        }
        _ => false,
    }
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
    let service = || {
        saved
            .name
            .parse::<ServiceName>()
            .ok()
            .and_then(|name| observed.services.get(&name))
    };
    match saved.kind.as_str() {
        "Service" => service().is_none_or(|service| service.version.uid != saved.guard.uid),
        _ => !observed.address_pools.contains_key(&saved.name),
    }
}
