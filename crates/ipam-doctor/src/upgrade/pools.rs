//! How the next release reads a LoadBalancer pool: the fields that it no longer reads, and whether
//! it uses the first and last address of a CIDR.

use std::net::IpAddr;

use super::change::{Cause, Changes, FileEdit, UpgradeCode};
use super::{HopView, loss};
use ipam_cilium::behaviours;
use ipam_cilium::lbipam::{AddressRange, FirstLast, LbRules, LossReason, RangeForm, ServingState};
use ipam_cilium::observed::SeenAddressPool;
use ipam_core::model::ObjectRef;
use ipam_core::net::Range;
use ipam_desired::WantedAddressPool;

pub(super) fn judge(hop: &HopView<'_>, changes: &mut Changes) {
    let (rules, next_rules) = (hop.before.lb_rules(), hop.after.lb_rules());
    for pool in hop.before.address_pools.values() {
        unread_cidrs(pool, hop, (&rules, &next_rules), changes);
        first_and_last(pool, hop, (&rules, &next_rules), changes);
    }
    several_pools(hop, changes);
    conditions(hop, changes);
}

/// The pool in the files, if they declare it.
fn in_files<'d>(hop: &HopView<'d>, name: &str) -> Option<&'d WantedAddressPool> {
    let mut wanted = hop.desired?.address_pools.values();
    wanted.find(|wanted| wanted.name.as_str() == name)
}

/// Adds the line of the pools in the files that cover an address, if an edit there keeps it.
pub(super) fn add_edit_for_loss(
    hop: &HopView<'_>,
    (address, why): (IpAddr, LossReason),
    cause: &Cause,
    changes: &mut Changes,
) {
    let Some(edit) = loss::edit(why) else {
        return;
    };
    let range = Range::from(address);
    for pool in hop.before.address_pools.values() {
        if pool.manifest.spec.ranges().any(|own| own.contains(&range)) {
            let code = (UpgradeCode::AddressLost, cause.clone());
            add_edit(hop, &pool.name, code, edit, changes);
        }
    }
}

fn add_edit(
    hop: &HopView<'_>,
    name: &str,
    (code, cause): (UpgradeCode, Cause),
    edit: &str,
    changes: &mut Changes,
) {
    if let Some(wanted) = in_files(hop, name) {
        let edit = FileEdit {
            origin: wanted.origin.clone(),
            edit: edit.to_owned(),
        };
        changes.add_edit(code, cause, edit);
    }
}

fn unread_cidrs(
    pool: &SeenAddressPool,
    hop: &HopView<'_>,
    (rules, next_rules): (&LbRules, &LbRules),
    changes: &mut Changes,
) {
    let spec = &pool.manifest.spec;
    let is_lost = |rules: &LbRules| rules.is_of(behaviours::POOL_CIDRS);
    if spec.cidrs.is_empty() || !is_lost(rules) || is_lost(next_rules) {
        return;
    }
    let texts: Vec<String> = spec.cidrs.iter().map(|block| block.text()).collect();
    let effect = format!("`spec.cidrs` is dropped: {}", texts.join(" "));
    let subject = ObjectRef::address_pool(&pool.name);
    changes.add(UpgradeCode::PoolField, loss::cidrs(), subject, effect);
    let declares_cidrs =
        in_files(hop, &pool.name).is_some_and(|wanted| !wanted.manifest.spec.cidrs.is_empty());
    let edit = match declares_cidrs {
        true => "rename `cidrs` to `blocks`",
        false => "apply this pool at 1.15: the files have `blocks` already",
    };
    add_edit(
        hop,
        &pool.name,
        (UpgradeCode::PoolField, loss::cidrs()),
        edit,
        changes,
    );
}

