//! Blocks of deleted nodes: the node that had a block last, and when the block disappeared.
//!
//! The record is bounded. It is stored in parts, because one ConfigMap holds at most 1 MiB. The
//! address of a block selects its part, so that each block is there once. Knows nothing of the
//! place where the parts are stored.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::{RoundMode, SignedDuration, Timestamp, TimestampRound, Unit};

use super::{Claims, MOST_BYTES, Quarantined};
use crate::model::NodeName;
use crate::net::Block;

/// Most blocks of one part: 50,000 in all parts, at about 70 bytes for each.
pub const MOST_OF_PART: usize = 12_500;

/// Begins the text of a part. The number rises when an older reader would misunderstand the text.
const HEADER: &str = "cilium-ipam-quarantine 1 dropped ";

crate::text_enum! {
    /// A part of the record, by the name of its ConfigMap.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum DepartedPart {
        First = "cilium-ipam-quarantine-0",
        Second = "cilium-ipam-quarantine-1",
        Third = "cilium-ipam-quarantine-2",
        Fourth = "cilium-ipam-quarantine-3",
    }
}

impl DepartedPart {
    /// The part of a block: neighbouring blocks are in different parts.
    pub fn of(block: Block) -> DepartedPart {
        let count = DepartedPart::ALL.len() as u128;
        let index = usize::try_from(block.index_in_space() % count).unwrap_or(0);
        DepartedPart::ALL[index]
    }
}

/// Why the text of a part cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DepartedError {
    #[error("it does not begin with `{HEADER}` and a number: another version may have written it")]
    Header,
    #[error("line {0} is not `BLOCK NODE SECONDS`, or repeats a block")]
    Line(usize),
    #[error("it is longer than cilium-ipam writes it")]
    TooLong,
}

/// The last node of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    pub node: NodeName,
    /// When the block disappeared, by the clock of the process that noticed it. Rounded up to whole
    /// seconds, so that the quarantine is never shorter than the Policy's.
    pub at: Timestamp,
}

/// Blocks of one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DepartedBlocks {
    blocks: BTreeMap<Block, Departure>,
    /// Blocks that were dropped before their quarantine was over, since the part was full.
    dropped: u64,
}

/// Blocks of deleted nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Departed {
    /// The record.
    pub parts: BTreeMap<DepartedPart, DepartedBlocks>,
    /// Blocks that wait to be recorded, with a later departure than the record has.
    pub waiting: BTreeMap<Block, Departure>,
}

impl Departed {
    /// The last departure of every block.
    pub fn blocks(&self) -> impl Iterator<Item = (Block, &Departure)> {
        let waiting = self.waiting.iter();
        let waiting = waiting.map(|(block, departure)| (*block, departure));
        let recorded = self.parts.values().flat_map(DepartedBlocks::blocks);
        let recorded = recorded.filter(|(block, _)| !self.waiting.contains_key(block));
        recorded.chain(waiting)
    }

    fn last(&self, block: Block) -> Option<&Departure> {
        let recorded = || self.parts.get(&DepartedPart::of(block))?.blocks.get(&block);
        self.waiting.get(&block).or_else(recorded)
    }

    /// The node for which a block is quarantined.
    pub fn last_node(
        &self,
        block: Block,
        now: Timestamp,
        quarantine_for: SignedDuration,
    ) -> Option<&NodeName> {
        let departure = self.last(block)?;
        departure
            .is_in_force(now, quarantine_for)
            .then_some(&departure.node)
    }

    /// Blocks that were dropped before their quarantine was over, because the record was full.
    pub fn dropped(&self) -> u64 {
        let dropped = self.parts.values().map(|part| part.dropped);
        dropped.fold(0, u64::saturating_add)
    }

    /// Quarantines the blocks that `is_shown` does not name, beside those of the claims. Of two
    /// quarantines of a block, the later end counts.
    pub fn add_to(
        &self,
        claims: &mut Claims,
        is_shown: impl Fn(&Block) -> bool,
        now: Timestamp,
        quarantine_for: SignedDuration,
    ) {
        let in_force = self
            .blocks()
            .filter(|(_, departure)| departure.is_in_force(now, quarantine_for))
            .filter(|(block, _)| !is_shown(block));
        for (block, Departure { node, at }) in in_force {
            let free_at = at.saturating_add(quarantine_for).unwrap_or(Timestamp::MAX);
            let is_later = |known: &Quarantined| known.free_at >= free_at;
            if !claims.quarantined.get(&block).is_some_and(is_later) {
                let node = node.clone();
                claims
                    .quarantined
                    .insert(block, Quarantined { node, free_at });
            }
        }
    }

