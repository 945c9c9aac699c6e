//! Services that wait for an address, by the rules of this version's LB-IPAM.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::finding;
use ipam_cilium::lbipam::{
    AddressPool, Conflict, FamilyPolicy, FirstLast, LbRules, LbService, Pending, ServiceOutcome,
    ServingState,
};
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_core::model::{Finding, ObjectRef, Severity};
use ipam_core::net::Family;
use ipam_plan::check::ways_to_share;
use ipam_plan::plan::Outlook;

/// Without any pool, LB-IPAM is idle and another program may serve the Services.
pub(super) fn services(observed: &Observed) -> Vec<Finding> {
    let kinds = [ObservedKind::Service, ObservedKind::LoadBalancerPool];
    if observed.is_blind_to_any(&kinds) || observed.address_pools.is_empty() {
        return Vec::new();
    }
    let outlook = Outlook::new(observed);
    let (rules, conflicting) = (&outlook.rules, outlook.conflicts());
    let waiting = outlook
        .next()
        .outcomes
        .iter()
        .filter_map(|(name, outcome)| {
            let service = observed.services.get(name)?;
            // Addresses of another source: another program serves it.
            let is_ours = service.ingress.iter().all(|of| outcome.keeps.contains(of))
                && service.hostnames.is_empty();
            let pending = waits_for(service, outcome).filter(|_| is_ours)?;
            let candidates = Candidates::new(service, &outlook.pools, &conflicting);
            // A pool without addresses has its own finding.
            if candidates.give_nothing(pending, rules) {
                return None;
            }
            candidates.finding(
                service,
                pending,
                explained(pending, service, observed, rules),
            )
        });
    waiting.collect()
}

/// What a Service lacks. One that only prefers two families does with one.
fn waits_for<'o>(service: &LbService, outcome: &'o ServiceOutcome) -> Option<&'o Pending> {
    let has_one = !(outcome.keeps.is_empty() && outcome.gains.is_empty());
    let does_with_one = service.family_policy == FamilyPolicy::PreferDual && has_one;
    let is_optional = |pending: &Pending| match pending {
        Pending::NoPool(None) | Pending::OutOfAddresses(_) => does_with_one,
        Pending::NoPool(Some(_))
        | Pending::SelectorMismatch(_)
        | Pending::AlreadyAllocated(_)
        | Pending::Reserved(_)
        | Pending::Incompatible { .. } => false,
    };
    outcome.pending.iter().find(|pending| !is_optional(pending))
}

/// The pools that select a Service, by whether they give addresses.
struct Candidates<'p> {
    all: usize,
    enabled: Vec<&'p AddressPool>,
    giving: Vec<&'p str>,
    disabled: Vec<&'p str>,
    conflicting: Vec<&'p str>,
}

impl<'p> Candidates<'p> {
    fn new(
        service: &LbService,
        pools: &'p [AddressPool],
        conflicting: &BTreeMap<&str, Conflict>,
    ) -> Candidates<'p> {
        let mut candidates = Candidates {
            all: pools.len(),
            enabled: Vec::new(),
            giving: Vec::new(),
            disabled: Vec::new(),
            conflicting: Vec::new(),
        };
        for pool in pools.iter().filter(|pool| pool.selects(&service.labels)) {
            let loses = conflicting.contains_key(pool.name.as_str());
            let list = match pool.state {
                ServingState::Disabled => &mut candidates.disabled,
                ServingState::Enabled if loses => &mut candidates.conflicting,
                ServingState::Enabled => {
                    candidates.enabled.push(pool);
                    &mut candidates.giving
                }
            };
            list.push(&pool.name);
        }
        candidates
    }

    /// Whether the Service waits because its pools reserve all their addresses.
    fn give_nothing(&self, pending: &Pending, rules: &LbRules) -> bool {
        let family = match pending {
            Pending::OutOfAddresses(family) => *family,
            Pending::Reserved(address) => Family::of(*address),
            Pending::NoPool(_)
            | Pending::SelectorMismatch(_)
            | Pending::AlreadyAllocated(_)
            | Pending::Incompatible { .. } => return false,
        };
        let ranges = self
            .enabled
            .iter()
            .flat_map(|pool| pool.ranges.iter().map(move |range| (pool, range)));
        let of_family = ranges.filter(|(_, range)| range.range.family() == family);
        let mut of_family = of_family.peekable();
        of_family.peek().is_some()
            && of_family.all(|(pool, range)| rules.gives_nothing(pool.first_last, range))
    }

    fn finding(
        &self,
        service: &LbService,
        pending: &Pending,
        (why, help): (String, String),
    ) -> Option<Finding> {
        // The overlap has its own finding.
        let is_told = !self.conflicting.is_empty() && self.giving.is_empty();
        if is_told && matches!(pending, Pending::NoPool(_)) {
            return None;
        }
        let name = service.name.to_string();
        let message = format!(
            "Service `{}` waits for an address: {why}",
            name.escape_debug()
        );
        let of_selecting = [
            ("selects it", &self.giving),
            ("selects it, and is disabled", &self.disabled),
            ("selects it, and overlaps another pool", &self.conflicting),
        ];
        let line = |(what, names): (&str, &Vec<&str>)| {
            names
                .iter()
                .map(|name| format!("CiliumLoadBalancerIPPool `{}` {what}", name.escape_debug()))
                .collect::<Vec<_>>()
        };
        let mut seen: Vec<String> = of_selecting.into_iter().flat_map(line).collect();
        if seen.is_empty() {
            seen.push(format!("none of {} pools selects it", self.all));
        }
        seen.push(format!("reason of Cilium: {}", pending.reason()));
        let finding = finding(Severity::Warning, "service-without-address", message)
            .about(ObjectRef::service(&service.name))
            .seen(seen);
        Some(
            finding
                .causes("clients outside the cluster have no address for it")
                .help(help),
        )
    }
}

