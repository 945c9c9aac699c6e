//! What a Policy allows that another one, its base, does not: what a reviewer must see first. Must
//! never know plans.

use ipam_core::model::{LimitName, Severity};
use ipam_core::net::{Range, covers, merge};

use crate::{Activity, AddressPairs, MigrationPolicy, Policy, PolicyRule, Protected};

/// What `head` weakens, one sentence each. Every field is named, so that a new one must be decided
/// on here.
pub fn weakened(base: &Policy, head: &Policy) -> Vec<String> {
    let Policy {
        origin: _,
        // These fields say where blocks are written and what is not reported. They allow nothing
        // more.
        write_path: _,
        own_address_space: _,
        address_pairs,
        acknowledged_allocators,
        excluded,
        quarantine,
        limits,
        failure_domain,
        protected,
        auto_apply,
        activity,
        migration,
        rules,
    } = base;
    let mut found = Vec::new();
    if base.origin.is_some() && head.origin.is_none() {
        found.push("the Policy is deleted".to_owned());
    }
    for (name, before) in limits {
        match head.limits.get(name) {
            Some(after) if after <= before => {}
            Some(after) => found.push(format!("limit `{name}` is raised from {before} to {after}")),
            None => found.push(format!("limit `{name}` of {before} is removed")),
        }
    }
    let counts_by_domain = |name: &LimitName| name.measure.is_by_domain();
    if *failure_domain != head.failure_domain && limits.keys().any(counts_by_domain) {
        found.push(format!(
            "limits per failure domain count by label `{}` instead of `{failure_domain}`",
            head.failure_domain
        ));
    }
    found.extend(
        rules
            .iter()
            .filter_map(|rule| weakened_rule(rule, &head.rules)),
    );
    if *address_pairs == AddressPairs::Ignored && head.address_pairs != AddressPairs::Ignored {
        found.push("ports in Neutron allow the pod CIDRs of their nodes".to_owned());
    }
    found.extend(unprotected(protected, &head.protected));
    found.extend(included(excluded, &head.excluded));
    let accepted = head
        .acknowledged_allocators
        .difference(acknowledged_allocators);
    found.extend(accepted.map(|name| {
        let name = name.escape_debug();
        format!("the other allocator `{name}` no longer blocks changes")
    }));
    if head.quarantine < *quarantine {
        found.push(format!(
            "the quarantine of freed blocks is shortened from {quarantine:#} to {:#}",
            head.quarantine
        ));
    }
    if head.auto_apply > *auto_apply {
        found.push(format!(
            "unattended changes up to hazard `{}` are allowed, instead of `{}`",
            head.auto_apply.as_str(),
            auto_apply.as_str()
        ));
    }
    if (*activity, head.activity) == (Activity::Paused, Activity::Active) {
        found.push("unattended changes are no longer paused".to_owned());
    }
    found.extend(weakened_migration(migration, &head.migration));
    found
}

/// The rules of `base` that `head` does not have as strictly: only these can refuse more.
pub fn weakened_rules(base: &Policy, head: &Policy) -> Vec<PolicyRule> {
    // A rule may ask for the failure domain of a change.
    let is_weakened = |rule: &&PolicyRule| {
        base.failure_domain != head.failure_domain || weakened_rule(rule, &head.rules).is_some()
    };
    base.rules.iter().filter(is_weakened).cloned().collect()
}

fn weakened_rule(rule: &PolicyRule, head: &[PolicyRule]) -> Option<String> {
    let PolicyRule {
        name,
        origin: _,
        severity,
        rule,
    } = rule;
    let Some(after) = head.iter().find(|one| one.name == *name) else {
        return Some(format!("rule `{name}` is removed"));
    };
    if after.rule.expression.source() != rule.expression.source() {
        return Some(format!("rule `{name}` has another expression"));
    }
    let is_softer = *severity == Severity::Error && after.severity != Severity::Error;
    is_softer.then(|| format!("rule `{name}` no longer refuses a plan"))
}

fn unprotected(base: &Protected, head: &Protected) -> Vec<String> {
    let Protected {
        nodes,
        node_origins: _,
        pools,
    } = base;
    let nodes = nodes.difference(&head.nodes);
    let pools = pools.difference(&head.pools);
    nodes
        .map(|node| format!("node `{node}` is no longer protected"))
        .chain(pools.map(|pool| format!("pool `{pool}` is no longer protected")))
        .collect()
}

fn included(base: &[Range], head: &[Range]) -> Vec<String> {
    let head = merge(head.iter().copied());
    let gone = base.iter().filter(|range| !covers(&head, range));
    gone.map(|range| format!("range {range} is no longer excluded"))
        .collect()
}

fn weakened_migration(base: &MigrationPolicy, head: &MigrationPolicy) -> Vec<String> {
    let MigrationPolicy {
        windows,
        max_unavailable,
    } = base;
    let mut found = Vec::new();
    if head.windows.is_empty() && !windows.is_empty() {
        found.push("all maintenance windows are removed, so every time is allowed".to_owned());
    }
    // Where there was no window, any window is a restriction.
    if !windows.is_empty() {
        let is_known = |window: &&crate::MaintenanceWindow| {
            let is_same = |one: &crate::MaintenanceWindow| {
                one.schedule.to_string() == window.schedule.to_string()
                    && one.time_zone == window.time_zone
                    && one.duration >= window.duration
            };
            windows.iter().any(is_same)
        };
        let novel = head.windows.iter().filter(|window| !is_known(window));
        found.extend(novel.map(|window| {
            format!(
                "a maintenance window is added or extended: `{}` for {:#}",
                window.schedule, window.duration
            )
        }));
    }
    if head.max_unavailable > *max_unavailable {
        found.push(format!(
            "migrations change {} nodes at a time, instead of {max_unavailable}",
            head.max_unavailable
        ));
    }
    found
}
