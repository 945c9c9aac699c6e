//! Blocks of deleted nodes that the record lacks. A deletion that a watch reports and the absence
//! from a complete list prove that an object is gone; nothing else does.
//!
//! A block waits here until the record shows it. If the leader is killed before it records a block,
//! the next leader records it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::cached_kind::{CachedKind, Object};
use super::{CacheEffect, State};
use crate::Seen;
use ipam_cilium::observed::{DEPARTED_KEY, ObservedKind};
use ipam_core::claims::{Departed, DepartedBlocks, DepartedPart, Departure, MOST_OF_PART};
use ipam_core::model::NodeName;
use ipam_core::net::Block;

/// Most blocks that wait. Twice as many as the record holds, so that `quarantine-full` is reported
/// before the cache drops a block.
const MOST: usize = 2 * DepartedPart::ALL.len() * MOST_OF_PART;

impl State {
    /// The blocks that wait to be recorded.
    pub(in crate::cache) fn departed(&self) -> BTreeMap<Block, Departure> {
        let waiting = self.departed.iter();
        let waiting = waiting.filter(|(block, _)| !self.shown.contains_key(block));
        waiting
            .map(|(block, departure)| (*block, departure.clone()))
            .collect()
    }

    /// Forgets waiting blocks, unless they are kept.
    pub(in crate::cache) fn retain_departed(
        &mut self,
        is_kept: impl Fn(Block, &Departure) -> bool,
    ) -> CacheEffect {
        let before = self.departed.len();
        let is_kept = |block: &Block, departure: &mut Departure| is_kept(*block, departure);
        self.departed.retain(is_kept);
        match self.departed.len() < before {
            true => CacheEffect::Changed,
            false => CacheEffect::None,
        }
    }

    /// An object is gone: its blocks wait to be recorded, unless another object shows them.
    pub(super) fn note_departed(&mut self, kind: ObservedKind, name: &str, blocks: &[Block]) {
        let Some(node) = name
            .parse::<NodeName>()
            .ok()
            .filter(|_| kind.shows_pod_cidrs())
        else {
            return;
        };
        let departure = Departure::new(node, self.now);
        for block in blocks {
            if !self.shown.contains_key(block) {
                self.add_departed(*block, departure.clone());
            }
        }
    }

    /// Adds a block, unless a later departure of it waits. Drops the oldest blocks if there are too
    /// many.
    fn add_departed(&mut self, block: Block, departure: Departure) {
        let waiting = self.departed.get(&block);
        if waiting.is_some_and(|waiting| waiting.at > departure.at) {
            return;
        }
        self.departed.insert(block, departure);
        if self.departed.len() > MOST {
            // A part of them at once: each search visits all blocks.
            let mut by_age: Vec<_> = self.departed.iter().collect();
            by_age.sort_unstable_by_key(|(block, one)| (one.at, **block));
            let oldest = by_age.into_iter().take(MOST / 16).map(|(block, _)| *block);
            for block in oldest.collect::<Vec<_>>() {
                self.departed.remove(&block);
            }
        }
    }

    /// Compares complete lists with the kinds before them.
    pub(super) fn note_departed_between(&mut self, before: &BTreeMap<ObservedKind, CachedKind>) {
        let mut gone = Vec::new();
        for (kind, old) in before {
            let Some(new) = self.kinds.get(kind) else {
                continue;
            };
            if (&old.seen, &new.seen) != (&Seen::All, &Seen::All) {
                continue;
            }
            for (name, object) in old.objects.iter() {
                match new.objects.get(name) {
                    Some(new) if new.uid == object.uid => {}
                    _ => gone.push((*kind, name.clone(), object.blocks.clone())),
                }
            }
        }
        for (kind, name, blocks) in gone {
            self.note_departed(kind, &name, &blocks);
        }
        self.compare_records(before);
    }

    /// Compares the record with the one before. After a restore of etcd, the record may lack blocks
    /// that it had.
    fn compare_records(&mut self, before: &BTreeMap<ObservedKind, CachedKind>) {
        let new = recorded(&self.kinds);
        self.settle_recorded(new.blocks());
        if self.rollback.is_none() {
            return;
        }
        let known: BTreeMap<Block, _> = new.blocks().collect();
        for (block, departure) in recorded(before).blocks() {
            if !known.contains_key(&block) {
                self.add_departed(block, departure.clone());
            }
        }
    }

    /// A part of the record has changed.
    pub(super) fn record_changed(&mut self, new: &Object) {
        self.settle_recorded(blocks_of(new).blocks());
    }

    /// Removes waiting blocks that the record has. An earlier entry is of an earlier deletion.
    fn settle_recorded<'d>(&mut self, recorded: impl Iterator<Item = (Block, &'d Departure)>) {
        if self.departed.is_empty() {
            return;
        }
        for (block, departure) in recorded {
            let is_it =
                |waiting: &Departure| waiting.node == departure.node && waiting.at <= departure.at;
            if self.departed.get(&block).is_some_and(is_it) {
                self.departed.remove(&block);
            }
        }
    }
}

fn recorded(kinds: &BTreeMap<ObservedKind, CachedKind>) -> Departed {
    let part = |part: DepartedPart| {
        let objects = &kinds.get(&ObservedKind::Departed(part))?.objects;
        Some((part, blocks_of(objects.values().next()?)))
    };
    Departed {
        parts: DepartedPart::ALL.into_iter().filter_map(part).collect(),
        waiting: BTreeMap::new(),
    }
}

/// The blocks that an object of the record has; none if it cannot be read.
fn blocks_of(object: &Object) -> DepartedBlocks {
    let object: Value = serde_json::from_str(&object.json).unwrap_or_default();
    let text = object["data"][DEPARTED_KEY].as_str();
    text.and_then(|text| DepartedBlocks::from_text(text).ok())
        .unwrap_or_default()
}
