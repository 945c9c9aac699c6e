//! Undo of changes of pools and pins.

use std::collections::BTreeMap;

use super::super::blocked::{Blocked, UndoObstacle};
use super::super::change::{Change, Target};
use super::super::document::{ChangeDocument, EditDocument, PlanDocument};
use super::address_pools::Users;
use super::change::{AddressPoolChange, PoolAction, ServiceAction, ServiceChange};
use super::obstacle::LbObstacle;
use super::simulate::Simulation;
use super::{Effects, blocked, effects, hidden};
use ipam_cilium::lbipam::{
    ADDRESSES, AddressBlock, AddressPoolApi, AddressPoolManifest, LbRules, NotRead, Translation,
};
use ipam_cilium::observed::{Observed, ObservedKind, SeenAddressPool};
use ipam_core::model::{AddressPoolName, Hazard, ServiceName};
use ipam_core::net::Address;
use ipam_desired::Desired;

/// The hazard of an undo, when it is planned and when it is applied. It is the worst case, so that
/// addresses that Services get in between do not make the plan stale.
fn hazard(before: Option<&AddressPoolManifest>) -> Hazard {
    before.map_or(Hazard::None, |_| Hazard::Destructive)
}

/// The change that undoes this one.
pub(crate) fn inverted(change: &Change) -> Option<Change> {
    match change {
        Change::PodPool(_) | Change::Port(_) | Change::Node(_) => None,
        Change::AddressPool(change) => Some(Change::AddressPool(Box::new(AddressPoolChange {
            action: action(change.after.as_ref(), change.before.as_ref()),
            before: change.after.clone(),
            after: change.before.clone(),
            translation: Translation::None,
            hazard: hazard(change.after.as_ref()),
            origin: None,
            ..(**change).clone()
        }))),
        Change::Service(change) => Some(Change::Service(ServiceChange {
            action: ServiceAction::Restore,
            before: change.after.clone(),
            after: change.before.clone(),
            hazard: Hazard::Destructive,
            origin: None,
            ..change.clone()
        })),
    }
}

fn action(before: Option<&AddressPoolManifest>, after: Option<&AddressPoolManifest>) -> PoolAction {
    match (before, after) {
        (None, _) => PoolAction::Create,
        (_, None) => PoolAction::Delete,
        _ => PoolAction::Restore,
    }
}

/// The observed state after these changes.
pub(crate) fn after<'c>(
    changes: impl IntoIterator<Item = &'c Change>,
    observed: &Observed,
) -> Observed {
    let simulation = Simulation::after(observed, changes);
    let state = simulation.state().clone();
    Observed {
        address_pools: state.pools,
        services: state.services,
        ..observed.clone()
    }
}

/// The pools and pins of an undo plan that still show the applied values.
///
/// One blocked pool holds up the others: two pools could come to have the same addresses.
pub(crate) fn undone(
    saved: &PlanDocument,
    desired: &Desired,
    observed: &Observed,
) -> (Vec<Change>, Vec<Blocked>, Effects) {
    let claims = observed.live_claims(desired.policy.quarantine);
    let planner = UndoPlanner {
        observed,
        rules: observed.lb_rules(),
        users: Users::new(desired, observed, &claims),
    };
    let (mut changes, mut blocked) = (Vec::new(), Vec::new());
    for wanted in &saved.changes {
        let outcome = match (&wanted.edit, wanted.undo.as_ref()) {
            (EditDocument::AddressPool(to), Some(EditDocument::AddressPool(from))) => {
                planner.pool(wanted, from.as_ref(), to.as_ref())
            }
            (EditDocument::Annotations(to), Some(EditDocument::Annotations(from)))
                if wanted.kind == "Service" =>
            {
                planner
                    .service(wanted, from, to)
                    .map(Change::Service)
                    .map(Ok)
            }
            _ => None,
        };
        match outcome {
            Some(Ok(change)) => changes.push(change),
            Some(Err(reason)) => blocked.push(reason),
            None => {}
        }
    }
    if let Some(first) = blocked.first() {
        let first = first.target.clone();
        let reason = || UndoObstacle::WaitsFor(Box::new(first.clone())).into();
        blocked.extend(changes.iter().map(|change| Blocked {
            target: change.target(),
            reason: reason(),
            origin: None,
        }));
        return (Vec::new(), blocked, Effects::default());
    }
    let effects = effects(&changes, observed);
    (changes, blocked, effects)
}

struct UndoPlanner<'u> {
    observed: &'u Observed,
    rules: LbRules,
    users: Users,
}

/// A pool as it is written.
struct Written {
    api: AddressPoolApi,
    after: Option<AddressPoolManifest>,
    translation: Translation,
}

