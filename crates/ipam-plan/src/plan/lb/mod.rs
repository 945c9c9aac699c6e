//! LoadBalancer pools and pins of Services: the changes, their effects on each Service, and blocked
//! changes.
//!
//! Changes are simulated and sent in the same order. Pins of Services without an address come
//! first, so that Cilium gives no address that changes at once. Changed and deleted pools follow,
//! then created pools, then the other pins, then pins that go. The simulation never predicts an address that Cilium is
//! free to pick.
//!
//! Changes of LoadBalancer pools, and of what Services ask for.
//!
//! LoadBalancer pools and Services as a saved plan names them: whether the cluster shows a change,
//! and whether the object is gone.

mod address_pools;
mod choice;
mod obstacle;
mod outlook;
mod refusals;
mod service_pins;
mod simulate;
mod simulated_state;

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Plan;
use super::change::{Change, Target, TargetKind};
use super::document::{ChangeDocument, EditDocument};
use super::owned::{Owned, OwnedChange};
use ipam_cilium::lbipam::{
    ADDRESSES, AddressBlock, AddressPoolApi, AddressPoolManifest, AddressPoolSpec, Certainty,
    LbRules, LbService,
};
use ipam_cilium::observed::{Observed, ObservedKind, OperatorRun, SeenAddressPool};
use ipam_core::model::{
    AddressPoolName, Finding, Hazard, ObjectRef, ObjectVersion, Origin, Rule, ServiceName, Severity,
};
use ipam_core::net::Address;
use ipam_desired::Desired;

pub use obstacle::{AddressUser, LbObstacle};
pub use outlook::Outlook;
pub(crate) use outlook::at_start;
pub(super) use refusals::refusals;
pub use simulate::{Effects, LossTime, LostAddress, ServiceEffect, effects};

/// Plans LoadBalancer pools and Services alone.
pub(super) fn plan(desired: &Desired, observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    address_pools::decide(desired, observed, &mut plan);
    if !desired.service_pins.is_empty() {
        let pools = simulate::Simulation::after(observed, &plan.changes);
        service_pins::decide(desired, observed, pools.state(), &mut plan);
        let is_early = |change: &Change| match change {
            Change::Service(change) => observed
                .services
                .get(&change.service)
                .is_some_and(|s| s.ingress.is_empty()),
            Change::AddressPool(_) | Change::PodPool(_) | Change::Port(_) | Change::Node(_) => {
                false
            }
        };
        plan.changes.sort_by_key(|change| !is_early(change));
    }
    if plan.changes.is_empty() {
        return plan;
    }
    let mut simulation = simulate::Simulation::new(observed, &plan.changes);
    for change in &mut plan.changes {
        simulation.record_step(change);
    }
    plan.effects = simulation.finish();
    let loses = |effect: &ServiceEffect| !effect.loses.is_empty();
    let is_stopped = observed.operator_run() == OperatorRun::Stopped
        && hidden(observed, ObservedKind::Service).is_none();
    if is_stopped && !plan.effects.services.iter().any(loses) {
        // What the steps take away of a running operator, a stopped one never sees.
        plan.changes.iter_mut().for_each(clear_hazard);
    }
    plan.findings
        .extend(plan.effects.conflicts.iter().map(|(name, conflict)| {
            let origin = desired
                .address_pools
                .values()
                .find(|pool| pool.name.as_str() == name)
                .map(|pool| &pool.origin);
            conflict_finding(name, conflict, origin)
        }));
    plan
}

fn clear_hazard(change: &mut Change) {
    match change {
        Change::AddressPool(change) if change.hazard == Hazard::Destructive => {
            change.hazard = Hazard::None;
        }
        Change::Service(change) => change.hazard = Hazard::None,
        Change::AddressPool(_) | Change::PodPool(_) | Change::Port(_) | Change::Node(_) => {}
    }
}

fn conflict_finding(
    name: &str,
    conflict: &ipam_cilium::lbipam::Conflict,
    origin: Option<&Origin>,
) -> Finding {
    let other = if conflict.with == name {
        "itself".to_owned()
    } else {
        format!("`{}`", conflict.with.escape_debug())
    };
    let loser = match conflict.certainty {
        Certainty::Certain => format!("`{}`", name.escape_debug()),
        Certainty::LeftToChance => "one of the two, left to chance,".to_owned(),
    };
    let message = format!(
        "CiliumLoadBalancerIPPool `{}` would overlap {other} ({} and {}), and Cilium would put {loser} out of use",
        name.escape_debug(),
        conflict.range,
        conflict.with_range
    );
    let finding = Finding::new(Severity::Warning, Rule("address-pool-conflict"), message);
    let finding = finding
        .about(ObjectRef::address_pool(name))
        .help("remove the addresses from one of them first");
    match origin {
        Some(origin) => finding.at(origin, "would overlap"),
        None => finding,
    }
}

/// Why the server does not show a kind, in the server's words.
fn hidden(observed: &Observed, kind: ObservedKind) -> Option<&str> {
    observed.blind_spot(kind).map(|spot| spot.why.as_str())
}

/// One change of one `CiliumLoadBalancerIPPool`. Of labels and annotations, `before` has only those
/// that are written.
pub type AddressPoolChange = OwnedChange<AddressPoolObject>;

/// A `CiliumLoadBalancerIPPool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPoolObject {
    /// Version of the API in which the pool is written.
    pub api: AddressPoolApi,
    pub name: AddressPoolName,
}

impl Owned for AddressPoolObject {
    type Spec = AddressPoolManifest;

    fn target(&self) -> Target {
        Target::AddressPool(self.name.clone())
    }

    fn write_path(&self) -> String {
        self.api.to_string()
    }

    fn texts(manifest: &AddressPoolManifest) -> Vec<String> {
        let AddressPoolSpec { cidrs, blocks, .. } = &manifest.spec;
        let ranges = cidrs.iter().chain(blocks);
        ranges.map(AddressBlock::text).collect()
    }

    fn edit(manifest: Option<&AddressPoolManifest>) -> EditDocument {
        EditDocument::AddressPool(manifest.cloned())
    }
}

/// One change of one Service: the annotation by which it asks for the addresses of its pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceChange {
    pub service: ServiceName,
    /// Key of the annotation.
    pub key: &'static str,
    /// Value of the annotation now.
    pub before: Option<String>,
    /// Value of the annotation after the change.
    pub after: Option<String>,
    /// What the change means for workloads.
    pub hazard: Hazard,
    /// UID and resourceVersion of the observed Service, which guard the write.
    pub guard: ObjectVersion,
    /// Place of the pin in the files.
    pub origin: Option<Origin>,
}

/// Addresses as the annotation lists them: separated by commas.
pub(super) fn annotation_value(addresses: &[IpAddr]) -> String {
    addresses
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

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

/// Why the object of a change cannot be read, so that its existence is unknown.
pub(crate) fn unseen(observed: &Observed, saved: &ChangeDocument) -> Option<String> {
    let kind = match saved.kind {
        TargetKind::Service => ObservedKind::Service,
        TargetKind::AddressPool => ObservedKind::LoadBalancerPool,
        TargetKind::PodPool | TargetKind::NodeConfig | TargetKind::Port | TargetKind::Node => {
            return None;
        }
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
    match saved.kind {
        TargetKind::Service => service(observed, saved).is_none(),
        _ => !observed.address_pools.contains_key(&saved.name),
    }
}
