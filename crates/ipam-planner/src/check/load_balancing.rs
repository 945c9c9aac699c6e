//! Rules on LoadBalancer pools and Services in the cluster: faults now, after a restart of the
//! operator and after an upgrade.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipam_cilium::lbipam::{
    AddressPool, Certainty, ClassUse, Conflict, LbRules, LbService, LossReason, OperatorState,
    ServiceOutcome, conflicts, evaluate, may_share,
};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, ObjectRef, Rule, ServiceName, Severity, grouped_digits};

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
}

pub(super) fn of_cluster(observed: &Observed) -> Vec<Finding> {
    let rules = observed.lb_rules();
    let pools = observed.address_pools_as_read(&rules);
    let at_restart = lost_at_start(observed, &pools, &rules);
    let view = View {
        observed,
        rules,
        pools,
        at_restart,
    };
    let rules: [fn(&View<'_>) -> Vec<Finding>; 5] = [
        overlapping_address_pools,
        addresses_held_twice,
        addresses_lost_at_restart,
        addresses_contested_at_restart,
        addresses_lost_at_upgrade,
    ];
    rules.iter().flat_map(|rule| rule(&view)).collect()
}

/// Addresses that Services lose when an operator of these rules starts with these pools.
fn lost_at_start(observed: &Observed, pools: &[AddressPool], rules: &LbRules) -> Losses {
    let evaluated = evaluate(
        pools,
        observed.services.values(),
        rules,
        OperatorState::Restarted,
    );
    let losses = |(name, outlook): (ServiceName, ServiceOutcome)| {
        outlook
            .loses
            .into_iter()
            .map(move |(address, why)| ((name.clone(), address), why))
            .collect::<Vec<_>>()
    };
    evaluated.outcomes.into_iter().flat_map(losses).collect()
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

/// Addresses that the running operator keeps, and that the next one takes away.
fn addresses_lost_at_restart(view: &View<'_>) -> Vec<Finding> {
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
    let mut by_reason: BTreeMap<LossReason, Vec<&(ServiceName, IpAddr)>> = BTreeMap::new();
    for (lost, why) in &view.at_restart {
        let is_of_pool = matches!(why, LossReason::PoolDisabled | LossReason::PoolConflicting);
        // Two holders of one address have their own finding.
        if is_of_pool || (*why != LossReason::Taken && is_kept_now(lost)) {
            by_reason.entry(*why).or_default().push(lost);
        }
    }
    by_reason.into_iter().map(of_losses).collect()
}

fn of_losses((why, lost): (LossReason, Vec<&(ServiceName, IpAddr)>)) -> Finding {
    let because = match why {
        LossReason::PoolDisabled => "the pool is disabled",
        LossReason::PoolConflicting => "the pool overlaps another one",
        other => other.as_str(),
    };
    let message = format!(
        "Services that keep their addresses only until the Cilium operator restarts, because {because}: {}",
        named(lost.into_iter())
    );
    let finding = Finding::new(
        Severity::Warning,
        Rule("addresses-lost-at-restart"),
        message,
    );
    finding.help(match why {
        LossReason::PoolDisabled => {
            "enable the pool, and change its selector so that it selects no new Service"
        }
        LossReason::PoolConflicting => "remove the addresses from one of the two pools",
        LossReason::Reserved => {
            "set `allowFirstLastIPs: \"Yes\"` on the pool, or ask for another address of it"
        }
        LossReason::NoPool
        | LossReason::NotSelected
        | LossReason::NotRequested
        | LossReason::Taken => "correct the pool or the Service before the operator restarts",
    })
}

/// Addresses that another Service may get first when the operator restarts.
fn addresses_contested_at_restart(view: &View<'_>) -> Vec<Finding> {
    let contested = |state| {
        let services = view.observed.services.values();
        let evaluated = evaluate(&view.pools, services, &view.rules, state);
        let of_outcome = |(name, outcome): (ServiceName, ServiceOutcome)| {
            let addresses = outcome.contested.into_iter();
            addresses
                .map(move |address| (name.clone(), address))
                .collect::<Vec<_>>()
        };
        let outcomes = evaluated.outcomes.into_iter();
        outcomes.flat_map(of_outcome).collect::<BTreeSet<_>>()
    };
    let now = contested(OperatorState::Running(&view.pools));
    let later = contested(OperatorState::Restarted);
    let may_be_lost: Vec<&(ServiceName, IpAddr)> = later.difference(&now).collect();
    if may_be_lost.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "Services that may get other addresses when the Cilium operator restarts, because others wait or share with them: {}",
        named(may_be_lost.into_iter())
    );
    let finding = Finding::new(
        Severity::Warning,
        Rule("addresses-lost-at-restart"),
        message,
    );
    vec![finding.help("before the operator restarts, let no Service wait for an address, and ask for each shared address by annotation; from 1.18.2 on, Services that wait come last")]
}

/// Addresses in `spec.cidrs`, which Cilium 1.16 and later do not read.
fn addresses_lost_at_upgrade(view: &View<'_>) -> Vec<Finding> {
    let View {
        observed,
        rules,
        at_restart,
        ..
    } = view;
    let upgraded = rules.upgraded();
    if !rules.reads_cidrs() || upgraded.reads_cidrs() {
        return Vec::new();
    }
    let mut lost = lost_at_start(
        observed,
        &observed.address_pools_as_read(&upgraded),
        &upgraded,
    );
    lost.retain(|lost, _| !at_restart.contains_key(lost));
    if lost.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "Services that lose their addresses when Cilium is upgraded to 1.16 or later, which does not read `spec.cidrs` of their pools: {}",
        named(lost.keys())
    );
    let finding = Finding::new(
        Severity::Warning,
        Rule("addresses-lost-at-upgrade"),
        message,
    );
    vec![finding.help("move the entries of `spec.cidrs` to `spec.blocks` before the upgrade; 1.15 reads both alike")]
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

/// Services that have one address and do not share it: overlapping pools gave it twice.
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
        let finding = Finding::new(Severity::Error, Rule("address-held-twice"), message);
        Some(finding.help(
            "packets reach only one of them: if they shall share it, give both the same annotation `lbipam.cilium.io/sharing-key`; otherwise, remove the address from one of the overlapping pools",
        ))
    };
    holders.into_iter().filter_map(finding).collect()
}