    /// Whether the block needs no write: the record has this or a later departure of the same node, or
    /// the quarantine is over.
    pub fn is_settled(
        &self,
        block: Block,
        departure: &Departure,
        now: Timestamp,
        quarantine_for: SignedDuration,
    ) -> bool {
        let part = self.parts.get(&DepartedPart::of(block));
        let recorded = part.and_then(|part| part.blocks.get(&block));
        let has_it = |recorded: &Departure| {
            recorded.node == departure.node
                && recorded.at >= departure.at
                && recorded.is_in_force(now, quarantine_for)
        };
        !departure.is_in_force(now, quarantine_for) || recorded.is_some_and(has_it)
    }

    /// The parts that change when the waiting blocks are recorded. They no longer contain blocks
    /// whose quarantine is over. If a part is full, its oldest blocks make room: a waiting block may
    /// be one of these, and goes on waiting.
    pub fn record(
        &self,
        now: Timestamp,
        quarantine_for: SignedDuration,
    ) -> BTreeMap<DepartedPart, DepartedBlocks> {
        let mut changed = BTreeMap::new();
        for (block, departure) in &self.waiting {
            if self.is_settled(*block, departure, now, quarantine_for) {
                continue;
            }
            let part = DepartedPart::of(*block);
            let blocks: &mut DepartedBlocks = changed.entry(part).or_insert_with(|| {
                let mut blocks = self.parts.get(&part).cloned().unwrap_or_default();
                let in_force = |departure: &Departure| departure.is_in_force(now, quarantine_for);
                blocks.blocks.retain(|_, departure| in_force(departure));
                blocks
            });
            blocks.blocks.insert(*block, departure.clone());
        }
        changed.values_mut().for_each(DepartedBlocks::shrink);
        let is_new = |part: &DepartedPart, blocks: &mut DepartedBlocks| {
            let stored = self.parts.get(part);
            stored.is_none_or(|stored| stored.blocks != blocks.blocks)
        };
        changed.retain(is_new);
        changed
    }
}

impl Departure {
    /// A block of the node disappeared at this time.
    pub fn new(node: NodeName, time: Timestamp) -> Departure {
        let at = TimestampRound::new()
            .smallest(Unit::Second)
            .mode(RoundMode::Ceil);
        let at = time.round(at).unwrap_or(time);
        Departure { node, at }
    }

    /// Whether the quarantine of the block has begun and is not over. A time far in the future is
    /// not from a recorder of this cluster.
    fn is_in_force(&self, now: Timestamp, quarantine_for: SignedDuration) -> bool {
        let age = now.duration_since(self.at);
        age < quarantine_for
            && age
                .checked_neg()
                .is_some_and(|ahead| ahead < quarantine_for)
    }
}

impl DepartedBlocks {
    pub fn blocks(&self) -> impl Iterator<Item = (Block, &Departure)> {
        let blocks = self.blocks.iter();
        blocks.map(|(block, departure)| (*block, departure))
    }

    /// Parses the output of [`to_text`](DepartedBlocks::to_text).
    ///
    /// # Errors
    /// Fails if the text is anything else.
    pub fn from_text(text: &str) -> Result<DepartedBlocks, DepartedError> {
        if text.len() > MOST_BYTES {
            return Err(DepartedError::TooLong);
        }
        let mut lines = text.lines();
        let header = lines.next().and_then(|line| line.strip_prefix(HEADER));
        let dropped = header
            .and_then(|number| number.parse().ok())
            .ok_or(DepartedError::Header)?;
        let mut blocks = BTreeMap::new();
        for (line, number) in lines.zip(2..) {
            let (block, departure) = read_line(line).ok_or(DepartedError::Line(number))?;
            if blocks.insert(block, departure).is_some() {
                return Err(DepartedError::Line(number));
            }
        }
        if blocks.len() > MOST_OF_PART {
            return Err(DepartedError::TooLong);
        }
        Ok(DepartedBlocks { blocks, dropped })
    }

