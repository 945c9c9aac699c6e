//! Ranges that pools retire: how much of each is in use, and which can be removed from the files.

use std::collections::BTreeMap;

use ipam_cilium::observed::{ModeSeen, Observed};
use ipam_core::model::{Finding, IpamMode, ObjectRef, Rule, Severity, grouped_digits};
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
    let users = Users::new(desired, observed);
    let findings = pools.into_iter().flat_map(|pool| of_pool(pool, &users));
    findings.collect()
}

/// Merged ranges.
struct Users {
    /// What nodes hold.
    held: Vec<Range>,
    /// What nodes hold, and what is pinned, claimed or quarantined.
    used: Vec<Range>,
    /// Whether a kind is not visible that may have more.
    is_everything_visible: bool,
    mode: ModeSeen,
}

impl Users {
    fn new(desired: &Desired, observed: &Observed) -> Users {
        let shown = observed.shown_blocks().map(|(_, block)| block);
        let gone = observed.tombstones.iter().chain(&observed.unattributed);
        let held = merge(shown.chain(gone.copied()).map(Block::range));
        let pinned = desired.pins.values().flat_map(|pin| pin.blocks.iter());
        let pinned = pinned.map(|block| block.range());
        let claims = observed.live_claims(desired.policy.quarantine);
        let used = merge(held.iter().copied().chain(pinned).chain(claims.ranges()));
        Users {
            held,
            used,
            is_everything_visible: observed.blind_spots.is_empty(),
            mode: observed.cilium.mode(),
        }
    }
}

fn of_pool(pool: &Pool, users: &Users) -> Vec<Finding> {
    let ranges = pool.ranges.iter().map(|range| range.block);
    let cidrs = RangeIndex::new(ranges.map(|cidr| (cidr.range(), cidr)));
    let mut findings = Vec::new();
    let mut empty: BTreeMap<Block, Vec<&PoolRange>> = BTreeMap::new();
    for retiring in &pool.retiring {
        let Some(taken) = taken(pool, retiring.block, &users.used) else {
            continue;
        };
        if taken.taken() > 0 {
            findings.push(in_use(pool, retiring, &taken, users));
        } else if let Some((_, cidr)) = cidrs.overlapping(&retiring.block.range()).next() {
            empty.entry(*cidr).or_default().push(retiring);
        }
    }
    if users.is_everything_visible {
        let unused = empty.into_iter();
        findings
            .extend(unused.filter_map(|(cidr, retiring)| unused_finding(pool, cidr, &retiring)));
    }
    findings
}

/// The blocks of a range, of which these addresses are taken.
fn taken(pool: &Pool, range: Block, used: &[Range]) -> Option<Slots> {
    let size = *pool.block_size.get(range.family())?;
    let mut slots = Slots::new(range, size)?;
    for range in touching(used, &range.range()) {
        slots.take(range);
    }
    Some(slots)
}

fn in_use(pool: &Pool, retiring: &PoolRange, taken: &Slots, users: &Users) -> Finding {
    let PoolRange { block, origin } = retiring;
    let name = &pool.name;
    let [count, of] = [taken.taken(), taken.count()].map(grouped_digits);
    let message = format!(
        "pool `{name}` retires {block}: {count} of {of} blocks are in use, pinned or quarantined"
    );
    let help = if touching(&users.held, &block.range()).is_empty() {
        "no node uses a block: quarantined blocks become free automatically; change the pins of the range in the files"
    } else if users.mode == ModeSeen::Known(IpamMode::MultiPool) {
        "an agent releases a block when no Pod uses it; drain or replace the nodes that use one"
    } else {
        "`cilium-ipam migrate` moves the nodes to other blocks"
    };
    let finding = Finding::new(Severity::Info, Rule("range-retiring"), message);
    finding
        .about(ObjectRef::pool(name))
        .at(origin, "retiring")
        .help(help)
}

/// The finding about retiring ranges of one CIDR of which no block is in use.
fn unused_finding(pool: &Pool, cidr: Block, retiring: &[&PoolRange]) -> Option<Finding> {
    let size = *pool.block_size.get(cidr.family())?;
    let name = &pool.name;
    let ranges = retiring.iter().map(|range| range.block);
    let rest = cidr.without(&merge(ranges.clone().map(Block::range)), size);
    let ranges = joined(ranges, ", ");
    let rest = joined(rest, ", ");
    let message = format!("pool `{name}` retires {ranges}, and no block of it is in use");
    let help = match (rest.as_str(), ranges == cidr.to_string()) {
        ("", true) => format!("remove {cidr} from `cidrs` and `retiring`"),
        ("", false) => format!("remove {cidr} from `cidrs`, and {ranges} from `retiring`"),
        _ => format!("remove {ranges} from `retiring`, and in `cidrs` replace {cidr} by {rest}"),
    };
    let finding = Finding::new(Severity::Info, Rule("range-retired"), message);
    let first = retiring.first()?;
    let finding = finding.about(ObjectRef::pool(name)).help(help);
    Some(finding.at(&first.origin, "retiring"))
}
