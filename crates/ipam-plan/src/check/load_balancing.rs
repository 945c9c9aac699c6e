//! Rules on LoadBalancer pools and Services in the cluster: faults now, after a restart of the
//! operator and after an upgrade.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::lost_addresses;
use super::second_controllers;
use super::sharing::ways_to_share;
use crate::plan::{LossTime, Outlook, at_start};
use ipam_cilium::behaviours;
use ipam_cilium::lbipam::{
    AddressPool, Certainty, Conflict, Fatal, LbRules, LbService, LossReason, NotServed,
    OperatorState, ServiceOutcome, conflicts, may_share,
};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, ObjectRef, Rule, ServiceName, Severity, grouped_digits};
use ipam_core::net::Range;

/// Limit of the Services that a message names; more are counted.
const NAMED: usize = 10;

type Losses = BTreeMap<(ServiceName, IpAddr), LossReason>;

/// Lost addresses by the time, certainty and reason of their loss.
type ByCause = BTreeMap<(LossTime, Certainty, LossReason), Vec<(ServiceName, IpAddr)>>;

/// Input of the checks of load balancing.
pub(super) struct View<'o> {
    pub(super) observed: &'o Observed,
    pub(super) outlook: &'o Outlook<'o>,
    pub(super) lost: ByCause,
}

pub(super) fn of_cluster(observed: &Observed, outlook: &Outlook<'_>) -> Vec<Finding> {
    let mut lost = ByCause::new();
    // Services with a second controller have their own finding.
    let has_second = |name: &ServiceName| {
        let service = outlook.service(name);
        service.is_some_and(|one| {
            second_controllers::second_controller(one, observed, &outlook.rules).is_some()
        })
    };
    for (service, one) in outlook.all_lost() {
        if let Some(address) = one.address.ip()
            && !has_second(service)
        {
            let cause = (one.when, one.certainty, one.why);
            lost.entry(cause)
                .or_default()
                .push((service.clone(), address));
        }
    }
    let view = View {
        observed,
        outlook,
        lost,
    };
    let rules: [fn(&View<'_>) -> Vec<Finding>; 8] = [
        second_controllers::of_cluster,
        operator_panics,
        addresses_without_owner,
        overlapping_address_pools,
        addresses_held_twice,
        lost_addresses::now,
        lost_addresses::at_restart,
        addresses_lost_at_upgrade,
    ];
    rules.iter().flat_map(|rule| rule(&view)).collect()
}

/// A Service at which the next operator panics: it serves none at all.
fn operator_panics(view: &View<'_>) -> Vec<Finding> {
    let finding = |fatal: &Fatal| {
        let (service, pool) = (fatal.service.to_string(), fatal.pool.escape_debug());
        let message = format!(
            "Cilium {}'s operator panics when it starts, because the Service `{}` has a sharing key and requests {}, which the pool `{pool}` reserves: no Service gets an address",
            view.outlook.rules.version(),
            service.escape_debug(),
            fatal.address,
        );
        let finding = Finding::new(Severity::Error, Rule("operator-panics"), message);
        finding
            .about(ObjectRef::service(&fatal.service))
            .help("remove the request or the sharing key, or set `allowFirstLastIPs: \"Yes\"` in the pool")
    };
    view.outlook.fatal().into_iter().map(finding).collect()
}

/// `default/a 10.0.0.1, default/b 10.0.0.2 and 7 more`.
pub(super) fn named<'l>(lost: impl ExactSizeIterator<Item = &'l (ServiceName, IpAddr)>) -> String {
    let count = lost.len();
    let text = |(name, address): &(ServiceName, IpAddr)| {
        format!("`{}` {address}", name.to_string().escape_debug())
    };
    let first: Vec<String> = lost.take(NAMED).map(text).collect();
    let more = if count > NAMED {
        format!(" and {} more, see `show lb`", grouped_digits(count - NAMED))
    } else {
        String::new()
    };
    format!("{}{more}", first.join(", "))
}

