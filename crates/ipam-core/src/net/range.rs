//! Ranges of addresses of one family, and sweeps over many of them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::Address;
use super::block::{Block, BlockError, BlockSize, Family, number};

/// An inclusive range of addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    family: Family,
    first: u128,
    last: u128,
}

/// Why a text is not a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The text is neither a CIDR, nor `first-last`, nor an address.
    #[error("`{text}` is neither a CIDR, nor `first-last`, nor an address")]
    NotARange { text: String },
    /// The text has a slash and is an invalid CIDR.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// One end of the range is IPv4, the other one IPv6.
    #[error("`{text}` mixes two address families")]
    TwoFamilies {
        /// The text as given.
        text: String,
    },
    /// The end comes before the start.
    #[error("`{text}` ends before it starts")]
    Backwards {
        /// The text as given.
        text: String,
    },
}

impl Range {
    pub fn whole(family: Family) -> Range {
        let last = if family.bits() == 128 {
            u128::MAX
        } else {
            (1u128 << family.bits()) - 1
        };
        Range {
            family,
            first: 0,
            last,
        }
    }

    /// `first` must not exceed `last`, and both must fit the family.
    pub(super) fn from_numbers(family: Family, first: u128, last: u128) -> Range {
        debug_assert!(first <= last, "a range is not backwards");
        Range {
            family,
            first,
            last,
        }
    }

    pub fn family(&self) -> Family {
        self.family
    }

    pub(super) fn numbers(&self) -> (u128, u128) {
        (self.first, self.last)
    }

    pub fn first(&self) -> IpAddr {
        self.family.address(self.first)
    }

    pub fn last(&self) -> IpAddr {
        self.family.address(self.last)
    }

    /// Number of addresses in the range minus one, so that all of IPv6 fits.
    pub fn width(&self) -> u128 {
        self.last - self.first
    }

    pub fn overlaps(&self, other: &Range) -> bool {
        self.family == other.family && self.first <= other.last && other.first <= self.last
    }

    pub fn contains(&self, other: &Range) -> bool {
        self.family == other.family && self.first <= other.first && other.last <= self.last
    }

    pub fn intersection(&self, other: &Range) -> Option<Range> {
        self.overlaps(other).then(|| {
            Range::from_numbers(
                self.family,
                self.first.max(other.first),
                self.last.min(other.last),
            )
        })
    }

    /// Key by which ranges are sorted: family and first address.
    pub fn first_and_family(&self) -> (Family, IpAddr) {
        (self.family, self.first())
    }

    /// The addresses of this range before those of `other`.
    pub fn before(&self, other: &Range) -> Option<Range> {
        let last = other.first.checked_sub(1)?.min(self.last);
        (self.family == other.family && self.first <= last)
            .then(|| Range::from_numbers(self.family, self.first, last))
    }

    /// The fewest aligned blocks that make up the range, sorted.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut rest = Some(*self);
        while let Some(range) = rest {
            let block = (1..=self.family.bits()).find_map(|prefix_len| {
                let size = BlockSize::new(self.family, u64::from(prefix_len)).ok()?;
                let block = Block::at(range.first, size)?;
                range.contains(&block.range()).then_some(block)
            });
            let Some(block) = block else { break };
            blocks.push(block);
            rest = (block.range().last < range.last)
                .then(|| Range::from_numbers(self.family, block.range().last + 1, range.last));
        }
        blocks
    }

    /// The largest aligned block that fits into the range; `None` only for the whole address space.
    pub fn largest_block(&self) -> Option<Block> {
        (1..=self.family.bits()).find_map(|prefix_len| {
            let size = BlockSize::new(self.family, u64::from(prefix_len)).ok()?;
            let step = 1u128 << size.host_bits();
            let start = self.first.checked_next_multiple_of(step)?;
            let block = Block::at(start, size)?;
            self.contains(&block.range()).then_some(block)
        })
    }
}

impl From<IpAddr> for Range {
    fn from(address: IpAddr) -> Range {
        let address = address.to_canonical();
        Range {
            family: Family::of(address),
            first: number(address),
            last: number(address),
        }
    }
}

impl FromStr for Range {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Range, RangeError> {
        let not_a_range = || RangeError::NotARange {
            text: text.to_owned(),
        };
        let address = |part: &str| {
            part.trim()
                .parse::<Address>()
                .map(IpAddr::from)
                .map_err(|_| not_a_range())
        };
        if text.contains('/') {
            return Ok(text.parse::<Block>()?.range());
        }
        let Some((first, last)) = text.split_once('-') else {
            return address(text).map(Range::from);
        };
        let (first, last) = (address(first)?, address(last)?);
        if Family::of(first) != Family::of(last) {
            return Err(RangeError::TwoFamilies {
                text: text.to_owned(),
            });
        }
        if number(first) > number(last) {
            return Err(RangeError::Backwards {
                text: text.to_owned(),
            });
        }
        Ok(Range::from_numbers(
            Family::of(first),
            number(first),
            number(last),
        ))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.largest_block() {
            Some(block) if block.range() == *self => block.fmt(f),
            _ => write!(f, "{}-{}", self.first(), self.last()),
        }
    }
}

