//! Rules on LoadBalancer pools and Services in the cluster: faults now, after a restart of the
//! operator and after an upgrade.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::sharing::ways_to_share;
use ipam_cilium::behaviours;
use ipam_cilium::lbipam::{
    AddressPool, Certainty, ClassUse, Conflict, Evaluated, Fatal, LbRules, LbService, LossReason,
    OperatorState, ServiceOutcome, conflicts, evaluate, may_share,
};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, ObjectRef, Rule, ServiceName, Severity, grouped_digits};
use ipam_core::net::Range;

/// Services that a message names; more are counted.
const NAMED: usize = 10;

type Losses = BTreeMap<(ServiceName, IpAddr), LossReason>;

/// Input of every rule here.
struct View<'o> {
    observed: &'o Observed,
    rules: LbRules,
    /// The pools as the running operator reads them.
    pools: Vec<AddressPool>,
    /// Addresses that Services lose when the running operator restarts.
    at_restart: Losses,
    /// Addresses that they may lose then.
    at_stake: Losses,
    /// What makes the next operator panic.
    fatal: Option<Fatal>,
}

pub(super) fn of_cluster(observed: &Observed) -> Vec<Finding> {
    let rules = observed.lb_rules();
    let pools = observed.address_pools_as_read(&rules);
    let Evaluated {
        outcomes, fatal, ..
    } = at_start(observed, &pools, &rules);
    let at_restart = losses(&outcomes, |outcome| &outcome.loses);
    let at_stake = losses(&outcomes, |outcome| &outcome.contested);
    let view = View {
        observed,
        rules,
        pools,
        at_restart,
        at_stake,
        fatal,
    };
    let rules: [fn(&View<'_>) -> Vec<Finding>; 5] = [
        operator_panics,
        overlapping_address_pools,
        addresses_held_twice,
        addresses_lost_at_restart,
        addresses_lost_at_upgrade,
    ];
    rules.iter().flat_map(|rule| rule(&view)).collect()
}

/// What becomes of Services when an operator of these rules starts with these pools.
pub fn at_start(observed: &Observed, pools: &[AddressPool], rules: &LbRules) -> Evaluated {
    let services = observed.services.values();
    evaluate(pools, services, rules, OperatorState::Restarted)
}

/// A Service at which the next operator panics: it serves none at all.
fn operator_panics(view: &View<'_>) -> Vec<Finding> {
    let finding = |fatal: &Fatal| {
        let (service, pool) = (fatal.service.to_string(), fatal.pool.escape_debug());
        let message = format!(
            "Cilium {}'s operator panics when it starts, because the Service `{}` has a sharing key and requests {}, which the pool `{pool}` reserves: no Service gets an address",
            view.rules.version(),
            service.escape_debug(),
            fatal.address,
        );
        let finding = Finding::new(Severity::Error, Rule("operator-panics"), message);
        finding
            .about(ObjectRef::service(&fatal.service))
            .help("remove the request or the sharing key, or set `allowFirstLastIPs: \"Yes\"` in the pool")
    };
    view.fatal.iter().map(finding).collect()
}

/// The addresses that Services lose, or those that they may lose.
fn losses(
    outcomes: &BTreeMap<ServiceName, ServiceOutcome>,
    select: fn(&ServiceOutcome) -> &[(IpAddr, LossReason)],
) -> Losses {
    let of_service = |(name, outcome): (&ServiceName, &ServiceOutcome)| {
        let lost = select(outcome).iter();
        lost.map(|(address, why)| ((name.clone(), *address), *why))
            .collect::<Vec<_>>()
    };
    outcomes.iter().flat_map(of_service).collect()
}

/// `default/a 10.0.0.1, default/b 10.0.0.2 and 7 more`.
fn named<'l>(lost: impl ExactSizeIterator<Item = &'l (ServiceName, IpAddr)>) -> String {
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

/// Addresses that the running operator keeps, and the next one removes or may give to another
/// Service.
fn addresses_lost_at_restart(view: &View<'_>) -> Vec<Finding> {
    let mut by_reason: BTreeMap<(Certainty, LossReason), Vec<&(ServiceName, IpAddr)>> =
        BTreeMap::new();
    let running = evaluate(
        &view.pools,
        view.observed.services.values(),
        &view.rules,
        OperatorState::Running(&view.pools),
    );
    let is_kept_now = |(name, address): &(ServiceName, IpAddr)| {
        let outcome = running.outcomes.get(name);
        outcome.is_some_and(|outcome| outcome.keeps.contains(address))
    };
    for (lost, why) in &view.at_restart {
        // Two holders of one address have their own finding.
        if is_of_pool(*why) || (*why != LossReason::Taken && is_kept_now(lost)) {
            by_reason
                .entry((Certainty::Certain, *why))
                .or_default()
                .push(lost);
        }
    }
    for (lost, why) in &view.at_stake {
        by_reason
            .entry((Certainty::LeftToChance, *why))
            .or_default()
            .push(lost);
    }
    let finding = |((certainty, why), lost): ((Certainty, LossReason), Vec<_>)| {
        let effect = match certainty {
            Certainty::Certain => "keep their addresses only until the Cilium operator restarts",
            Certainty::LeftToChance => "may lose their addresses when the Cilium operator restarts",
        };
        let because = match why {
            LossReason::PoolDisabled => "the pool is disabled".to_owned(),
            LossReason::PoolConflicting => "the pool overlaps another one".to_owned(),
            LossReason::Reserved => "their pool reserves the first and the last address".to_owned(),
            LossReason::Waiting => {
                let version = view.rules.version();
                format!("Cilium {version} may serve a Service that waits before them")
            }
            other => other.to_string(),
        };
        let message = format!(
            "Services that {effect}, because {because}: {}",
            named(lost.into_iter())
        );
        let finding = Finding::new(
            Severity::Warning,
            Rule("addresses-lost-at-restart"),
            message,
        );
        finding.help(way_out(why))
    };
    by_reason.into_iter().map(finding).collect()
}

/// Whether the running operator keeps each address that is lost for this reason.
fn is_of_pool(why: LossReason) -> bool {
    matches!(
        why,
        LossReason::PoolDisabled | LossReason::PoolConflicting | LossReason::Reserved
    )
}

fn way_out(why: LossReason) -> &'static str {
    match why {
        LossReason::PoolDisabled => {
            "enable the pool, and change its selector so that it selects no new Service"
        }
        LossReason::Reserved => {
            "set `allowFirstLastIPs: Yes`, or give the Services other addresses"
        }
        LossReason::Waiting => {
            "give the pool room for the Services that wait, let the Services request the addresses that they have, or upgrade to Cilium 1.18.2 or later"
        }
        LossReason::SharingKey => "let the Services request the addresses that they have",
        LossReason::NoLongerShared | LossReason::Taken => {
            "give all but one of them another address, or make them compatible"
        }
        LossReason::PoolConflicting => "remove the addresses from one of the two pools",
        LossReason::NoPool
        | LossReason::NotSelected
        | LossReason::Rejoined
        | LossReason::NotRequested
        | LossReason::BlockEdited
        | LossReason::Hostname
        | LossReason::UnknownPool => "correct the pool or the Service before the operator restarts",
    }
}

