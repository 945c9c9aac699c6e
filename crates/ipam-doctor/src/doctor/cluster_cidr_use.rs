//! How much of `--cluster-cidr` of kube-controller-manager is used, by its flags and the Nodes.

use super::{NAMED, finding, is_nearly_full};
use ipam_cilium::observed::{Allocator, AllocatorStatus, Observed};
use ipam_core::model::{Finding, NodeName, Severity, count, first_of, grouped_digits};
use ipam_core::net::{Block, BlockSize, Family};
use ipam_plan::allocators::{described, fix, reads_nodes};
use ipam_plan::capacity::{Supply, refused};

/// A range of an active allocator that Cilium depends on.
pub(super) struct RangeUse<'o> {
    allocator: &'o Allocator,
    range: Block,
    size: BlockSize,
    room: Room,
    holders: Vec<&'o NodeName>,
}

enum Room {
    Blocks {
        total: u128,
        used: u128,
    },
    /// The allocator does not start, because of this.
    Refused(&'static str),
}

pub(super) fn of_allocators(observed: &Observed) -> Vec<RangeUse<'_>> {
    let allocators = observed
        .allocators
        .iter()
        .filter(|allocator| reads_nodes(observed) && allocator.status == AllocatorStatus::Active);
    let uses = allocators.flat_map(|allocator| {
        let cidrs = &allocator.cluster_cidrs;
        let blocks = cidrs
            .ranges
            .iter()
            .filter_map(|range| range.largest_block());
        blocks.filter_map(|range| {
            let size = *cidrs.block_sizes.get(range.family())?;
            Some(RangeUse::of(observed, allocator, range, size))
        })
    });
    uses.collect()
}

impl<'o> RangeUse<'o> {
    fn of(
        observed: &'o Observed,
        allocator: &'o Allocator,
        range: Block,
        size: BlockSize,
    ) -> RangeUse<'o> {
        let shown = observed.nodes.values().filter(|node| {
            let mut blocks = node.spec.iter();
            blocks.any(|block| range.overlaps(*block))
        });
        let room = match refused(range, size) {
            Some(why) => Room::Refused(why),
            None => {
                let counts = Supply::of_cluster_cidrs(observed, allocator, &[range], size).counts();
                Room::Blocks {
                    total: counts.total - counts.reserved,
                    used: counts.used,
                }
            }
        };
        RangeUse {
            allocator,
            range,
            size,
            room,
            holders: shown.map(|node| &node.name).collect(),
        }
    }

    pub(super) fn family(&self) -> Family {
        self.range.family()
    }

    /// Whether the allocator has no block for a further Node.
    pub(super) fn is_full(&self) -> bool {
        match self.room {
            Room::Blocks { total, used } => used >= total,
            Room::Refused(_) => true,
        }
    }

    /// Why the allocator has no block.
    pub(super) fn why(&self) -> String {
        let RangeUse {
            allocator, range, ..
        } = self;
        let setting = allocator.setting_of(range);
        let mask = self.size.prefix_len();
        match self.room {
            Room::Blocks { total, .. } => {
                let noun = if total == 1 { "node" } else { "nodes" };
                let total = grouped_digits(total);
                format!("{setting} has room for {total} {noun} with node mask {mask}")
            }
            Room::Refused(why) => format!(
                "{setting} and node mask {mask} keep {} from starting: {why}",
                allocator.name.escape_debug()
            ),
        }
    }

    pub(super) fn evidence(&self) -> [String; 2] {
        let holders = self.holders.iter().map(|name| format!("`{name}`"));
        let holders = match self.holders.is_empty() {
            true => "no node".to_owned(),
            false => first_of(NAMED, holders),
        };
        [
            described(self.allocator),
            format!(
                "{} in blocks of /{}: {} a block of it ({holders})",
                self.allocator.setting_of(self.range),
                self.size.prefix_len(),
                match self.holders.len() {
                    1 => "1 node has".to_owned(),
                    nodes => format!("{} have", count(nodes, "node")),
                },
            ),
        ]
    }

    pub(super) fn help(&self) -> String {
        let RangeUse {
            allocator, range, ..
        } = self;
        let flag = match range.family() {
            Family::Ipv4 => "--node-cidr-mask-size-ipv4",
            Family::Ipv6 => "--node-cidr-mask-size-ipv6",
        };
        let setting = allocator.setting_to_change();
        match self.room {
            Room::Blocks { .. } => format!(
                "widen {setting} to a CIDR that contains {range} and that nothing else uses, or set a longer {flag}. To assign blocks of other CIDRs with `cilium-ipam`: {}",
                fix(allocator)
            ),
            Room::Refused(_) => format!("correct {flag}, or {setting}"),
        }
    }

    /// A finding if few blocks are left.
    pub(super) fn nearly_exhausted(&self) -> Option<Finding> {
        let Room::Blocks { total, used } = self.room else {
            return None;
        };
        is_nearly_full(used, total).then_some(())?;
        let [left, total] = [total - used.min(total), total].map(grouped_digits);
        let message = format!(
            "{} has {left} of {total} {} blocks left",
            self.allocator.range_setting(),
            self.range.family()
        );
        let finding = finding(Severity::Warning, "cluster-cidr-nearly-exhausted", message);
        Some(
            finding
                .seen(self.evidence())
                .causes("new nodes get no block, and their agents wait")
                .help(self.help()),
        )
    }
}
