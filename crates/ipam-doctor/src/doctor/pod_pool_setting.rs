//! CiliumPodIPPools that differ from `auto-create-cilium-pod-ip-pools`. Cilium's operator creates
//! the pools that do not exist when it starts, and never changes one.

use super::{NAMED, finding, spaced};
use ipam_cilium::observed::{Observed, ObservedKind, PodRanges, SeenPodPool};
use ipam_core::model::{Finding, ObjectRef, PerFamily, Severity, first_of};
use ipam_core::net::Family;

pub(super) fn differences(observed: &Observed) -> Option<Finding> {
    if !observed.is_multi_pool() || observed.blind_spot(ObservedKind::PodIpPool).is_some() {
        return None;
    }
    let of_setting = observed.auto_created_pools().into_iter();
    let different: Vec<(String, String)> = of_setting
        .filter_map(|(name, wanted)| {
            let line = difference(&wanted, observed.pod_pools.get(&name))?;
            let line = format!("`{}`: {line}", name.escape_debug());
            Some((name, line))
        })
        .collect();
    if different.is_empty() {
        return None;
    }
    let names = different
        .iter()
        .map(|(name, _)| format!("`{}`", name.escape_debug()));
    let names = first_of(NAMED, names);
    let subject = |(name, _): &(String, String)| ObjectRef {
        kind: "CiliumPodIPPool",
        name: name.clone(),
    };
    let message = format!(
        "the setting auto-create-cilium-pod-ip-pools differs from CiliumPodIPPools: {names}"
    );
    let finding = finding(Severity::Info, "pod-pool-differs-from-setting", message);
    let finding = finding.about_all(different.iter().map(subject));
    Some(
        finding
            .seen(different.into_iter().map(|(_, line)| line))
            .causes("the pools count: Cilium's operator creates the missing ones when it starts, and never changes one that exists")
            .help("correct the setting (Helm: ipam.operator.autoCreateCiliumPodIPPools), or append CIDRs to the CiliumPodIPPool; its mask size cannot change"),
    )
}

/// A pool may have more CIDRs than the setting.
fn difference(wanted: &PerFamily<PodRanges>, pool: Option<&SeenPodPool>) -> Option<String> {
    let Some(pool) = pool else {
        return Some("the setting has it, and the pool does not exist".to_owned());
    };
    let is_same = |wanted: &PodRanges, seen: &PodRanges| {
        let mut cidrs = wanted.cidrs.iter();
        wanted.size == seen.size && cidrs.all(|cidr| seen.cidrs.contains(cidr))
    };
    let mut families = Family::BOTH.into_iter();
    families.find_map(|family| {
        let wanted = wanted.get(family)?;
        let seen = pool.ranges.get(family);
        if seen.is_some_and(|seen| is_same(wanted, seen)) {
            return None;
        }
        let seen = seen.map_or_else(|| format!("no {family} CIDR"), shown);
        Some(format!(
            "the setting has {}, the pool has {seen}",
            shown(wanted)
        ))
    })
}

fn shown(ranges: &PodRanges) -> String {
    format!("{} in blocks of {}", spaced(&ranges.cidrs), ranges.size)
}