/// Addresses that the rules of Cilium 1.16 and later take away: mostly those in `spec.cidrs`, which
/// they do not read.
fn addresses_lost_at_upgrade(view: &View<'_>) -> Vec<Finding> {
    let View {
        observed,
        rules,
        at_restart,
        ..
    } = view;
    let upgraded = rules.upgraded();
    if !rules.is_of(behaviours::POOL_CIDRS) || upgraded.is_of(behaviours::POOL_CIDRS) {
        return Vec::new();
    }
    let pools = observed.address_pools_as_read(&upgraded);
    let outcomes = at_start(observed, &pools, &upgraded).outcomes;
    let mut lost = losses(&outcomes, |outcome| &outcome.loses);
    lost.retain(|lost, _| !at_restart.contains_key(lost));
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

/// Why an upgrade to 1.16 or later takes an address away, and the way out.
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
            let help = "`cilium-ipam upgrade --to 1.16` names the cause and the way out";
            return (format!("because {other}"), help);
        }
    };
    (because.to_owned(), help)
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
    conflicts(&view.pools, OperatorState::Running(&view.pools))
        .into_iter()
        .map(finding)
        .collect()
}

/// Services that have one address and do not share it: overlapping pools gave it twice, or a Service
/// has changed since.
fn addresses_held_twice(view: &View<'_>) -> Vec<Finding> {
    let View {
        observed, rules, ..
    } = view;
    let mut holders: BTreeMap<IpAddr, Vec<&LbService>> = BTreeMap::new();
    for service in observed
        .services
        .values()
        .filter(|s| rules.class_use(s.class.as_deref()) == ClassUse::Ours)
    {
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
    match view.pools.iter().filter(covers).count() {
        0 | 1 => "Let one of them request another address",
        _ => "Remove the address from one of the overlapping pools",
    }
}