/// Why a Service waits, and the fix.
fn explained(
    pending: &Pending,
    service: &LbService,
    observed: &Observed,
    rules: &LbRules,
) -> (String, String) {
    let (why, help) = match pending {
        Pending::NoPool(None) => (
            "no enabled pool of its family selects it".to_owned(),
            "label the Service so that the `serviceSelector` of a pool selects it, or create a pool of its family: `cilium-ipam show lb` lists the pools",
        ),
        Pending::NoPool(Some(address)) => (
            format!("no enabled pool has {address}, which it asks for"),
            "ask for an address of a pool that selects the Service, or add the address to a pool",
        ),
        Pending::SelectorMismatch(address) => (
            format!("the pool of {address}, which it asks for, does not select it"),
            "label the Service so that the `serviceSelector` of the pool selects it, or ask for an address of another pool",
        ),
        Pending::AlreadyAllocated(address) => {
            let why = format!("another Service has {address}, which it asks for");
            return (why, sharing_help(*address, service, observed, rules));
        }
        Pending::Reserved(address) => (
            format!(
                "{address}, which it asks for, is the first or the last address of a block, and the pool reserves both"
            ),
            reserved_help(rules),
        ),
        Pending::Incompatible { address, why, .. } => {
            let why = format!("it cannot share {address}: {why}");
            return (why, sharing_help(*address, service, observed, rules));
        }
        Pending::OutOfAddresses(family) => (
            format!("the pools that select it have no free {family} address"),
            "add a block to a pool that selects the Service, or delete Services that need no address",
        ),
    };
    (why, help.to_owned())
}

fn reserved_help(rules: &LbRules) -> &'static str {
    match rules.meaning_of(FirstLast::Allowed) {
        FirstLast::Allowed => {
            "ask for another address, or set `allowFirstLastIPs: \"Yes\"` in the pool"
        }
        FirstLast::Reserved | FirstLast::Unset => "ask for another address",
    }
}

/// The fix for a Service that asks for an address of another one.
fn sharing_help(
    address: IpAddr,
    service: &LbService,
    observed: &Observed,
    rules: &LbRules,
) -> String {
    let has = |other: &&LbService| other.name != service.name && other.ingress.contains(&address);
    let asks = |other: &&LbService| {
        other.name != service.name && other.requested(rules).contains(&address)
    };
    let others = || observed.services.values();
    let ways = others()
        .filter(has)
        .chain(others().filter(asks))
        .map(|other| (other, ways_to_share(service, other, rules)))
        .find(|(_, ways)| !ways.is_empty());
    match ways {
        Some((other, ways)) => format!(
            "ask for another address, or let it share {address} with `{}`: {}",
            other.name.to_string().escape_debug(),
            ways.join("; ")
        ),
        None => "ask for another address".to_owned(),
    }
}
