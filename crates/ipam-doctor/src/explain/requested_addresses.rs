//! What speaks for a LoadBalancer address without being held: requests of Services, what the plan
//! will let them request, and what pools keep back. Pins are in the files, and so with them.

use std::net::IpAddr;

use ipam_cilium::lbipam::{AddressPool, LbRules, LbService};
use ipam_cilium::observed::Observed;
use ipam_core::net::{Address, Range};
use ipam_desired::Desired;
use ipam_plan::plan::{Change, Plan, ServiceChange};

/// A use of addresses, before its relation to the range in question is known.
pub(super) struct RequestedAddress {
    pub(super) range: Range,
    pub(super) object: String,
    pub(super) field: String,
    pub(super) meaning: &'static str,
}

pub(super) fn all(desired: &Desired, observed: &Observed, plan: &Plan) -> Vec<RequestedAddress> {
    let rules = observed.lb_rules();
    let services = observed.services.values();
    let mut requested_addresses: Vec<RequestedAddress> = services
        .flat_map(|service| requested(service, &rules))
        .collect();
    requested_addresses.extend(service_changes(plan).flat_map(planned));
    requested_addresses.extend(kept_back(desired, observed, &rules));
    requested_addresses
}

/// The fields in which a Service requests addresses, with the addresses of each.
pub(super) fn requests(service: &LbService, rules: &LbRules) -> Vec<(&'static str, Vec<IpAddr>)> {
    let mut requests: Vec<(&str, Vec<IpAddr>)> = Vec::new();
    for request in service.written_requests(rules) {
        let Some(address) = request.address() else {
            continue;
        };
        match requests
            .iter_mut()
            .find(|(field, _)| *field == request.field)
        {
            Some((_, addresses)) => addresses.push(address),
            None => requests.push((request.field, vec![address])),
        }
    }
    requests
}

fn addresses(text: &str) -> Vec<IpAddr> {
    let parsed = text.split(',').map(|one| one.trim().parse::<Address>());
    parsed
        .filter_map(|address| address.ok().map(IpAddr::from))
        .collect()
}

fn requested(service: &LbService, rules: &LbRules) -> Vec<RequestedAddress> {
    let of_field = |(field, addresses): (&'static str, Vec<IpAddr>)| {
        let requested_address = move |address: IpAddr| RequestedAddress {
            range: Range::from(address),
            object: format!("Service/{}", service.name),
            field: field.to_owned(),
            meaning: "requested by this Service",
        };
        addresses.into_iter().map(requested_address)
    };
    let all = requests(service, rules).into_iter();
    all.flat_map(of_field).collect()
}

pub(super) fn service_changes(plan: &Plan) -> impl Iterator<Item = &ServiceChange> {
    plan.changes.iter().filter_map(|change| match change {
        Change::Service(change) => Some(change),
        Change::AddressPool(_) | Change::PodPool(_) | Change::Port(_) | Change::Node(_) => None,
    })
}

/// What the plan will let a Service request.
fn planned(change: &ServiceChange) -> Vec<RequestedAddress> {
    let before = change.before.as_deref().map(addresses).unwrap_or_default();
    let after = change.after.as_deref().map(addresses).unwrap_or_default();
    let new = after
        .into_iter()
        .filter(|address| !before.contains(address));
    let requested_address = |address: IpAddr| RequestedAddress {
        range: Range::from(address),
        object: format!("Service/{}", change.service),
        field: change.key.to_owned(),
        meaning: "planned, not written yet",
    };
    new.map(requested_address).collect()
}

/// Addresses that no Service gets, although they lie in a pool.
fn kept_back(desired: &Desired, observed: &Observed, rules: &LbRules) -> Vec<RequestedAddress> {
    let mut requested_addresses = Vec::new();
    for pool in desired.address_pools.values() {
        // An annotation that cannot be read is an error of the files.
        for range in pool.manifest.reserved().unwrap_or_default() {
            requested_addresses.push(RequestedAddress {
                range,
                object: format!("CiliumLoadBalancerIPPool/{}", pool.name),
                field: format!("cilium-ipam.io/reserved ({})", pool.origin),
                meaning: "reserved, given to no Service",
            });
        }
    }
    let pools = observed.address_pools_as_read(rules);
    requested_addresses.extend(pools.iter().flat_map(|pool| edges(pool, rules)));
    requested_addresses
}

fn edges(pool: &AddressPool, rules: &LbRules) -> Vec<RequestedAddress> {
    let reserving = pool
        .ranges
        .iter()
        .filter(|range| rules.reserves_first_and_last(pool.first_last, range));
    let ends = reserving.flat_map(|range| [range.range.first(), range.range.last()]);
    let requested_address = |address: IpAddr| RequestedAddress {
        range: Range::from(address),
        object: format!("CiliumLoadBalancerIPPool/{}", pool.name),
        field: "spec.allowFirstLastIPs".to_owned(),
        meaning: "first or last address, given to no Service",
    };
    ends.map(requested_address).collect()
}
