//! Rules on LoadBalancer pools and Services as the cluster has them: what is wrong already, and
//! what goes wrong when the operator restarts or is upgraded.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipam_cilium::lbipam::{
    AddressPool, Certainty, ClassUse, Conflict, LbRules, LbService, Loss, OperatorState, Outlook,
    conflicts, evaluate, may_share,
};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, ObjectRef, Rule, ServiceName, Severity, grouped_digits};

/// Services that are named one by one; more are counted.
const NAMED: usize = 10;

type Losses = BTreeMap<(ServiceName, IpAddr), Loss>;

/// What the rules here have in common.
struct View<'o> {
    observed: &'o Observed,
    rules: LbRules,
    /// As the running operator reads them.
    pools: Vec<AddressPool>,
    /// Addresses that go when the running operator restarts.
    at_restart: Losses,
}

/// What all rules here find.
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
    let losses = |(name, outlook): (ServiceName, Outlook)| {
        outlook
            .loses
            .into_iter()
            .map(move |(address, why)| ((name.clone(), address), why))
            .collect::<Vec<_>>()
    };
    evaluated.outlooks.into_iter().flat_map(losses).collect()
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

/// Addresses in pools that are disabled or in conflict, which the running operator leaves alone and
/// the next one takes away.
fn addresses_lost_at_restart(view: &View<'_>) -> Vec<Finding> {
    let mut by_reason: BTreeMap<Loss, Vec<&(ServiceName, IpAddr)>> = BTreeMap::new();
    for (lost, why) in &view.at_restart {
        if matches!(why, Loss::PoolDisabled | Loss::PoolConflicting) {
            by_reason.entry(*why).or_default().push(lost);
        }
    }
    let finding = |(why, lost): (Loss, Vec<&(ServiceName, IpAddr)>)| {
        let message = format!(
            "Services that keep their addresses only until the Cilium operator restarts, because {}: {}",
            match why {
                Loss::PoolDisabled => "the pool is disabled",
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
            Loss::PoolDisabled => {
                "enable the pool and take its selector away from new Services instead"
            }
            _ => "take the addresses out of one of the two pools",
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

/// Pools that are, or may be, out of use because they overlap.
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
            Certainty::LeftToChance => "it is left to chance which of them Cilium puts out of use",
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
            .help("take the addresses out of one of them")
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
            "packets reach one of them only: take the address out of one of the pools that overlap",
        ))
    };
    holders.into_iter().filter_map(finding).collect()
}
