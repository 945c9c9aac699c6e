//! Patch releases with faults, and the objects that meet them. A release is named only if such an
//! object exists.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::addresses::Starts;
use super::change::{Cause, Changes, UpgradeCode};
use super::{HopView, at};
use ipam_cilium::lbipam::{LbService, ServingState};
use ipam_cilium::observed::{Protocol, ServiceAnnouncements};
use ipam_cilium::releases::{FAULTS, Fault, Occasion, Trigger};
use ipam_core::model::{CiliumVersion, ObjectRef};
use ipam_core::net::Family;

pub(super) fn judge(hop: &HopView<'_>, changes: &mut Changes) {
    for fault in &FAULTS {
        if let Some(code) = code(fault, hop) {
            for (subject, effect) in meets(fault.trigger, hop) {
                changes.add(code, cause(fault), subject, effect);
            }
        }
    }
}

/// Faults of one release that objects meet while it runs. `operator-panics` reports
/// [`Trigger::ReservedAndShared`], with the pool.
pub(super) fn of_running(hop: &HopView<'_>, changes: &mut Changes) {
    let is_met = |fault: &&Fault| match fault.trigger {
        Trigger::ReservedAndShared => false,
        // A fault of the agents.
        Trigger::LocalGateway => fault.may_be_in(hop.from),
        Trigger::SharedAddress
        | Trigger::BesideWaiting
        | Trigger::SeveralAddressesOfAKey
        | Trigger::AddressWithoutPool => hop.operator_before_may_have(fault),
    };
    for fault in FAULTS.iter().filter(is_met) {
        for (subject, effect) in meets(fault.trigger, hop) {
            changes.add(UpgradeCode::BadRelease, cause(fault), subject, effect);
        }
    }
}

/// Code of the entry about a fault of Cilium; `None` if the hop does not meet the fault.
fn code(fault: &Fault, hop: &HopView<'_>) -> Option<UpgradeCode> {
    // The operator of the release before ends in the hop.
    if fault.occasion == Occasion::Shutdown && hop.operator_before_may_have(fault) {
        return Some(UpgradeCode::BadRelease);
    }
    if fault.minor != hop.to.minor {
        return None;
    }
    match (hop.to.patch, fault.trigger) {
        // Another check compares the announcements before and after the hop.
        (Some(_), Trigger::LocalGateway) => None,
        (Some(_), _) => fault.is_in(hop.to).then_some(UpgradeCode::BadRelease),
        (None, _) if is_over(fault, hop.from) => None,
        (None, _) => Some(UpgradeCode::PatchToAvoid),
    }
}

/// Whether no later patch release than the running one has it.
fn is_over(fault: &Fault, running: CiliumVersion) -> bool {
    let last = running.patch.filter(|_| running.minor == fault.minor);
    last.is_some_and(|last| last >= *fault.patches.end())
}

pub(super) fn cause(fault: &Fault) -> Cause {
    Cause {
        why: format!("{}: {}", super::change::listed(fault.releases()), fault.why),
        source: fault.source,
        before: fault.before.to_owned(),
    }
}

/// The objects that trigger a fault, each with the effect on it.
fn meets(trigger: Trigger, hop: &HopView<'_>) -> BTreeMap<ObjectRef, String> {
    match trigger {
        Trigger::SharedAddress => sharing(hop),
        Trigger::BesideWaiting => beside_waiting(hop),
        Trigger::SeveralAddressesOfAKey => several_addresses_of_a_key(hop),
        Trigger::ReservedAndShared => reserved_and_shared(hop),
        Trigger::LocalGateway => local_gateways(hop),
        Trigger::AddressWithoutPool => without_pool(hop),
    }
}

fn effects<'h>(
    services: impl Iterator<Item = &'h LbService>,
    effect: impl Fn(&LbService) -> String,
) -> BTreeMap<ObjectRef, String> {
    let of = |service: &LbService| (ObjectRef::service(&service.name), effect(service));
    services.map(of).collect()
}

fn local_gateways(hop: &HopView<'_>) -> BTreeMap<ObjectRef, String> {
    let announcements = ServiceAnnouncements::of_every_release(&hop.after);
    let is_only_l2 = |service: &&LbService| {
        let by = announcements.of(service);
        !by.is_empty() && by.iter().all(|(protocol, _)| *protocol == Protocol::L2)
    };
    let services = hop
        .original
        .values()
        .filter(|service| service.has_no_local_backend());
    effects(services.filter(is_only_l2), |service| {
        let addresses = super::change::listed(&service.ingress);
        format!("has {addresses}, for which no node answers ARP")
    })
}

