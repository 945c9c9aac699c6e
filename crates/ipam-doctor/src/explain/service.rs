//! Explains a Service of type LoadBalancer: its addresses, every pool, and its outlook.

use std::net::IpAddr;

use serde::Serialize;

use super::{FORMAT_VERSION, RequirementResult, requested_addresses, requirements};
use ipam_cilium::lbipam::{AddressPool, LbService, ServingState};
use ipam_cilium::observed::Observed;
use ipam_core::model::Labels;
use ipam_core::net::{Range, covers};
use ipam_core::text::joined;
use ipam_desired::{ChosenFrom, Desired, PinnedTo};
use ipam_plan::check;
use ipam_plan::plan::{Outlook, Plan, Target};

/// Explanation of a Service's addresses.
#[derive(Debug, Serialize)]
pub struct ServiceExplanation {
    format_version: &'static str,
    /// `namespace/name`.
    pub service: String,
    /// Its labels, with Cilium's pseudo-labels.
    pub labels: Labels,
    /// Its addresses, each with the pools that cover it.
    pub addresses: Vec<String>,
    /// What it requests, what the files pin it to, and what becomes of the pin.
    pub requested: Vec<String>,
    pub pools: Vec<ConsideredAddressPool>,
    /// Cilium's message in the status of the Service.
    pub reason: Option<String>,
    /// Addresses that it will lose, get or wait for.
    pub outlook: Vec<String>,
}

/// A pool, evaluated for the Service.
#[derive(Debug, Serialize)]
pub struct ConsideredAddressPool {
    pub pool: String,
    /// Each requirement of its selector. A selector without requirements selects every Service.
    pub requirements: Vec<RequirementResult>,
    /// The result for this Service.
    pub verdict: String,
}

pub(super) fn explain(
    service: &LbService,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
) -> ServiceExplanation {
    let outlook = Outlook::new(observed);
    let losers = outlook.conflicts();
    let considered = |pool: &AddressPool| {
        let conflict = losers.get(pool.name.as_str());
        consider(
            pool,
            service,
            conflict.map(|conflict| conflict.with.as_str()),
        )
    };
    ServiceExplanation {
        format_version: FORMAT_VERSION,
        service: service.name.to_string(),
        labels: service.labels.clone(),
        addresses: addresses(service, &outlook.pools),
        requested: requested(service, desired, observed, plan),
        pools: outlook.pools.iter().map(considered).collect(),
        reason: service.reason.clone(),
        outlook: next(service, &outlook)
            .into_iter()
            .chain(
                check::second_controller(service, observed, &outlook.rules)
                    .map(|one| format!("{one} serves it, too: addresses may never stop changing")),
            )
            .chain(lost_hostnames(service, plan))
            .collect(),
    }
}

fn addresses(service: &LbService, pools: &[AddressPool]) -> Vec<String> {
    let hostnames = service.hostnames.iter();
    let hostnames = hostnames.map(|one| format!("{}, a hostname", one.address()));
    let addresses = service.ingress.iter();
    let addresses = addresses.map(|address| with_pools(*address, pools));
    addresses.chain(hostnames).collect()
}

/// The hostnames that the changes of the plan remove.
fn lost_hostnames(service: &LbService, plan: &Plan) -> impl Iterator<Item = String> {
    let effects = plan.effects.services.iter();
    let of_service = effects.filter(|effect| effect.service == service.name);
    let lost = of_service.flat_map(|effect| &effect.loses);
    let hostnames = lost.filter(|lost| lost.address.ip().is_none());
    hostnames.map(|lost| format!("the plan removes {}: {}", lost.address, lost.why))
}

/// `overlapping` is the pool for which Cilium does not use this one.
fn consider(
    pool: &AddressPool,
    service: &LbService,
    overlapping: Option<&str>,
) -> ConsideredAddressPool {
    let verdict = match (pool.selects(&service.labels), overlapping, pool.state) {
        (false, ..) => "does not select it".to_owned(),
        (true, Some(other), _) => format!(
            "selects it, but overlaps `{}`, and Cilium uses only one of the two",
            other.escape_debug()
        ),
        (true, None, ServingState::Disabled) => "selects it, and is disabled".to_owned(),
        (true, None, ServingState::Enabled) => "selects it".to_owned(),
    };
    let selector = pool.selector.as_ref();
    let results = selector.map(|selector| requirements(selector, &service.labels));
    ConsideredAddressPool {
        pool: pool.name.clone(),
        requirements: results.unwrap_or_default(),
        verdict,
    }
}

