//! Rules on the files about LoadBalancer addresses.
//!
//! Hostnames of Services that LB-IPAM removes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::files::unusable;
use ipam_cilium::lbipam::{LbService, ServedHostname, sharing_obstacles};
use ipam_cilium::observed::{Observed, OperatorRun};
use ipam_core::model::{Finding, ObjectRef, Rule, Severity, count};
use ipam_core::net::{RangeIndex, covers, merge, overlapping_pairs};
use ipam_desired::{
    AddressPoolRange, Desired, PinnedAddress, PoolRange, ServicePin, WantedAddressPool,
};

fn ranges(desired: &Desired) -> Vec<(&WantedAddressPool, &AddressPoolRange)> {
    desired
        .address_pools
        .values()
        .flat_map(|pool| pool.ranges.iter().map(move |range| (pool, range)))
        .collect()
}

/// Selectors make no difference: Cilium disables one of two overlapping pools.
pub(super) fn overlapping_address_pools(desired: &Desired) -> Vec<Finding> {
    let ranges = ranges(desired);
    let pairs = overlapping_pairs(
        ranges
            .iter()
            .enumerate()
            .map(|(index, (_, range))| (range.range, index)),
    );
    let finding = |(one, other): (usize, usize)| {
        let mut pair = [ranges[one], ranges[other]];
        pair.sort_by(|(_, a), (_, b)| a.origin.cmp(&b.origin));
        let [(first_pool, first), (pool, range)] = pair;
        // Overlaps within one pool are reported when the pool is read.
        if first_pool.name == pool.name {
            return None;
        }
        let message = format!(
            "CiliumLoadBalancerIPPool `{}` overlaps `{}` ({} and {}): Cilium would stop using one of them",
            pool.name, first_pool.name, range.range, first.range
        );
        let finding = Finding::new(Severity::Error, Rule("address-pool-overlap"), message);
        let finding = finding.about(ObjectRef::address_pool(pool.name.as_str()));
        let finding = finding
            .at(&range.origin, format!("overlaps {}", first.range))
            .and(&first.origin, "this one");
        Some(finding.help("give each pool its own addresses"))
    };
    pairs.into_iter().filter_map(finding).collect()
}

/// Pools over LoadBalancer addresses: their blocks there are not assigned.
pub(super) fn pools_over_address_pools(desired: &Desired) -> Vec<Finding> {
    let mut findings = Vec::new();
    let excluded = merge(desired.policy.excluded.iter().copied());
    let ranges = ranges(desired);
    let wanted = ranges
        .iter()
        .enumerate()
        .map(|(place, (_, range))| (range.range, place));
    let wanted = RangeIndex::new(wanted.filter(|(range, _)| !covers(&excluded, range)));
    for pool in desired.pools.values() {
        let reserved = merge(pool.reserved.iter().copied());
        let hits = |own: &PoolRange| {
            wanted
                .overlapping(&own.block.range())
                .find(|(range, _)| !covers(&reserved, range))
        };
        let Some((other, range)) = pool
            .ranges
            .iter()
            .find_map(hits)
            .map(|(_, place)| ranges[*place])
        else {
            continue;
        };
        let message = format!(
            "pool `{}` overlaps {} of CiliumLoadBalancerIPPool `{}`; the blocks there are not assigned",
            pool.name, range.range, other.name
        );
        let finding = Finding::new(
            Severity::Warning,
            Rule("pool-over-other-addresses"),
            message,
        );
        let finding = finding.about(ObjectRef::pool(&pool.name));
        let finding = finding
            .at(&pool.origin, "overlaps")
            .and(&range.origin, "LoadBalancer addresses");
        findings.push(
            finding.help("list that part under `reserved` if this is intended, or move the pool"),
        );
    }
    findings
}

pub(super) fn unusable_addresses(desired: &Desired) -> Vec<Finding> {
    let unusable = unusable();
    let finding = |(pool, range): (&WantedAddressPool, &AddressPoolRange)| {
        let hit = unusable
            .iter()
            .find(|unusable| unusable.overlaps(&range.range))?;
        let message = format!(
            "CiliumLoadBalancerIPPool `{}` has {}, part of {hit}, which no Service can have",
            pool.name, range.range
        );
        let finding = Finding::new(Severity::Error, Rule("unusable-address-space"), message);
        let finding = finding.about(ObjectRef::address_pool(pool.name.as_str()));
        let finding = finding.at(&range.origin, "loopback, link-local, multicast or reserved");
        Some(finding.help("use addresses that your network routes to the nodes"))
    };
    ranges(desired).into_iter().filter_map(finding).collect()
}

/// Two Services may share an address. Only the cluster shows whether these do: see [`unless_shared`].
pub(super) fn addresses_pinned_twice(desired: &Desired) -> Vec<Finding> {
    let pinned = pins_by_address(desired).into_iter();
    pinned
        .filter_map(|(address, pins)| pinned_twice(address, &pins))
        .collect()
}

