//! Patch releases with faults, and the objects that meet them. A release is named only if such an
//! object exists.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::addresses::Starts;
use super::change::{Cause, Changes, UpgradeCode};
use super::hop::{HopView, at};
use ipam_cilium::lbipam::{LbService, ServingState};
use ipam_core::model::{CiliumVersion, ObjectRef};
use ipam_core::net::Family;

/// A fault of some patch releases of one minor release.
struct Fault {
    minor: u16,
    patches: RangeInclusive<u16>,
    why: &'static str,
    source: &'static str,
    before: &'static str,
    meets: fn(&HopView<'_>) -> BTreeMap<ObjectRef, String>,
}

const UNSHARES: &str = "the operator of this release unshares addresses when it starts";
const MOVES: &str = "with several addresses for one sharing key, a starting operator of this release moves Services";

const FAULTS: [Fault; 6] = [
    Fault {
        minor: 15,
        patches: 0..=0,
        why: UNSHARES,
        source: "cilium#30700, fixed by cilium#34783",
        before: "use 1.15.1 or later",
        meets: sharing,
    },
    Fault {
        minor: 16,
        patches: 0..=1,
        why: UNSHARES,
        source: "cilium#30700, fixed by cilium#34783",
        before: "use 1.16.2 or later",
        meets: sharing,
    },
    Fault {
        minor: 18,
        patches: 0..=1,
        why: "while Services wait, a starting operator of this release may give them addresses that others have",
        source: "cilium#43131, cilium#39033, fixed by cilium#41147",
        before: "use 1.18.2 or later",
        meets: beside_waiting,
    },
    Fault {
        minor: 18,
        patches: 8..=8,
        why: MOVES,
        source: "cilium#46262",
        before: "use another patch release, or pin the Services with `cilium-ipam lb freeze`",
        meets: several_addresses_of_a_key,
    },
    Fault {
        minor: 19,
        patches: 4..=4,
        why: MOVES,
        source: "cilium#46262",
        before: "use another patch release, or pin the Services with `cilium-ipam lb freeze`",
        meets: several_addresses_of_a_key,
    },
    Fault {
        minor: 20,
        patches: 0..=2,
        why: "the operator panics when a Service with a sharing key requests an address that its pool reserves, and LB-IPAM stops for all Services",
        source: "cilium#48779, fix proposed in cilium#48804; the same code is in 1.20.0 to 1.20.2",
        before: "remove the request or the sharing key, or set `allowFirstLastIPs: \"Yes\"` in the pool",
        meets: reserved_and_shared,
    },
];

pub(super) fn judge(hop: &HopView<'_>, changes: &mut Changes) {
    for fault in FAULTS.iter().filter(|fault| fault.minor == hop.to.minor) {
        let code = match hop.to.patch {
            Some(patch) if fault.patches.contains(&patch) => UpgradeCode::BadRelease,
            Some(_) => continue,
            None if fault.is_over(hop.from) => continue,
            None => UpgradeCode::PatchToAvoid,
        };
        for (subject, effect) in (fault.meets)(hop) {
            changes.add(code, fault.cause(), subject, effect);
        }
    }
}

impl Fault {
    /// Whether no later patch release than the running one has it.
    fn is_over(&self, running: CiliumVersion) -> bool {
        let last = running.patch.filter(|_| running.minor == self.minor);
        last.is_some_and(|last| last >= *self.patches.end())
    }

    /// `1.16.0 and 1.16.1`.
    fn releases(&self) -> String {
        let release = |patch: u16| CiliumVersion {
            patch: Some(patch),
            ..CiliumVersion::minor(self.minor)
        };
        super::change::listed(self.patches.clone().map(release))
    }

    fn cause(&self) -> Cause {
        Cause {
            why: format!("{}: {}", self.releases(), self.why),
            source: self.source,
            before: self.before.to_owned(),
        }
    }
}

/// Services by the address that they have.
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
