//! Ranges that pools retire: how much of each is in use, and which can be removed from the files.

use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, ObjectRef, Rule, Severity, grouped_digits};
use ipam_core::net::{Block, Range, RangeIndex, Slots, merge, touching};
use ipam_core::text::joined;
use ipam_desired::{Desired, Pool, PoolRange};

pub(super) fn ranges(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let pools: Vec<&Pool> = desired
        .pools
        .values()
        .filter(|pool| !pool.retiring.is_empty())
        .collect();
    if pools.is_empty() {
        return Vec::new();
    }
    let used = used(desired, observed);
    let mut findings = Vec::new();
    for pool in pools {
        let cidrs = pool
            .ranges
            .iter()
            .map(|range| (range.block.range(), range.block));
        let cidrs = RangeIndex::new(cidrs);
        let each = pool.retiring.iter();
        findings.extend(each.filter_map(|range| finding(pool, range, &cidrs, &used, observed)));
    }
    findings
}

/// What nodes hold, and what is pinned, claimed or quarantined, merged.
fn used(desired: &Desired, observed: &Observed) -> Vec<Range> {
    let shown = observed.shown_blocks().map(|(_, block)| block);
    let pinned = desired.pins.values().flat_map(|pin| pin.blocks.iter());
    let pinned = pinned.copied().collect::<Vec<_>>();
    let gone = observed.tombstones.iter().chain(&observed.unattributed);
    let blocks = shown.chain(pinned).chain(gone.copied());
    let claims = observed.live_claims(desired.policy.quarantine);
    merge(blocks.map(Block::range).chain(claims.ranges()))
}

fn finding(
    pool: &Pool,
    retiring: &PoolRange,
    cidrs: &RangeIndex<Block>,
    used: &[Range],
    observed: &Observed,
) -> Option<Finding> {
    let PoolRange { block, origin } = retiring;
    let size = *pool.block_size.get(block.family())?;
    let mut slots = Slots::new(*block, size)?;
    let name = &pool.name;
    for range in touching(used, &block.range()) {
        slots.take(range);
    }
    let finding = |rule, message: String, help: String| {
        let finding = Finding::new(Severity::Info, Rule(rule), message);
        finding
            .about(ObjectRef::pool(name))
            .at(origin, "retiring")
            .help(help)
    };
    if slots.taken() > 0 {
        let [taken, count] = [slots.taken(), slots.count()].map(grouped_digits);
        let message = format!(
            "pool `{name}` retires {block}: {taken} of {count} blocks are in use, pinned or quarantined"
        );
        let help = "`cilium-ipam migrate` moves the nodes to other blocks".to_owned();
        return Some(finding("range-retiring", message, help));
    }
    // A kind that is not visible may have blocks of the range.
    if !observed.blind_spots.is_empty() {
        return None;
    }
    let (_, cidr) = cidrs.overlapping(&block.range()).next()?;
    let rest = cidr.without(&[block.range()], size);
    let message = format!("pool `{name}` retires {block}, and no block of it is in use");
    let help = match rest.is_empty() {
        true => "remove it from `cidrs` and `retiring`".to_owned(),
        false => {
            let rest = joined(rest, ", ");
            format!("remove it from `retiring`, and in `cidrs` replace {cidr} by {rest}")
        }
    };
    Some(finding("range-retired", message, help))
}