/// Addresses that the rules of Cilium 1.16 and later take away: mostly those in `spec.cidrs`, which
/// they do not read.
fn addresses_lost_at_upgrade(view: &View<'_>) -> Vec<Finding> {
    let (observed, rules) = (view.observed, &view.outlook.rules);
    let upgraded = rules.upgraded();
    if !rules.is_of(behaviours::POOL_CIDRS) || upgraded.is_of(behaviours::POOL_CIDRS) {
        return Vec::new();
    }
    let pools = observed.address_pools_as_read(&upgraded);
    let outcomes = at_start(observed, &pools, &upgraded).outcomes;
    let is_certain = |(when, certainty, _): &(LossTime, Certainty, LossReason)| {
        *certainty == Certainty::Certain && *when <= LossTime::OperatorRestart
    };
    let before = view.lost.iter().filter(|(cause, _)| is_certain(cause));
    let before: BTreeSet<&(ServiceName, IpAddr)> = before.flat_map(|(_, lost)| lost).collect();
    let of_service = |(name, outcome): (ServiceName, ServiceOutcome)| {
        let lost = outcome.loses.into_iter();
        lost.map(move |(address, why)| ((name.clone(), address), why))
    };
    let mut lost: Losses = outcomes.into_iter().flat_map(of_service).collect();
    lost.retain(|lost, _| !before.contains(lost));
    let mut by_cause: BTreeMap<(String, &str), Vec<&(ServiceName, IpAddr)>> = BTreeMap::new();
    for (lost, why) in &lost {
        let cause = cause_at_upgrade(lost.1, *why, observed);
        by_cause.entry(cause).or_default().push(lost);
    }
    let finding = |((because, help), lost): ((String, &str), Vec<&(ServiceName, IpAddr)>)| {
        let message = format!(
            "Services that lose their addresses when Cilium is upgraded to 1.16 or later, {because}: {}",
            named(lost.into_iter())
        );
        Finding::new(
            Severity::Warning,
            Rule("addresses-lost-at-upgrade"),
            message,
        )
        .help(help)
    };
    by_cause.into_iter().map(finding).collect()
}

/// Why an upgrade to 1.16 or later takes an address away, and how to keep it.
fn cause_at_upgrade(
    address: IpAddr,
    why: LossReason,
    observed: &Observed,
) -> (String, &'static str) {
    let own = Range::from(address);
    let of_cidrs = observed.address_pools.values().any(|pool| {
        let cidrs = pool.manifest.spec.cidrs.iter();
        cidrs
            .filter_map(|block| block.range())
            .any(|one| one.range.contains(&own))
    });
    let (because, help) = match why {
        LossReason::NoPool if of_cidrs => (
            "which does not read `spec.cidrs` of their pools",
            "move the entries of `spec.cidrs` to `spec.blocks` before the upgrade; 1.15 reads both alike",
        ),
        LossReason::NotRequested => (
            "where `lbipam.cilium.io/ips` hides `io.cilium/lb-ipam-ips`, and the two differ",
            "set both annotations to the address that the Service has before the upgrade",
        ),
        LossReason::Taken => (
            "where `lbipam.cilium.io/sharing-key` hides `io.cilium/lb-ipam-sharing-key`, and the two differ",
            "set both annotations to the key that the Service has before the upgrade",
        ),
        other => {
            let help = "`cilium-ipam upgrade --to 1.16` names the cause and the fix";
            return (format!("because {other}"), help);
        }
    };
    (because.to_owned(), help)
}

pub(super) fn naming_services(finding: Finding, lost: &[(ServiceName, IpAddr)]) -> Finding {
    finding.about_all(lost.iter().map(|(name, _)| ObjectRef::service(name)))
}

/// Services with addresses of pools that LB-IPAM does not serve, so that it takes the addresses for free.
fn addresses_without_owner(view: &View<'_>) -> Vec<Finding> {
    let mut by_reason: BTreeMap<NotServed, Vec<(&LbService, IpAddr)>> = BTreeMap::new();
    for (service, why, addresses) in view.outlook.not_served() {
        let of_service = addresses.into_iter().map(|address| (service, address));
        by_reason.entry(why).or_default().extend(of_service);
    }
    let finding = |(why, held): (NotServed, Vec<(&LbService, IpAddr)>)| {
        let name = |(service, address): &(&LbService, IpAddr)| (service.name.clone(), *address);
        let lost: Vec<(ServiceName, IpAddr)> = held.iter().map(name).collect();
        let message = format!(
            "LB-IPAM does not serve Services that have addresses of its pools, because {why}: {}",
            named(lost.iter())
        );
        let given = held
            .iter()
            .filter(|(service, _)| service.reason.as_deref() == Some("satisfied"));
        let seen = match given.count() {
            0 => None,
            count => Some(format!(
                "{} by Cilium's condition IPAMRequestSatisfied: an operator that did not have this setting",
                ipam_core::model::count(count, "address given")
            )),
        };
        let causes = match why {
            NotServed::SwitchedOff => {
                "the addresses stay in the status, and Services that wait get none"
            }
            _ => {
                "an operator that has read its settings takes these addresses for free, and may give them to other Services"
            }
        };
        let finding = Finding::new(Severity::Warning, Rule("addresses-without-owner"), message);
        let finding = naming_services(finding, &lost).seen(seen).causes(causes);
        finding.help(way_back(&why, &view.outlook.rules))
    };
    by_reason.into_iter().map(finding).collect()
}

