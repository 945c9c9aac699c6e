//! Rules on LoadBalancer pools and Services in the cluster: faults now, after a restart of the
//! operator and after an upgrade.

use std::collections::BTreeMap;
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
    let rules: [fn(&View<'_>) -> Vec<Finding>; 4] = [
        overlapping_address_pools,
        addresses_held_twice,
        addresses_lost_at_restart,
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

/// Addresses in pools that are disabled or in conflict. The running operator keeps them, and the
/// next one removes them.
fn addresses_lost_at_restart(view: &View<'_>) -> Vec<Finding> {
    let mut by_reason: BTreeMap<LossReason, Vec<&(ServiceName, IpAddr)>> = BTreeMap::new();
    for (lost, why) in &view.at_restart {
        if matches!(why, LossReason::PoolDisabled | LossReason::PoolConflicting) {
            by_reason.entry(*why).or_default().push(lost);
        }
    }
    let finding = |(why, lost): (LossReason, Vec<&(ServiceName, IpAddr)>)| {
        let message = format!(
            "Services that keep their addresses only until the Cilium operator restarts, because {}: {}",
            match why {
                LossReason::PoolDisabled => "the pool is disabled",
                _ => "the pool overlaps another one",
            },
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
            _ => "remove the addresses from one of the two pools",
        })
    };
    by_reason.into_iter().map(finding).collect()
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
