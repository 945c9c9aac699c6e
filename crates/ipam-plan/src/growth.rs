//! The next range for a pool that is full, and what Cilium needs before anyone uses it. It only
//! proposes: ranges come from files and from Cilium's settings.

use ipam_cilium::observed::operator_settings::ranges_key;
use ipam_cilium::observed::{ModeSeen, Observed, native_routing_setting};
use ipam_core::model::IpamMode;
use ipam_core::net::{Block, BlockSize, Family, Range, merge};
use ipam_desired::{Desired, Pool};

/// Networks for private use: RFC 1918, RFC 6598, RFC 4193.
const PRIVATE: [&str; 5] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "fc00::/7",
];

/// Proposes ranges that nothing uses.
pub struct Growth<'g> {
    observed: &'g Observed,
    /// Addresses that no pool may get, merged.
    taken: Vec<Range>,
}

impl<'g> Growth<'g> {
    /// `in_use` are the addresses in use; the ranges of all pools are added to them.
    pub fn of_files(
        desired: &Desired,
        observed: &'g Observed,
        in_use: impl IntoIterator<Item = Range>,
    ) -> Growth<'g> {
        let pools = desired.pools.values().flat_map(|pool| pool.ranges.iter());
        let ranges = pools.map(|range| range.block.range());
        Growth {
            observed,
            taken: merge(ranges.chain(in_use)),
        }
    }

    /// With what the cluster shows, for Cilium's own pools.
    pub fn of_cluster(observed: &'g Observed) -> Growth<'g> {
        let used = observed.used_by_others().map(|(range, _)| range);
        let shown = observed.shown_blocks().map(|(_, block)| block.range());
        let own = Family::BOTH
            .into_iter()
            .flat_map(|family| observed.operator_ranges(family))
            .map(Block::range);
        let of_pods = observed
            .pod_pools
            .values()
            .flat_map(|pool| pool.ranges.iter());
        let of_pods = of_pods.flat_map(|ranges| ranges.cidrs.iter().map(|cidr| cidr.range()));
        Growth {
            observed,
            taken: merge(used.chain(shown).chain(own).chain(of_pods)),
        }
    }

    /// What to do about a pool that needs this many more blocks of a family.
    pub fn advice(&self, pool: &Pool, family: Family, blocks: usize) -> String {
        let mut ranges = pool.ranges.iter().map(|range| range.block);
        let Some(last) = ranges.rfind(|block| block.family() == family) else {
            return format!("add an {family} CIDR to its `cidrs`");
        };
        let block = pool.block_size.get(family).copied();
        let smallest = block.and_then(|block| smallest_for(block, blocks));
        let size = size_for(smallest, last);
        let of_operator = self.operator_ranges(family);
        let accepted = match of_operator.is_empty() {
            true => self.next_private(last, size),
            false => self.next_range(last, size, &of_operator),
        };
        if let Some(next) = accepted {
            return format!(
                "add a CIDR to its `cidrs`{}",
                self.example(Some(next), smallest)
            );
        }
        match self
            .next_private(last, size)
            .filter(|_| !of_operator.is_empty())
        {
            Some(next) => format!(
                "append a CIDR to `{}` in cilium-config, restart cilium-operator, and then add the CIDR to the pool's `cidrs`{}",
                ranges_key(family),
                self.example(Some(next), smallest)
            ),
            None => "add a CIDR to its `cidrs`".to_owned(),
        }
    }

    /// What to do about the pool of Cilium's operator, which needs this many more blocks of a family.
    pub fn advice_for_operator(&self, family: Family, blocks: usize) -> String {
        let ranges = self.observed.operator_ranges(family);
        let mask = self.observed.operator_mask(family).map(u64::from);
        let block = mask.and_then(|mask| BlockSize::new(family, mask).ok());
        let smallest = block.and_then(|block| smallest_for(block, blocks));
        let next = ranges
            .last()
            .and_then(|last| self.next_private(*last, size_for(smallest, *last)));
        format!(
            "append a CIDR to `{}` in cilium-config, never change the existing ones, and restart cilium-operator{}",
            ranges_key(family),
            self.example(next, smallest)
        )
    }

    /// What to do about a `CiliumPodIPPool` that needs this many more blocks of a size.
    pub fn advice_for_pod_pool(
        &self,
        name: &str,
        ranges: &[Block],
        size: BlockSize,
        blocks: usize,
    ) -> String {
        let smallest = smallest_for(size, blocks);
        let next = ranges
            .last()
            .and_then(|last| self.next_private(*last, size_for(smallest, *last)));
        let field = match size.family() {
            Family::Ipv4 => "spec.ipv4.cidrs",
            Family::Ipv6 => "spec.ipv6.cidrs",
        };
        format!(
            "add a CIDR to `{field}` of CiliumPodIPPool `{}`{}",
            name.escape_debug(),
            self.example(next, smallest)
        )
    }

    /// A free range of the usual size, and the smallest size that suffices.
    fn example(&self, next: Option<Block>, smallest: Option<BlockSize>) -> String {
        let Some(next) = next else {
            return String::new();
        };
        let smaller = smallest.filter(|smallest| smallest.prefix_len() > next.prefix_len());
        let suffices = smaller.map(|size| format!(" (a /{} suffices)", size.prefix_len()));
        let (suffices, needs) = (suffices.unwrap_or_default(), self.needs(next));
        format!(
            ", for example {next}{suffices}, which nothing in these files or this cluster uses{needs}"
        )
    }

    /// The ranges that Cilium's operator accepts; none if blocks need not lie in them.
    fn operator_ranges(&self, family: Family) -> Vec<Block> {
        match self.observed.cilium.mode() {
            ModeSeen::Known(IpamMode::ClusterPool) => self.observed.operator_ranges(family),
            ModeSeen::Known(_) | ModeSeen::Unknown(_) | ModeSeen::NoSettings => Vec::new(),
        }
    }

    /// Without masquerading between Pods, agents must know the range first.
    fn needs(&self, next: Block) -> String {
        let family = next.family();
        match self.observed.native_routing_range(family) {
            Some(native) if !native.contains(next) => {
                let key = native_routing_setting(family);
                format!(
                    "; before that, widen `{key}` (now {native}) and restart the agents, or {family} packets to its Pods are masqueraded"
                )
            }
            _ => String::new(),
        }
    }

    fn next_private(&self, last: Block, size: BlockSize) -> Option<Block> {
        let networks = PRIVATE.iter().filter_map(|text| text.parse::<Block>().ok());
        let around: Vec<Block> = networks.filter(|network| network.contains(last)).collect();
        self.next_range(last, size, &around)
    }

    /// The first free range of this size: after `last`, or else before it. None if a kind cannot be
    /// seen: its objects may use any address.
    fn next_range(&self, last: Block, size: BlockSize, within: &[Block]) -> Option<Block> {
        if self.observed.hidden_users().is_some() {
            return None;
        }
        let free = |network: &Block| {
            network
                .without(&self.taken, size)
                .into_iter()
                .filter_map(|gap| gap.first_of(size))
        };
        let fitting: Vec<Block> = within.iter().flat_map(free).collect();
        let after = fitting.iter().filter(|block| **block > last).min();
        after.or_else(|| fitting.iter().min()).copied()
    }
}

/// The smallest size of a range with this many blocks.
fn smallest_for(block: BlockSize, blocks: usize) -> Option<BlockSize> {
    let bits = blocks.max(1).next_power_of_two().ilog2();
    let length = u64::from(block.prefix_len()).checked_sub(bits.into())?;
    BlockSize::new(block.family(), length).ok()
}

/// The size of the last range, or a larger one if that is too small.
fn size_for(smallest: Option<BlockSize>, last: Block) -> BlockSize {
    match smallest {
        Some(smallest) if smallest.prefix_len() < last.prefix_len() => smallest,
        _ => last.size(),
    }
}
