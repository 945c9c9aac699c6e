//! Refusals of a plan because of LoadBalancer addresses.

use super::super::change::Change;
use super::simulate::{Effects, LostAddress};
use crate::plan::PoolAction;
use crate::plan::refusals::Refusal;
use ipam_cilium::lbipam::Certainty;
use ipam_cilium::observed::Observed;
use ipam_core::model::{
    AddressPoolName, Hazard, Rule, ServiceName, Waiver, first_of, grouped_digits,
};
use ipam_desired::Desired;

/// Limit of the Services that a refusal names; further ones are counted.
const NAMED: usize = 5;

pub(crate) fn refusals(
    changes: &[Change],
    effects: &Effects,
    desired: &Desired,
    observed: &Observed,
) -> Vec<Refusal> {
    let mut refusals: Vec<Refusal> = lost_addresses(effects).into_iter().collect();
    refusals.extend(left_to_chance(effects));
    refusals.extend(last_pools(changes, observed));
    refusals.extend(protected(changes, desired));
    refusals
}

/// A protected pool is not deleted, and no Service loses an address of it at once.
fn protected(changes: &[Change], desired: &Desired) -> Vec<Refusal> {
    let is_protected = |name: &AddressPoolName| {
        desired
            .policy
            .protected
            .pools
            .iter()
            .any(|protected| protected.as_str() == name.as_str())
    };
    let harmed = changes.iter().filter_map(|change| match change {
        Change::AddressPool(pool) if pool.hazard == Hazard::Destructive || pool.after.is_none() => {
            Some(&pool.object.name)
        }
        _ => None,
    });
    let refusal = |name: &AddressPoolName| Refusal {
        rule: Rule("protected-pool"),
        message: format!(
            "CiliumLoadBalancerIPPool `{name}` is protected, and would be deleted or take addresses from Services"
        ),
        help: "remove the protection first, in a change of its own".to_owned(),
        waiver: None,
    };
    harmed
        .filter(|name| is_protected(name))
        .map(refusal)
        .collect()
}

const KEEP_IN_A_POOL: &str =
    "keep each address in a pool until its Service is pinned to another one (`ServiceAssignment`)";

/// A pinned Service gets its address whatever the order in which the operator serves Services.
const PIN_FIRST: &str = "if the loss is not certain, undo the edit, run `cilium-ipam lb freeze` and `cilium-ipam apply`, then edit again";

const CREATE_WITH_CLASS: &str = "create Services with hostnames with the `spec.loadBalancerClass` of the program that gave them";

fn lost_addresses(effects: &Effects) -> Option<Refusal> {
    let count = u32::try_from(effects.lost().count()).unwrap_or(u32::MAX);
    if count == 0 {
        return None;
    }
    let of = |wanted: Certainty| {
        let lost = effects.lost();
        lost.filter(|(_, lost)| lost.certainty == wanted).collect()
    };
    let (certain, possible): (Vec<_>, Vec<_>) =
        (of(Certainty::Certain), of(Certainty::LeftToChance));
    let parts = [
        ("Services lose", KEEP_IN_A_POOL, certain),
        ("Services may lose", PIN_FIRST, possible),
    ];
    let parts = parts.into_iter().filter(|(_, _, lost)| !lost.is_empty());
    let (parts, mut fixes): (Vec<String>, Vec<&str>) = parts
        .map(|(who, fix, lost)| (losses(who, &lost), fix))
        .unzip();
    let is_hostname = |lost: &LostAddress| lost.address.ip().is_none();
    if effects.lost().any(|(_, lost)| is_hostname(lost)) {
        fixes.push(CREATE_WITH_CLASS);
    }
    let message = format!("now or later, {}", parts.join("; "));
    let waiver = Waiver::LostAddresses(count);
    let help = format!(
        "{}; or plan again with `--waive {waiver}`",
        fixes.join("; ")
    );
    Some(Refusal {
        rule: Rule("lost-addresses"),
        message,
        help,
        waiver: Some(waiver),
    })
}

/// `Services lose 2 addresses: shop/web 20.0.10.1, shop/api 20.0.10.2`.
fn losses(who: &str, lost: &[(&ServiceName, &LostAddress)]) -> String {
    let named = lost.iter();
    let named = named.map(|(service, lost)| format!("{service} {}", lost.address));
    let addresses = match lost.len() {
        1 => "1 address".to_owned(),
        several => format!("{} addresses", grouped_digits(several)),
    };
    format!("{who} {addresses}: {}", first_of(NAMED, named))
}

/// Cilium may disable either of two overlapping pools, with all its Services.
fn left_to_chance(effects: &Effects) -> Vec<Refusal> {
    let open = effects
        .conflicts
        .iter()
        .filter(|(_, conflict)| conflict.certainty == Certainty::LeftToChance);
    let refusal = |(name, conflict): (&String, &ipam_cilium::lbipam::Conflict)| Refusal {
        rule: Rule("overlap-order-undefined"),
        message: format!(
            "CiliumLoadBalancerIPPool `{}` would overlap `{}` ({} and {}), and it is left to chance which of them Cilium puts out of use",
            name.escape_debug(),
            conflict.with.escape_debug(),
            conflict.range,
            conflict.with_range
        ),
        help: "remove the addresses from one of them, in a change of its own".to_owned(),
        waiver: None,
    };
    open.map(refusal).collect()
}

/// A directory without any of our pools is more often the wrong directory than intended.
fn last_pools(changes: &[Change], observed: &Observed) -> Option<Refusal> {
    let deleted = |change: &&Change| matches!(change, Change::AddressPool(change) if change.action == PoolAction::Delete);
    let count = changes.iter().filter(deleted).count();
    let is_left = observed
        .address_pools
        .values()
        .filter(|pool| pool.is_ours())
        .count()
        > count;
    if count == 0 || is_left {
        return None;
    }
    Some(Refusal {
        rule: Rule("last-address-pools"),
        message: format!(
            "the files have none of our CiliumLoadBalancerIPPools, and all would be deleted ({count})"
        ),
        help: format!(
            "check that it is the right directory, since each cluster has its own; or plan again with `--waive {}`",
            Waiver::LastAddressPools
        ),
        waiver: Some(Waiver::LastAddressPools),
    })
}