/// Sorts the ranges and joins those that overlap or touch.
pub fn merge(ranges: impl IntoIterator<Item = Range>) -> Vec<Range> {
    let mut sorted: Vec<Range> = ranges.into_iter().collect();
    sorted.sort_unstable();
    let mut merged: Vec<Range> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(before)
                if before.family == range.family
                    && range.first <= before.last.saturating_add(1) =>
            {
                before.last = before.last.max(range.last);
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// The widest run of addresses of `within` outside `taken`. `taken` must come from [`merge`].
pub fn largest_gap(within: &Range, taken: &[Range]) -> Option<Range> {
    let mut next = Some(within.first);
    let mut best: Option<Range> = None;
    let mut offer = |first: u128, last: u128| {
        if best.is_none_or(|b| last - first > b.last - b.first) {
            best = Some(Range::from_numbers(within.family, first, last));
        }
    };
    let start = taken.partition_point(|t| (t.family, t.last) < (within.family, within.first));
    for cut in taken[start..].iter().map_while(|t| t.intersection(within)) {
        match next {
            Some(first) if first < cut.first => offer(first, cut.first - 1),
            _ => {}
        }
        next = cut.last.checked_add(1);
    }
    match next {
        Some(first) if first <= within.last => offer(first, within.last),
        _ => {}
    }
    best
}

/// The runs of addresses of `within` outside `taken`, lowest first. `taken` must come from [`merge`].
pub fn gaps<'t>(within: &Range, taken: &'t [Range]) -> impl Iterator<Item = Range> + 't {
    let within = *within;
    let mut next = Some(within.first);
    let ends = touching(taken, &within)
        .iter()
        .map(|cut| (cut.first, cut.last.checked_add(1)));
    let ends = ends.chain(std::iter::once((within.last.saturating_add(1), None)));
    ends.filter_map(move |(end, after)| {
        let first = std::mem::replace(&mut next, after)?;
        // No gap follows the last address of the family.
        let last = match end > within.last {
            true => within.last,
            false => end.checked_sub(1)?,
        };
        (first <= last && first <= within.last)
            .then(|| Range::from_numbers(within.family, first, last))
    })
}

/// The lowest address of `within` that is neither in `busy`, which must come from [`merge`], nor
/// one of `taken`.
pub fn lowest_free(within: &Range, busy: &[Range], taken: &BTreeSet<IpAddr>) -> Option<IpAddr> {
    gaps(within, busy).find_map(|gap| {
        let mut next = gap.first;
        for address in taken.range(gap.first()..=gap.last()) {
            if number(*address) != next {
                break;
            }
            if next == gap.last {
                return None;
            }
            next += 1;
        }
        Some(gap.family.address(next))
    })
}

/// Pairs of items whose ranges overlap, by one sweep over the sorted ranges. Each item is paired at
/// most with the item before it that reaches furthest, so every item in a conflict is named.
pub fn overlapping_pairs<T: Copy + Ord>(
    items: impl IntoIterator<Item = (Range, T)>,
) -> Vec<(T, T)> {
    let mut sorted: Vec<(Range, T)> = items.into_iter().collect();
    sorted.sort_unstable();
    let mut pairs = Vec::new();
    let mut reach: Option<(Range, T)> = None;
    for (range, item) in sorted {
        match reach {
            Some((before, other)) if before.overlaps(&range) => {
                pairs.push((other, item));
                if range.last > before.last {
                    reach = Some((range, item));
                }
            }
            _ => reach = Some((range, item)),
        }
    }
    pairs
}

/// Whether these ranges together cover `range`. `merged` must come from [`merge`].
pub fn covers(merged: &[Range], range: &Range) -> bool {
    let behind =
        merged.partition_point(|one| (one.family, one.first) <= (range.family, range.first));
    behind
        .checked_sub(1)
        .is_some_and(|place| merged[place].contains(range))
}

/// The ranges that overlap `range`. `merged` must come from [`merge`].
pub fn touching<'m>(merged: &'m [Range], range: &Range) -> &'m [Range] {
    let start = merged.partition_point(|one| (one.family, one.last) < (range.family, range.first));
    let end = merged.partition_point(|one| (one.family, one.first) <= (range.family, range.last));
    &merged[start..end.max(start)]
}