    /// The blocks as text: one line for each, after a header.
    pub fn to_text(&self) -> String {
        let DepartedBlocks { blocks, dropped } = self;
        let mut text = format!("{HEADER}{dropped}\n");
        for (block, Departure { node, at }) in blocks {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{block} {node} {}", at.as_second());
        }
        text
    }

    /// Drops the oldest blocks until the part fits into its object, and counts them.
    fn shrink(&mut self) {
        let mut bytes = self.to_text().len();
        if self.blocks.len() <= MOST_OF_PART && bytes <= MOST_BYTES {
            // A part with room drops nothing, so the count is over.
            self.dropped = 0;
            return;
        }
        let by_age = self.blocks.iter().map(|(block, one)| (one.at, *block));
        let mut by_age: Vec<_> = by_age.collect();
        by_age.sort_unstable();
        for (_, block) in by_age {
            if self.blocks.len() <= MOST_OF_PART && bytes <= MOST_BYTES {
                return;
            }
            let Some(Departure { node, at }) = self.blocks.remove(&block) else {
                continue;
            };
            bytes -= format!("{block} {node} {}\n", at.as_second()).len();
            self.dropped = self.dropped.saturating_add(1);
        }
    }
}

fn read_line(line: &str) -> Option<(Block, Departure)> {
    let mut words = line.split(' ');
    let (block, node, at) = (words.next()?, words.next()?, words.next()?);
    let departure = Departure {
        node: node.parse().ok()?,
        at: Timestamp::from_second(at.parse().ok()?).ok()?,
    };
    let block = block.parse().ok()?;
    words.next().is_none().then_some((block, departure))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const QUARANTINE: SignedDuration = SignedDuration::from_secs(60);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_quarantine_is_never_shorter_by_a_part_of_a_second() {
        let disappeared = at(100)
            .saturating_add(SignedDuration::from_millis(1))
            .unwrap();
        let departure = Departure::new("n".parse().unwrap(), disappeared);
        assert!(departure.is_in_force(disappeared, QUARANTINE));
        assert!(departure.is_in_force(at(160), QUARANTINE));
        assert!(!departure.is_in_force(at(161), QUARANTINE));
        let whole = Departure::new("n".parse().unwrap(), at(100));
        assert_eq!(whole.at, at(100));
    }

    /// The /24 of 10.0.0.0/8 with this number.
    fn block(number: u32) -> Block {
        let (high, low) = (number / 256, number % 256);
        format!("10.{high}.{low}.0/24").parse().unwrap()
    }

    fn departed(numbers: impl IntoIterator<Item = u32>, node: &str) -> BTreeMap<Block, NodeName> {
        let node: NodeName = node.parse().unwrap();
        let numbers = numbers.into_iter();
        numbers
            .map(|number| (block(number), node.clone()))
            .collect()
    }

    impl Departed {
        fn with(mut self, departed: &BTreeMap<Block, NodeName>, second: i64) -> Departed {
            let departed = departed.iter();
            self.waiting = departed
                .map(|(block, node)| (*block, Departure::new(node.clone(), at(second))))
                .collect();
            let waiting = self.quarantined(second);
            self.parts.extend(self.record(at(second), QUARANTINE));
            self.waiting.clear();
            let recorded = self.quarantined(second);
            assert!(self.dropped() > 0 || waiting == recorded);
            self
        }

        /// What a process reads that starts anew.
        fn restarted(&self) -> Departed {
            let parts = self.parts.iter();
            let read = |(part, blocks): (&DepartedPart, &DepartedBlocks)| {
                (*part, DepartedBlocks::from_text(&blocks.to_text()).unwrap())
            };
            Departed {
                parts: parts.map(read).collect(),
                waiting: BTreeMap::new(),
            }
        }

        fn quarantined(&self, second: i64) -> BTreeMap<Block, Quarantined> {
            let mut claims = Claims::default();
            self.add_to(&mut claims, |_| false, at(second), QUARANTINE);
            claims.quarantined
        }
    }

    #[test]
    fn a_block_is_quarantined_for_its_node_until_its_time_is_over() {
        let recorded = Departed::default().with(&departed([1, 2], "n"), 100);
        let quarantined = recorded.restarted().quarantined(159);
        assert_eq!(quarantined.len(), 2);
        assert_eq!(quarantined[&block(1)].node.as_str(), "n");
        assert_eq!(quarantined[&block(1)].free_at, at(160));
        let last = |number, second| recorded.last_node(block(number), at(second), QUARANTINE);
        assert_eq!(last(1, 159).map(NodeName::as_str), Some("n"));
        assert_eq!([last(1, 160), last(3, 159)], [None, None]);
        assert!(recorded.quarantined(160).is_empty());
        let mut claims = Claims::default();
        recorded.add_to(&mut claims, |shown| *shown == block(1), at(100), QUARANTINE);
        assert_eq!(Vec::from_iter(claims.quarantined.into_keys()), [block(2)]);
        let mut claims = Claims::default();
        recorded.add_to(&mut claims, |_| false, at(100), SignedDuration::ZERO);
        assert!(claims.is_empty());
    }

    #[test]
    fn the_later_end_of_two_quarantines_counts() {
        let recorded = Departed::default().with(&departed([1], "n"), 100);
        for (since, holder) in [(50, "n"), (150, "m")] {
            let mut claims = Claims::default();
            claims.quarantine(block(1), &"m".parse().unwrap(), at(since), QUARANTINE);
            recorded.add_to(&mut claims, |_| false, at(110), QUARANTINE);
            assert_eq!(claims.quarantined[&block(1)].node.as_str(), holder);
        }
    }

    #[test]
    fn a_time_far_in_the_future_quarantines_nothing() {
        let recorded = Departed::default().with(&departed([1], "n"), 1_000);
        assert!(recorded.quarantined(900).is_empty());
        assert!(recorded.quarantined(i64::from(i32::MIN)).is_empty());
        assert_eq!(recorded.quarantined(950).len(), 1);
    }

    #[test]
    fn a_departure_that_the_record_has_is_recorded_once() {
        let recorded = Departed::default().with(&departed([1], "n"), 100);
        for (node, second, is_settled) in [
            ("n", 99, true),
            ("n", 100, true),
            ("n", 101, false),
            ("m", 99, false),
            ("n", 50, true),
        ] {
            let mut waiting = recorded.clone();
            let departure = Departure::new(node.parse().unwrap(), at(second));
            waiting.waiting.insert(block(1), departure);
            let changed = waiting.record(at(120), QUARANTINE);
            assert_eq!(changed.is_empty(), is_settled, "{node} {second}");
        }
        let mut late = recorded;
        let departure = Departure::new("n".parse().unwrap(), at(110));
        late.waiting.insert(block(1), departure);
        assert!(late.record(at(170), QUARANTINE).is_empty());
    }

    #[test]
    fn a_waiting_block_is_quarantined_for_the_node_that_left_last() {
        let mut departed = Departed::default().with(&departed([1], "n"), 100);
        let departure = Departure::new("m".parse().unwrap(), at(110));
        departed.waiting.insert(block(1), departure);
        let quarantined = departed.quarantined(120);
        assert_eq!(quarantined[&block(1)].node.as_str(), "m");
        let last = departed.last_node(block(1), at(120), QUARANTINE);
        assert_eq!(last.map(NodeName::as_str), Some("m"));
    }

    #[test]
    fn a_full_record_drops_its_oldest_blocks_and_counts_them() {
        let most = 4 * u32::try_from(MOST_OF_PART).unwrap();
        let recorded = Departed::default()
            .with(&departed(0..8, "older"), 100)
            .with(&departed(8..most, "old"), 101);
        assert_eq!((recorded.blocks().count(), recorded.dropped()), (50_000, 0));
        let recorded = recorded
            .with(&departed(most..most + 4, "new"), 102)
            .restarted();
        assert_eq!((recorded.blocks().count(), recorded.dropped()), (50_000, 4));
        let of = |name: &str| {
            recorded
                .blocks()
                .filter(|(_, one)| one.node.as_str() == name)
                .count()
        };
        assert_eq!((of("older"), of("old"), of("new")), (4, 49_992, 4));
        let recorded = recorded.with(&departed(0..4, "newest"), 500);
        assert_eq!((recorded.blocks().count(), recorded.dropped()), (4, 0));
    }

    #[test]
    fn an_old_block_that_has_no_room_is_written_and_counted_once() {
        let mut of_first = departed(0..60_000, "n");
        of_first.retain(|block, _| DepartedPart::of(*block) == DepartedPart::First);
        let of_first: BTreeMap<Block, NodeName> =
            of_first.into_iter().take(MOST_OF_PART + 1).collect();
        let mut recorded = Departed::default().with(&of_first, 100);
        assert_eq!(recorded.dropped(), 1);
        let (dropped, node) = of_first.into_iter().next().unwrap();
        recorded
            .waiting
            .insert(dropped, Departure::new(node, at(99)));
        assert!(recorded.record(at(110), QUARANTINE).is_empty());
    }

    #[test]
    fn the_longest_names_still_fit_into_the_objects() {
        let name = [
            ["a"; 63].concat(),
            ["b"; 63].concat(),
            ["c"; 63].concat(),
            ["d"; 61].concat(),
        ]
        .join(".");
        let recorded = Departed::default().with(&departed(0..20_000, &name), 100);
        assert!(recorded.dropped() > 0);
        for part in recorded.parts.values() {
            let bytes = part.to_text().len();
            assert!((MOST_BYTES - 300..=MOST_BYTES).contains(&bytes), "{bytes}");
        }
        assert_eq!(recorded.restarted(), recorded);
    }

    #[test]
    fn other_texts_are_refused() {
        let read = |text: &str| DepartedBlocks::from_text(text).unwrap_err();
        for text in [
            "",
            "{}",
            "cilium-ipam-quarantine 2 dropped 0",
            "cilium-ipam-quarantine 1 dropped -1",
        ] {
            assert_eq!(read(text), DepartedError::Header, "{text}");
        }
        for line in [
            "",
            "10.0.0.0/24 n",
            "10.0.0.1/24 n 5",
            "10.0.0.0/24 N 5",
            "10.0.0.0/24 n 5 6",
            "10.0.0.0/24 n 99999999999999",
            "10.0.0.0/24 n 5\n10.0.0.0/24 m 6",
        ] {
            let error = read(&format!("{HEADER}0\n{line}\n"));
            assert!(matches!(error, DepartedError::Line(_)), "{line}: {error}");
        }
        let many: String = (0..=12_500)
            .map(|number| format!("{} n 5\n", block(number)))
            .collect();
        assert_eq!(read(&format!("{HEADER}0\n{many}")), DepartedError::TooLong);
        assert_eq!(read(&" ".repeat(MOST_BYTES + 1)), DepartedError::TooLong);
    }

    proptest! {
        /// Against a list of all departures: the quarantine is what the list says, with restarts at
        /// any time, as long as no part is full.
        #[test]
        fn the_record_is_what_a_list_of_all_departures_says(
            steps in prop::collection::vec((0..40_i64, prop::collection::btree_set(0..64_u32, 0..6), 0..3_u8), 1..40),
        ) {
            let (mut recorded, mut all, mut now) = (Departed::default(), Vec::new(), 0);
            for (pause, numbers, node) in steps {
                now += pause;
                let name = format!("n{node}");
                recorded = recorded.with(&departed(numbers.iter().copied(), &name), now).restarted();
                all.extend(numbers.into_iter().map(|number| (block(number), name.clone(), now)));
                let mut expected = BTreeMap::new();
                for (block, node, since) in &all {
                    expected.insert(*block, (node.as_str(), *since));
                }
                expected.retain(|_, (_, since)| *since + 60 > now);
                let quarantined = recorded.quarantined(now);
                let found = quarantined.iter();
                let found: BTreeMap<Block, (&str, i64)> = found
                    .map(|(block, one)| (*block, (one.node.as_str(), one.free_at.as_second() - 60)))
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }

        #[test]
        fn no_text_panics(text in "(cilium-ipam-quarantine 1 dropped [0-9]{0,25}\\PC?\n)?(\\PC{0,20}|10.0.0.0/24 n -?[0-9]{0,20}\n){0,5}") {
            if let Ok(read) = DepartedBlocks::from_text(&text) {
                prop_assert_eq!(DepartedBlocks::from_text(&read.to_text()), Ok(read));
            }
        }
    }

    #[test]
    fn neighbouring_blocks_are_in_different_parts() {
        for texts in [
            ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"],
            [
                "fd00::/64",
                "fd00:0:0:1::/64",
                "fd00:0:0:2::/64",
                "fd00:0:0:3::/64",
            ],
        ] {
            let parts = texts.map(|text| DepartedPart::of(text.parse().unwrap()));
            assert_eq!(BTreeSet::from(parts).len(), 4);
        }
    }
}
