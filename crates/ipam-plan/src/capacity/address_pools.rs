//! The pools of LB-IPAM, counted in addresses as Cilium's operator counts them.

use super::{Row, Supplier, TimeLeft, Unknown};
use crate::plan::{BlockCounts, Outlook};
use ipam_cilium::lbipam::{AddressPool, ServingState};
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_core::net::{Family, Range, largest_gap, merge};

/// A row for each family of each pool. A disabled pool gives nothing.
pub(super) fn rows(observed: &Observed) -> Result<Vec<Row>, Unknown> {
    for kind in [ObservedKind::LoadBalancerPool, ObservedKind::Service] {
        if let Some(blind) = observed.blind_spot(kind) {
            return Err(Unknown {
                of: Supplier::AddressPool(String::new()),
                family: None,
                why: blind.why.clone(),
            });
        }
    }
    let outlook = Outlook::new(observed);
    let held = observed
        .services
        .values()
        .flat_map(|service| &service.ingress);
    let held = merge(held.map(|address| Range::from(*address)));
    let rows = outlook.pools.iter().flat_map(|pool| {
        let counts = outlook
            .next()
            .counts
            .get(&pool.name)
            .copied()
            .unwrap_or_default();
        let held = &held;
        Family::BOTH.into_iter().filter_map(move |family| {
            let ranges = ranges(pool, family);
            (!ranges.is_empty()).then_some(())?;
            let (total, used) = (counts.total_of(family), counts.used_of(family));
            let free = match pool.state {
                ServingState::Disabled => 0,
                _ => total.saturating_sub(used),
            };
            let gaps = ranges.iter().filter_map(|range| largest_gap(range, held));
            Some(Row {
                of: Supplier::AddressPool(pool.name.clone()),
                family,
                longest_free: gaps.max_by_key(Range::width).filter(|_| free > 0),
                ranges,
                size: None,
                counts: BlockCounts {
                    total,
                    used,
                    reserved: total - used - free,
                    free,
                },
                holders: Default::default(),
                time_left: TimeLeft::Unknown,
            })
        })
    });
    Ok(rows.collect())
}

fn ranges(pool: &AddressPool, family: Family) -> Vec<Range> {
    let ranges = pool.ranges.iter().map(|range| range.range);
    ranges.filter(|range| range.family() == family).collect()
}