/// An index of ranges, which may overlap, for overlap queries.
#[derive(Clone, Debug, Default)]
pub struct RangeIndex<T> {
    sorted: Vec<(Range, T)>,
    /// A binary tree over the places, root first: the furthest end of any range below, by family
    /// and last address.
    reach: Vec<Option<(Family, u128)>>,
}

impl<T: Ord> RangeIndex<T> {
    pub fn new(items: impl IntoIterator<Item = (Range, T)>) -> RangeIndex<T> {
        let mut sorted: Vec<(Range, T)> = items.into_iter().collect();
        sorted.sort_unstable();
        // One leaf more than ranges, so that a search may end after the last range.
        let leaves = (sorted.len() + 1).next_power_of_two();
        let mut reach = vec![None; 2 * leaves];
        for (place, (range, _)) in sorted.iter().enumerate() {
            reach[leaves + place] = Some((range.family, range.last));
        }
        for node in (1..leaves).rev() {
            reach[node] = reach[2 * node].max(reach[2 * node + 1]);
        }
        RangeIndex { sorted, reach }
    }

    /// Every range that overlaps `range`, from the highest start down.
    pub fn overlapping<'s>(
        &'s self,
        range: &Range,
    ) -> impl Iterator<Item = &'s (Range, T)> + use<'s, T> {
        let range = *range;
        let end = self.sorted.partition_point(|(other, _)| {
            (other.family, other.first) <= (range.family, range.last)
        });
        let wanted = (range.family, range.first);
        let places = std::iter::successors(self.last_reaching(end, wanted), move |place| {
            self.last_reaching(*place, wanted)
        });
        places.map(|place| &self.sorted[place])
    }

    /// The last place before `end` whose range reaches the address.
    fn last_reaching(&self, end: usize, wanted: (Family, u128)) -> Option<usize> {
        let reaches = |node: usize| self.reach[node] >= Some(wanted);
        let leaves = self.reach.len() / 2;
        // Up, to the nearest subtree before `end` that reaches the address.
        let mut node = leaves + end;
        while node.is_multiple_of(2) || !reaches(node - 1) {
            node /= 2;
            if node == 0 {
                return None;
            }
        }
        node -= 1;
        // Down, to the last range of the subtree that reaches the address.
        while node < leaves {
            node = 2 * node + usize::from(reaches(2 * node + 1));
        }
        Some(node - leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Range {
        text.parse().unwrap()
    }

    #[test]
    fn blocks_of_a_range_are_as_large_as_they_fit() {
        let blocks = |text: &str| {
            let blocks = range(text).blocks();
            let texts: Vec<String> = blocks.iter().map(Block::to_string).collect();
            texts.join(" ")
        };
        assert_eq!(blocks("10.0.0.0/24"), "10.0.0.0/24");
        assert_eq!(
            blocks("10.0.0.3-10.0.0.9"),
            "10.0.0.3/32 10.0.0.4/30 10.0.0.8/31"
        );
        assert_eq!(
            blocks("255.255.255.254-255.255.255.255"),
            "255.255.255.254/31"
        );
        assert_eq!(blocks("fd00::-fd00::ffff"), "fd00::/112");
    }

    #[test]
    fn texts() {
        assert_eq!(range("10.0.0.0-10.0.0.255").to_string(), "10.0.0.0/24");
        assert_eq!(range("10.0.0.1-10.0.0.9").to_string(), "10.0.0.1-10.0.0.9");
        assert_eq!(range("10.0.0.1").to_string(), "10.0.0.1/32");
        assert!(matches!(
            "10.0.0.9-10.0.0.1".parse::<Range>(),
            Err(RangeError::Backwards { .. })
        ));
        assert!(matches!(
            "10.0.0.9-fd00::1".parse::<Range>(),
            Err(RangeError::TwoFamilies { .. })
        ));
        assert!(matches!(
            "10.0.0.9/24".parse::<Range>(),
            Err(RangeError::Block(BlockError::HostBits { .. }))
        ));
    }

    #[test]
    fn the_ends_of_a_range_may_be_mapped() {
        for text in [
            "::ffff:10.0.0.0-::ffff:10.0.0.255",
            "10.0.0.0-::ffff:10.0.0.255",
            "::ffff:a00:0 - 10.0.0.255",
            "::ffff:10.0.0.0/120",
        ] {
            assert_eq!(range(text), range("10.0.0.0/24"), "{text}");
        }
        assert_eq!(range("::ffff:10.0.0.1"), range("10.0.0.1"));
        assert!(matches!(
            "::-::ffff:10.0.0.1".parse::<Range>(),
            Err(RangeError::TwoFamilies { .. })
        ));
        assert!(matches!(
            "::ffff:10.0.0.9-::ffff:10.0.0.1".parse::<Range>(),
            Err(RangeError::Backwards { .. })
        ));
        assert_eq!(Range::whole(Family::Ipv4), range("0.0.0.0-255.255.255.255"));
        assert_eq!(
            Range::whole(Family::Ipv6),
            range("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
        );
    }

    proptest::proptest! {
        #[test]
        fn every_spelling_of_an_ipv4_range_is_one_range(a: u32, b: u32, first_form in 0..3usize, last_form in 0..3usize) {
            let forms = |number: u32| {
                let v4 = std::net::Ipv4Addr::from_bits(number);
                [v4.to_string(), format!("::ffff:{v4}"), format!("::ffff:{:x}:{:x}", number >> 16, number & 0xffff)]
            };
            let (first, last) = (a.min(b), a.max(b));
            let plain = range(&format!("{}-{}", forms(first)[0], forms(last)[0]));
            proptest::prop_assert_eq!(range(&format!("{}-{}", forms(first)[first_form], forms(last)[last_form])), plain);
            proptest::prop_assert_eq!(range(&forms(first)[first_form]), range(&forms(first)[0]));
        }
    }

    #[test]
    fn gaps() {
        let taken = merge(
            [
                "10.0.0.0/26",
                "10.0.0.64/26",
                "10.0.0.192-10.0.0.199",
                "fd00::/64",
            ]
            .map(range),
        );
        assert_eq!(taken.len(), 3);
        assert_eq!(
            largest_gap(&range("10.0.0.0/24"), &taken),
            Some(range("10.0.0.128/26"))
        );
        assert_eq!(largest_gap(&range("10.0.0.0/25"), &taken), None);
        assert_eq!(
            largest_gap(&range("192.168.0.0/24"), &taken),
            Some(range("192.168.0.0/24"))
        );
    }

    #[test]
    fn an_index_finds_all_that_overlap() {
        let texts = [
            "10.0.0.0/8",
            "10.0.1.0/24",
            "10.0.2.0/24",
            "10.9.0.0/16",
            "11.0.0.0/8",
            "fd00::/8",
        ];
        let index = RangeIndex::new(texts.iter().map(|text| (range(text), *text)));
        for probe in [
            "10.0.1.0/25",
            "10.0.0.0/16",
            "10.9.9.9",
            "12.0.0.0/8",
            "fd01::/16",
            "8.0.0.0/5",
        ] {
            let mut found: Vec<&str> = index
                .overlapping(&range(probe))
                .map(|(_, text)| *text)
                .collect();
            found.sort_unstable();
            let naive: Vec<&str> = texts
                .iter()
                .copied()
                .filter(|text| range(text).overlaps(&range(probe)))
                .collect();
            assert_eq!(found, naive, "{probe}");
        }
    }

    proptest::proptest! {
        #[test]
        fn searches_are_those_of_a_scan(spans in proptest::collection::vec((0..200_u32, 0..40_u32), 0..20), from: u8, length in 0..60_u32) {
            let of = |from: u32, length: u32| {
                let [first, last] = [from, from + length].map(std::net::Ipv4Addr::from_bits);
                range(&format!("{first}-{last}"))
            };
            let ranges: Vec<Range> = spans.iter().map(|(from, length)| of(*from, *length)).chain([range("::/120")]).collect();
            let (merged, probe) = (merge(ranges.clone()), of(from.into(), length));
            let index = RangeIndex::new(ranges.iter().copied().zip(0..));
            let mut naive: Vec<(Range, usize)> = ranges.iter().copied().zip(0..).filter(|(one, _)| one.overlaps(&probe)).collect();
            naive.sort_by(|a, b| b.cmp(a));
            proptest::prop_assert_eq!(index.overlapping(&probe).copied().collect::<Vec<_>>(), naive);
            let touching: Vec<Range> = merged.iter().copied().filter(|one| one.overlaps(&probe)).collect();
            proptest::prop_assert_eq!(super::touching(&merged, &probe), touching);
            proptest::prop_assert_eq!(covers(&merged, &probe), merged.iter().any(|one| one.contains(&probe)));
        }
    }

    #[test]
    fn pairs_name_every_item_in_a_conflict() {
        let items = [
            ("10.0.0.0/16", 1),
            ("10.0.1.0/24", 2),
            ("10.0.2.0/24", 3),
            ("10.1.0.0/16", 4),
        ];
        assert_eq!(
            overlapping_pairs(items.map(|(r, n)| (range(r), n))),
            [(1, 2), (1, 3)]
        );
    }
}