/// Pools whose first and last addresses are given out from this hop on, or no longer.
fn first_and_last(
    pool: &SeenAddressPool,
    hop: &HopView<'_>,
    (rules, next_rules): (&LbRules, &LbRules),
    changes: &mut Changes,
) {
    let first_last = pool.manifest.spec.first_last();
    let given = |range: &&AddressRange| {
        range.form == RangeForm::Cidr
            && rules.reserves_first_and_last(first_last, range)
            && !next_rules.reserves_first_and_last(first_last, range)
    };
    // Of `spec.cidrs` as well: they stay, as `spec.blocks`, if the pool is converted in time.
    let read = pool.as_read(rules);
    let ranges: Vec<String> = read
        .ranges
        .iter()
        .filter(given)
        .map(|range| match range.range.width() {
            0 => range.range.first().to_string(),
            _ => format!("{} and {}", range.range.first(), range.range.last()),
        })
        .collect();
    if ranges.is_empty() || read.state == ServingState::Disabled {
        return;
    }
    let cause = match (first_last, hop.crosses(16)) {
        (FirstLast::Unset, true) => flipped_default(),
        _ => read_from_1_15(),
    };
    let effect = format!("gives out {}", ranges.join(", "));
    let subject = ObjectRef::address_pool(&pool.name);
    changes.add(UpgradeCode::FirstLast, cause.clone(), subject, effect);
    let edit = "add `allowFirstLastIPs: \"No\"` to `spec`";
    add_edit(
        hop,
        &pool.name,
        (UpgradeCode::FirstLast, cause),
        edit,
        changes,
    );
}

fn flipped_default() -> Cause {
    Cause {
        why: "without `allowFirstLastIPs`, Cilium up to 1.15 reserves the first and the last address of a CIDR, and 1.16 and later give them to Services".to_owned(),
        source: "Cilium 1.16, Documentation/operations/upgrade.rst; cilium#28591",
        before: "if a router or a broadcast address is there, set `allowFirstLastIPs: \"No\"` at 1.15".to_owned(),
    }
}

fn read_from_1_15() -> Cause {
    Cause {
        why: "Cilium up to 1.14 always reserves the first and the last address of a CIDR; 1.15 reads `allowFirstLastIPs`, and reserves none of a CIDR of one or two addresses".to_owned(),
        source: "operator/pkg/lbipam @ Cilium 1.15.19",
        before: "remove addresses that no Service shall get from the pool".to_owned(),
    }
}

/// From 1.20 on, a Service that several pools select gets an address of any of them.
fn several_pools(hop: &HopView<'_>, changes: &mut Changes) {
    if !hop.crosses(20) {
        return;
    }
    let rules = hop.after.lb_rules();
    let pools = hop.after.address_pools_as_read(&rules);
    for service in hop.after.services.values() {
        if !service.requested(&rules).is_empty() || !rules.serves(service) {
            continue;
        }
        let names: Vec<String> = pools
            .iter()
            .filter(|pool| pool.state == ServingState::Enabled && !pool.ranges.is_empty())
            .filter(|pool| pool.selects(&service.labels))
            .map(|pool| format!("`{}`", pool.name.escape_debug()))
            .collect();
        if names.len() < 2 {
            continue;
        }
        let cause = Cause {
            why: "several pools select the Service: up to 1.19 the first one with room gives an address, from 1.20 on any of them".to_owned(),
            source: "operator/pkg/lbipam/lbipam.go @ Cilium 1.20.2, which iterates a Go map",
            before: "give the pools disjoint selectors, or pin the Services with `cilium-ipam lb freeze`".to_owned(),
        };
        let effect = format!("a new address comes from {}", names.join(" or "));
        changes.add(
            UpgradeCode::PoolChoice,
            cause,
            ObjectRef::service(&service.name),
            effect,
        );
    }
}

/// The names of conditions change at 1.15.
fn conditions(hop: &HopView<'_>, changes: &mut Changes) {
    if !hop.crosses(15) {
        return;
    }
    let cause = || Cause {
        why: "Cilium 1.15 and later have other names of conditions".to_owned(),
        source: "operator/pkg/lbipam @ Cilium 1.15.19",
        before: "adapt alerts and scripts that read the conditions".to_owned(),
    };
    for name in hop.before.address_pools.keys() {
        let effect = "`io.cilium/conflict` becomes `cilium.io/PoolConflict`, and the counts `cilium.io/IPsTotal`, `IPsAvailable` and `IPsUsed`";
        let subject = ObjectRef::address_pool(name);
        changes.add(
            UpgradeCode::ConditionNames,
            cause(),
            subject,
            effect.to_owned(),
        );
    }
    let rules = hop.before.lb_rules();
    for service in hop.before.services.values() {
        let is_ours = rules.serves(service);
        if is_ours && !hop.before.address_pools.is_empty() {
            let effect =
                "`io.cilium/lb-ipam-request-satisfied` becomes `cilium.io/IPAMRequestSatisfied`";
            let subject = ObjectRef::service(&service.name);
            changes.add(
                UpgradeCode::ConditionNames,
                cause(),
                subject,
                effect.to_owned(),
            );
        }
    }
}