fn without_pool(hop: &HopView<'_>) -> BTreeMap<ObjectRef, String> {
    let rules = hop.before.lb_rules();
    let pools = hop.before.address_pools_as_read(&rules);
    if pools.iter().any(|pool| pool.state == ServingState::Enabled) {
        return BTreeMap::new();
    }
    let services = hop
        .original
        .values()
        .filter(|service| service.served().next().is_some());
    effects(services, |service| {
        format!("may lose {}", super::change::listed(service.served()))
    })
}

/// Services by the addresses that they have.
fn holders<'h>(hop: &'h HopView<'_>) -> BTreeMap<IpAddr, Vec<&'h LbService>> {
    let mut holders: BTreeMap<IpAddr, Vec<&LbService>> = BTreeMap::new();
    for service in hop.original.values() {
        for address in &service.ingress {
            holders.entry(*address).or_default().push(service);
        }
    }
    holders
}

fn sharing(hop: &HopView<'_>) -> BTreeMap<ObjectRef, String> {
    let rules = hop.after.lb_rules();
    let mut met = BTreeMap::new();
    for (address, services) in holders(hop) {
        let shares = |service: &&&LbService| service.sharing_key(&rules).is_some();
        for service in services
            .iter()
            .filter(shares)
            .filter(|_| services.len() > 1)
        {
            let effect = format!("shares {address}, and may lose it");
            met.insert(ObjectRef::service(&service.name), effect);
        }
    }
    met
}

/// Services that only the faulty release makes lose an address. A hop to that very release needs no
/// entry: the simulation names them.
fn beside_waiting(hop: &HopView<'_>) -> BTreeMap<ObjectRef, String> {
    if hop.to.patch.is_some() {
        return BTreeMap::new();
    }
    let faulty = CiliumVersion {
        patch: Some(1),
        ..hop.to
    };
    let with_fault = Starts::new(&hop.before, &at(&hop.before, faulty)).next;
    let without = Starts::new(&hop.before, &hop.after).next;
    let mut met = BTreeMap::new();
    for (name, outcome) in &with_fault.outcomes {
        let later = without.outcomes.get(name);
        let only_there: Vec<&IpAddr> = outcome
            .contested
            .iter()
            .filter(|contested| later.is_none_or(|later| !later.contested.contains(contested)))
            .map(|(address, _)| address)
            .collect();
        if !only_there.is_empty() {
            let effect = format!("may lose {}", super::change::listed(only_there));
            met.insert(ObjectRef::service(name), effect);
        }
    }
    met
}

fn several_addresses_of_a_key(hop: &HopView<'_>) -> BTreeMap<ObjectRef, String> {
    let rules = hop.after.lb_rules();
    let mut of_key: BTreeMap<(&str, Family), BTreeSet<IpAddr>> = BTreeMap::new();
    let keyed = || {
        let services = hop.original.values();
        services.filter_map(|service| Some((service, service.sharing_key(&rules)?)))
    };
    for (service, key) in keyed() {
        for address in &service.ingress {
            let family = Family::of(*address);
            of_key.entry((key, family)).or_default().insert(*address);
        }
    }
    let mut met = BTreeMap::new();
    for (service, key) in keyed() {
        let is_shared = |address: &&IpAddr| {
            let all = of_key.get(&(key, Family::of(**address)));
            all.is_some_and(|all| all.len() > 1)
        };
        let shared: Vec<&IpAddr> = service.ingress.iter().filter(is_shared).collect();
        if !shared.is_empty() {
            let effect = format!("may lose {}", super::change::listed(shared));
            met.insert(ObjectRef::service(&service.name), effect);
        }
    }
    met
}

fn reserved_and_shared(hop: &HopView<'_>) -> BTreeMap<ObjectRef, String> {
    let rules = hop.after.lb_rules();
    let pools = hop.after.address_pools_as_read(&rules);
    let mut met = BTreeMap::new();
    for service in hop.after.services.values() {
        if service.sharing_key(&rules).is_none() {
            continue;
        }
        for address in service.requested(&rules) {
            let reserves = |pool: &&ipam_cilium::lbipam::AddressPool| {
                let is_edge = |range: &&ipam_cilium::lbipam::AddressRange| {
                    (range.range.first() == address || range.range.last() == address)
                        && rules.reserves_first_and_last(pool.first_last, range)
                };
                pool.state == ServingState::Enabled
                    && pool.selects(&service.labels)
                    && pool.ranges.iter().any(|range| is_edge(&range))
            };
            if let Some(pool) = pools.iter().find(reserves) {
                let name = pool.name.escape_debug();
                let effect = format!("requests {address}, which the pool `{name}` reserves");
                met.insert(ObjectRef::service(&service.name), effect);
            }
        }
    }
    met
}