/// The address, and the pools that cover it.
fn with_pools(address: IpAddr, pools: &[AddressPool]) -> String {
    let range = Range::from(address);
    let covers = |pool: &&AddressPool| {
        let mut ranges = pool.ranges.iter();
        ranges.any(|covering| covering.range.contains(&range))
    };
    let names: Vec<String> = pools
        .iter()
        .filter(covers)
        .map(|pool| format!("`{}`", pool.name.escape_debug()))
        .collect();
    match names.is_empty() {
        true => format!("{address}, of no pool"),
        false => format!("{address} of {}", names.join(" or ")),
    }
}

/// What LB-IPAM will take from the Service, give it, and keep it waiting for.
fn next(service: &LbService, outlook: &Outlook<'_>) -> Vec<String> {
    if let Some(why) = outlook.rules.why_not_served(service) {
        return vec![format!("not for LB-IPAM: {why}")];
    }
    let Some(next) = outlook.next().outcomes.get(&service.name) else {
        return Vec::new();
    };
    let loses = outlook.lost(service).into_iter();
    let loses = loses.map(|lost| outlook.in_words(&lost));
    let gains = next.gains.iter().map(ToString::to_string);
    let pending = next.pending.iter();
    let waits = pending.map(|pending| format!("waits: {}", pending.reason()));
    loses.chain(gains).chain(waits).collect()
}

/// What a pin gives.
pub(super) fn target(to: &PinnedTo) -> String {
    match to {
        PinnedTo::Addresses(pinned) => {
            let addresses: Vec<IpAddr> = pinned.iter().map(|one| one.address).collect();
            joined(&addresses, " ")
        }
        PinnedTo::Chosen(ChosenFrom::Pool(pool)) => format!("an address of pool `{pool}`"),
        PinnedTo::Chosen(ChosenFrom::BestPool) => "an address of the best pool".to_owned(),
    }
}

/// Its requests, its pin, and what the plan does about both.
fn requested(
    service: &LbService,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
) -> Vec<String> {
    let rules = observed.lb_rules();
    let requests = requested_addresses::requests(service, &rules).into_iter();
    let mut requested: Vec<String> = requests
        .map(|(field, addresses)| format!("requests {} by {field}", joined(&addresses, " ")))
        .collect();
    requested.extend(
        service
            .written_requests(&rules)
            .filter_map(check::unread_request),
    );
    if let Some(pin) = desired.service_pins.get(&service.name) {
        requested.push(format!("pinned to {} ({})", target(&pin.to), pin.origin));
    }
    let target = Target::Service(service.name.clone());
    let changes =
        requested_addresses::service_changes(plan).filter(|change| change.service == service.name);
    requested.extend(changes.map(|change| match &change.after {
        Some(value) => format!("the plan writes {}: {}", change.key, value.escape_debug()),
        None => format!("the plan removes {}", change.key),
    }));
    let blocked = plan
        .blocked
        .iter()
        .filter(|blocked| blocked.target == target);
    requested.extend(blocked.map(|blocked| {
        format!(
            "its pin is blocked: {}; {}",
            blocked.reason,
            blocked.reason.unblock()
        )
    }));
    requested.extend(reserved(service, desired));
    requested
}

/// Addresses that it has, and that the files reserve.
fn reserved(service: &LbService, desired: &Desired) -> Vec<String> {
    let pools = desired.address_pools.values();
    let of_pool = |pool: &ipam_desired::WantedAddressPool| {
        // An annotation that cannot be read is an error of the files.
        let reserved = pool.manifest.reserved().unwrap_or_default();
        let held = service.ingress.iter();
        let held = held.filter(move |address| covers(&reserved, &Range::from(**address)));
        held.map(|address| {
            format!(
                "{address} is reserved by pool `{}` ({})",
                pool.name, pool.origin
            )
        })
        .collect::<Vec<_>>()
    };
    pools.flat_map(of_pool).collect()
}