fn way_back(why: &NotServed, rules: &LbRules) -> String {
    match why {
        NotServed::SwitchedOff => "set `enable-lb-ipam: \"true\"` in cilium-config and restart Cilium's operator, or delete the pools".to_owned(),
        NotServed::Default(_) => {
            let classes: Vec<String> = rules.classes().map(|class| format!("`{class}`")).collect();
            let anew = match &classes[..] {
                [] => String::new(),
                classes => format!("create the Services anew with the class {}, or ", classes.join(" or ")),
            };
            format!("{anew}set `default-lb-service-ipam: lbipam` in cilium-config; Cilium's operator reads it when it starts")
        }
        NotServed::PartOff { setting, .. } => format!("set `{setting}: \"true\"` in cilium-config and restart Cilium's operator and agents, or create the Services anew with another class"),
        NotServed::AnotherController(_) => "remove the addresses from the pool: two programs give them".to_owned(),
    }
}

/// Pools that Cilium does not use, or may not use, because they overlap.
fn overlapping_address_pools(view: &View<'_>) -> Vec<Finding> {
    let finding = |(name, conflict): (&str, Conflict)| {
        let Conflict {
            range,
            with,
            with_range,
            certainty,
        } = conflict;
        let other = if with == name {
            "itself".to_owned()
        } else {
            format!("`{}`", with.escape_debug())
        };
        let outcome = match certainty {
            Certainty::Certain => "Cilium gives no address of it",
            Certainty::LeftToChance => {
                "Cilium stops using one of them, and which one is left to chance"
            }
        };
        let message = format!(
            "CiliumLoadBalancerIPPool `{}` overlaps {other} ({range} and {with_range}): {outcome}",
            name.escape_debug()
        );
        let finding = Finding::new(Severity::Warning, Rule("address-pool-conflict"), message);
        let subject = ObjectRef {
            kind: "CiliumLoadBalancerIPPool",
            name: name.to_owned(),
        };
        finding
            .about(subject)
            .help("remove the addresses from one of them")
    };
    let pools = &view.outlook.pools;
    conflicts(pools, OperatorState::Running(pools))
        .into_iter()
        .map(finding)
        .collect()
}

/// Services that have one address and do not share it: overlapping pools gave it twice, or a Service
/// has changed since.
fn addresses_held_twice(view: &View<'_>) -> Vec<Finding> {
    let (observed, rules) = (view.observed, &view.outlook.rules);
    let mut holders: BTreeMap<IpAddr, Vec<&LbService>> = BTreeMap::new();
    for service in observed.services.values().filter(|s| rules.serves(s)) {
        service
            .ingress
            .iter()
            .for_each(|address| holders.entry(*address).or_default().push(service));
    }
    let finding = |(address, services): (IpAddr, Vec<&LbService>)| {
        let (first, others) = services.split_first()?;
        let other = others
            .iter()
            .find(|other| !may_share(first, other, rules))?;
        let name = |service: &LbService| service.name.to_string().escape_debug().to_string();
        let message = format!(
            "Services `{}` and `{}` both have {address} and do not share it",
            name(first),
            name(other)
        );
        let finding = Finding::new(Severity::Error, Rule("duplicate-address"), message);
        Some(finding.help(format!(
            "packets reach only one of them. {}; or let them share it: {}",
            way_apart(address, view),
            ways_to_share(first, other, rules).join("; ")
        )))
    };
    holders.into_iter().filter_map(finding).collect()
}

/// How two Services come to have different addresses.
fn way_apart(address: IpAddr, view: &View<'_>) -> &'static str {
    let own = Range::from(address);
    let covers = |pool: &&AddressPool| pool.ranges.iter().any(|one| one.range.contains(&own));
    match view.outlook.pools.iter().filter(covers).count() {
        0 | 1 => "Let one of them request another address",
        _ => "Remove the address from one of the overlapping pools",
    }
}
