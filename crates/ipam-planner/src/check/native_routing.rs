//! Pools compared with the range that Cilium routes without masquerading.

use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, ObjectRef, Rule, Severity};
use ipam_core::net::{Block, Family};
use ipam_desired::Desired;

/// One finding for each family: the setting is the cause of all.
pub(crate) fn pools_outside(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    Family::BOTH
        .into_iter()
        .filter_map(|family| outside(desired, observed, family))
        .collect()
}

fn outside(desired: &Desired, observed: &Observed, family: Family) -> Option<Finding> {
    let native = observed.native_routing_range(family)?;
    let is_outside = |block: &Block| block.family() == family && !native.contains(*block);
    let ranges = desired.pools.values().flat_map(|pool| {
        let outside = pool.ranges.iter().filter(|range| is_outside(&range.block));
        outside.map(move |range| (pool, range))
    });
    let outside: Vec<_> = ranges.collect();
    let (pool, range) = outside.first()?;
    let what = format!("pool `{}` has {}", pool.name, range.block);
    let others = match outside.len() - 1 {
        0 => String::new(),
        1 => "; 1 more range is outside, too".to_owned(),
        more => format!("; {more} more ranges are outside, too"),
    };
    let message = format!("{what}, outside the native-routing CIDR {native}{others}");
    let finding = Finding::new(
        Severity::Warning,
        Rule("pool-outside-native-routing-cidr"),
        message,
    )
    .at(&range.origin, "outside")
    .seen([format!("cilium-config: {native}")])
    .causes("packets to Pods there are masqueraded")
    .help("widen the native-routing CIDR in cilium-config so that it covers every pool, and restart the agents");
    let mut pools: Vec<ObjectRef> = outside
        .iter()
        .map(|(pool, _)| ObjectRef::pool(&pool.name))
        .collect();
    pools.dedup();
    let mut pools = pools.into_iter();
    let first = pools.next()?;
    Some(pools.fold(finding.about(first), Finding::about_also))
}