impl UndoPlanner<'_> {
    fn pool(
        &self,
        wanted: &ChangeDocument,
        from: Option<&AddressPoolManifest>,
        to: Option<&AddressPoolManifest>,
    ) -> Option<Result<Change, Blocked>> {
        let name: AddressPoolName = wanted.name.parse().ok()?;
        let seen = self.observed.address_pools.get(name.as_str());
        let is_readable = |manifest: &AddressPoolManifest| {
            manifest
                .spec
                .cidrs
                .iter()
                .chain(&manifest.spec.blocks)
                .all(|block: &AddressBlock| block.range().is_some())
        };
        // The file is not trusted: foreign pools are not touched, and a created pool is ours.
        let is_ours = match seen {
            Some(seen) => seen.is_ours(),
            None => to.is_some_and(AddressPoolManifest::is_ours),
        };
        if !is_ours || !to.is_none_or(is_readable) || !is(seen, from, to, &self.rules) {
            return None;
        }
        let written = match self.written(to, seen) {
            Ok(written) if is(seen, written.after.as_ref(), from, &self.rules) => return None,
            Ok(written) => written,
            Err(obstacle) => return Some(Err(blocked(Target::AddressPool(name), obstacle, None))),
        };
        let Written {
            api,
            after,
            translation,
        } = written;
        Some(Ok(Change::AddressPool(Box::new(AddressPoolChange {
            action: action(from, to),
            name,
            api,
            before: from.cloned(),
            after,
            translation,
            author: None,
            hazard: hazard(from),
            guard: seen.map(|seen| seen.version.clone()).unwrap_or_default(),
            origin: None,
        }))))
    }

    /// The pool as the running Cilium reads it, or why it must not be written.
    fn written(
        &self,
        to: Option<&AddressPoolManifest>,
        seen: Option<&SeenAddressPool>,
    ) -> Result<Written, LbObstacle> {
        let (after, translation) = match to {
            None => (None, Translation::None),
            Some(to) => {
                let (after, translation) =
                    readable(to, &self.rules).map_err(LbObstacle::NotRead)?;
                self.users.refuse(&after, seen)?;
                (Some(after), translation)
            }
        };
        self.unreachable().map_or(Ok(()), Err)?;
        let api = self
            .observed
            .address_pool_api()
            .ok_or(LbObstacle::NotServed)?;
        Ok(Written {
            api,
            after,
            translation,
        })
    }

    fn unreachable(&self) -> Option<LbObstacle> {
        hidden(self.observed, ObservedKind::LoadBalancerPool)
            .map(|why| LbObstacle::PoolsHidden(why.to_owned()))
    }

    fn service(
        &self,
        wanted: &ChangeDocument,
        from: &BTreeMap<String, Option<String>>,
        to: &BTreeMap<String, Option<String>>,
    ) -> Option<ServiceChange> {
        let name: ServiceName = wanted.name.parse().ok()?;
        let service = self.observed.services.get(&name)?;
        let (key, before, after) = one_annotation(from, to)?;
        let shown = service.addresses.get(ADDRESSES, key).cloned();
        if service.version.uid != wanted.guard.uid || shown != before || before == after {
            return None;
        }
        Some(ServiceChange {
            action: ServiceAction::Restore,
            service: name,
            key,
            before,
            after,
            hazard: Hazard::Destructive,
            guard: service.version.clone(),
            origin: None,
        })
    }
}

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

/// A manifest with its ranges in fields that the running Cilium reads.
fn readable(
    manifest: &AddressPoolManifest,
    rules: &LbRules,
) -> Result<(AddressPoolManifest, Translation), NotRead> {
    let (spec, translation) = manifest.spec.readable(rules)?;
    Ok((
        AddressPoolManifest {
            spec,
            ..manifest.clone()
        },
        translation,
    ))
}

/// A change of an undo plan as the running Cilium needs it: a pool in the API version that is
/// served now, with its ranges in fields that are read now. An upgrade in between changes how a
/// pool is written, and not what it gives.
pub(crate) fn as_written_now(saved: &ChangeDocument, observed: &Observed) -> ChangeDocument {
    let mut now = saved.clone();
    if let (EditDocument::AddressPool(to), Some(api)) = (&mut now.edit, observed.address_pool_api())
    {
        api.as_str().clone_into(&mut now.write_path);
        let readable = to
            .as_ref()
            .and_then(|to| readable(to, &observed.lb_rules()).ok());
        *to = readable.map(|(to, _)| to).or(to.take());
    }
    now
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

/// Whether the pool must exist after a change, so that an absent pool does not settle the change.
pub(crate) fn wants_pool(saved: &ChangeDocument) -> bool {
    matches!(saved.edit, EditDocument::AddressPool(Some(_)))
}

/// Whether a change creates a pool, so that the pool's absence is what it needs.
pub(crate) fn creates(saved: &ChangeDocument) -> bool {
    wants_pool(saved) && !matches!(saved.undo, Some(EditDocument::AddressPool(Some(_))))
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