/// Leaves out findings about addresses that the Services of all their pins may share.
pub(super) fn unless_shared(
    findings: Vec<Finding>,
    desired: &Desired,
    observed: &Observed,
) -> Vec<Finding> {
    if findings.iter().all(|finding| finding.rule != PINNED_TWICE) {
        return findings;
    }
    let rules = observed.lb_rules();
    let may_share = |(one, _): &Pinned<'_>, (other, _): &Pinned<'_>| {
        let services = [one, other].map(|pin| observed.services.get(&pin.service));
        matches!(services, [Some(one), Some(other)]
            if sharing_obstacles(one, other, &rules).is_empty())
    };
    let is_shared = |pins: &[Pinned<'_>]| {
        let mut pairs = pins.iter().enumerate();
        pairs.all(|(place, one)| pins[..place].iter().all(|other| may_share(one, other)))
    };
    let pinned = pins_by_address(desired).into_iter();
    let shared: Vec<Finding> = pinned
        .filter(|(_, pins)| is_shared(pins))
        .filter_map(|(address, pins)| pinned_twice(address, &pins))
        .collect();
    let findings = findings.into_iter();
    findings
        .filter(|finding| !shared.contains(finding))
        .collect()
}

const PINNED_TWICE: Rule = Rule("address-pinned-twice");

type Pinned<'d> = (&'d ServicePin, &'d PinnedAddress);

fn pins_by_address(desired: &Desired) -> BTreeMap<IpAddr, Vec<Pinned<'_>>> {
    let mut pinned: BTreeMap<IpAddr, Vec<Pinned<'_>>> = BTreeMap::new();
    for pin in desired.service_pins.values() {
        for address in pin.addresses() {
            let of_address = pinned.entry(address.address).or_default();
            of_address.push((pin, address));
        }
    }
    pinned
}

fn pinned_twice(address: IpAddr, pins: &[Pinned<'_>]) -> Option<Finding> {
    let [(first, first_at), (second, second_at), ..] = pins else {
        return None;
    };
    let message = format!(
        "{address} is pinned for Services `{}` and `{}`",
        first.service, second.service
    );
    let finding = Finding::new(Severity::Warning, PINNED_TWICE, message);
    let finding = finding.about(ObjectRef::service(&second.service));
    let finding = finding
        .at(&second_at.origin, "pinned again")
        .and(&first_at.origin, "pinned here");
    Some(finding.help(
        "they must share it (the same sharing key, other ports), or the later one is blocked",
    ))
}

/// Limit of the Services that the message names; more are counted.
const NAMED: usize = 10;

/// One finding for all Services with such hostnames. Without a pool, LB-IPAM is idle, and only the
/// first pool is a risk.
pub(super) fn that_go(observed: &Observed) -> Option<Finding> {
    let rules = observed.lb_rules();
    let hostnames = |service: &LbService| -> Vec<String> {
        let hostnames = service.hostnames_that_go(&rules);
        let hostnames = hostnames.map(ServedHostname::address);
        hostnames.map(|one| one.to_string()).collect()
    };
    let services = observed.services.values();
    let with_names = services.map(|service| (service, hostnames(service)));
    let going: Vec<(&LbService, Vec<String>)> =
        with_names.filter(|(_, names)| !names.is_empty()).collect();
    if going.is_empty() {
        return None;
    }
    let (severity, when) = match (observed.address_pools.is_empty(), observed.operator_run()) {
        (true, _) => (
            Severity::Info,
            "that the first CiliumLoadBalancerIPPool makes Cilium remove",
        ),
        (false, OperatorRun::Assumed) => (Severity::Warning, "that Cilium's operator removes"),
        (false, OperatorRun::Stopped) => (
            Severity::Warning,
            "that Cilium's operator, which is stopped, removes when it starts",
        ),
    };
    let named = going.iter().take(NAMED);
    let named: Vec<String> = named
        .map(|(service, names)| format!("`{}` {}", service.name, names.join(" ")))
        .collect();
    let more = match going.len() - named.len() {
        0 => String::new(),
        more => format!(" and {}", count(more, "further Service")),
    };
    let message = format!("Services with hostnames {when}: {}{more}", named.join(", "));
    let subjects = going
        .iter()
        .map(|(service, _)| ObjectRef::service(&service.name));
    let finding = Finding::new(severity, Rule("hostname-removed"), message).about_all(subjects);
    let finding = finding
        .seen(["LB-IPAM serves these Services, and keeps only IP addresses in a status".to_owned()])
        .causes("clients lose the name: external-dns deletes the DNS records that point to it");
    Some(finding.help("create the Services with the `spec.loadBalancerClass` of the program that gave the hostnames"))
}
