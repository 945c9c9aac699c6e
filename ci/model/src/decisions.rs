//! Asks the program itself what it would do, and remembers its answers: the same question comes up
//! in many states. Knows nothing of appliers, nor of what may go wrong between a decision and its
//! writes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use anyhow::{Error, Result, bail};

use crate::bounds::{Bounds, Moves, WriteKind};
use crate::list::List;
use crate::mutation::Mutation;
use crate::state::{BlockIndex, Change, Claim, Claims, Guard, NodeIndex, Seen};
use crate::translate::{NOW, Names, QUARANTINE};
use ipam_cilium::observed::Observed;
use ipam_core::claims::ClaimIndex;
use ipam_desired::Desired;
use ipam_plan::plan::{
    Action, Change as RealChange, Plan, claim_changes, node_changes, plan, settle_applied,
};

/// What some directory makes of what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub changes: List<Change>,
    /// How many of them move a node, which the planner of today would refuse.
    pub moves: u8,
}

/// Claims with those of a batch, and the changes of it that may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub claims: Claims,
    pub writable: List<Change>,
}

/// One file of pins, and what it asks for.
struct Directory {
    pins: Vec<(NodeIndex, BlockIndex)>,
    desired: Desired,
}

/// The program, with a memory.
pub(crate) struct Decisions {
    writes: WriteKind,
    /// How they are claimed.
    claims: WriteKind,
    moves: Moves,
    pub names: Names,
    directories: Vec<Directory>,
    choices: Memory<Seen, Arc<[Choice]>>,
    live_claims: Memory<Seen, Claims>,
    claimed: Memory<(Claims, List<Change>), Claimed>,
    settled: Memory<(Claims, List<Change>), Claims>,
    failure: OnceLock<Error>,
}

impl Decisions {
    pub(crate) fn new(bounds: &Bounds, mutation: Option<Mutation>) -> Result<Decisions> {
        let names = Names::new(bounds.nodes, bounds.blocks)?;
        let directory = |pins: Vec<_>| {
            Ok(Directory {
                desired: names.desired(&pins)?,
                pins,
            })
        };
        let directories: Result<_> = all_pins(bounds.nodes, bounds.blocks)
            .into_iter()
            .map(directory)
            .collect();
        Ok(Decisions {
            writes: bounds.writes,
            claims: match mutation {
                Some(Mutation::CreationDroppedAsVersionMoved) => WriteKind::Guarded,
                _ => bounds.writes,
            },
            moves: bounds.moves,
            directories: directories?,
            names,
            choices: Memory::default(),
            live_claims: Memory::default(),
            claimed: Memory::default(),
            settled: Memory::default(),
            failure: OnceLock::new(),
        })
    }

    /// The first answer that was not understood; what was checked with it proves nothing.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// What each of all possible directories makes of what was seen, without repetitions.
    pub(crate) fn choices(&self, seen: &Seen) -> Arc<[Choice]> {
        self.choices.get(seen, || {
            let mut choices = Vec::new();
            for directory in &self.directories {
                for choice in self.understood(self.choices_of(directory, seen)) {
                    if !choices.contains(&choice) {
                        choices.push(choice);
                    }
                }
            }
            choices.into()
        })
    }

    /// The claims that are in force in the light of what was seen.
    pub(crate) fn live_claims(&self, seen: &Seen) -> Claims {
        self.live_claims.get(seen, || {
            let real = self.names.observed(seen, &[]).live_claims(QUARANTINE);
            self.understood(self.names.read_claims(&real))
        })
    }

    /// What claims become before a batch is written.
    pub(crate) fn claim(&self, live_claims: &Claims, batch: &List<Change>) -> Claimed {
        self.claimed.get(&(*live_claims, *batch), || {
            let claimed = match self.claims {
                WriteKind::Guarded => self.claim_guarded(live_claims, batch),
                WriteKind::Creation => self.claim_creations(live_claims, batch),
            };
            self.understood(claimed)
        })
    }

    /// What claims become once these changes are known to be applied.
    pub(crate) fn settle(&self, claims: &Claims, applied: &List<Change>) -> Claims {
        self.settled.get(&(*claims, *applied), || {
            let changes: Vec<_> = applied
                .iter()
                .map(|change| self.names.node_change(change))
                .collect();
            let real = settle_applied(&self.names.claims(claims), changes.iter(), NOW, QUARANTINE);
            self.understood(self.names.read_claims(&real))
        })
    }

    fn claim_guarded(&self, live_claims: &Claims, batch: &[Change]) -> Result<Claimed> {
        let changes: Vec<_> = batch
            .iter()
            .map(|change| RealChange::Node(Box::new(self.names.node_change(change))))
            .collect();
        let (claims, conflicts) =
            claim_changes(&self.names.claims(live_claims), &changes, NOW, QUARANTINE);
        let writable = batch
            .iter()
            .enumerate()
            .filter(|(index, _)| !conflicts.contains_key(index));
        Ok(Claimed {
            claims: self.names.read_claims(&claims)?,
            writable: writable.map(|(_, change)| *change).collect(),
        })
    }

    /// The planner has no such write path yet, so its claims are made here, by the rule that will
    /// hold for them.
    fn claim_creations(&self, live_claims: &Claims, batch: &[Change]) -> Result<Claimed> {
        let mut claims = self.names.claims(live_claims);
        let mut writable = List::default();
        for change in batch {
            let claim = Claim {
                node: change.node,
                uid: change.uid,
                guard: Guard::Creation,
            };
            let block = self.names.blocks[usize::from(change.after)];
            let claim = self.names.claim(&claim);
            if ClaimIndex::new(&claims)
                .claimant(block, &claim.node)
                .is_none()
            {
                claims.in_flight.insert(block, claim);
                writable.extend([*change]);
            }
        }
        Ok(Claimed {
            claims: self.names.read_claims(&claims)?,
            writable,
        })
    }

    fn choices_of(&self, directory: &Directory, seen: &Seen) -> Result<Vec<Choice>> {
        let changes = self.changes(
            &plan(
                &directory.desired,
                &self.names.observed(seen, &[]),
                Vec::new(),
            ),
            seen,
        )?;
        let mut choices = vec![Choice { changes, moves: 0 }];
        let moved = moved_by(&directory.pins, seen);
        if self.moves == Moves::Planned && !moved.is_empty() {
            choices.push(self.choice_with_moves(directory, seen, &moved)?);
        }
        Ok(choices)
    }

    /// What the planner would do if a held block could move: it sees the nodes that are to move as
    /// if they held nothing.
    fn choice_with_moves(
        &self,
        directory: &Directory,
        seen: &Seen,
        moved: &[NodeIndex],
    ) -> Result<Choice> {
        let observed: Observed = self.names.observed(seen, moved);
        let mut changes = self.changes(&plan(&directory.desired, &observed, Vec::new()), seen)?;
        let mut moves = 0;
        for change in &mut changes {
            change.before = seen.nodes[usize::from(change.node)].and_then(|node| node.shown);
            moves += u8::from(change.before.is_some());
        }
        Ok(Choice { changes, moves })
    }

    fn changes(&self, plan: &Plan, seen: &Seen) -> Result<List<Change>> {
        let mut changes = List::default();
        for change in node_changes(&plan.changes) {
            let read = self.names.read_change(change)?;
            let has_object = seen.cilium_nodes[usize::from(read.node)].is_some();
            match (self.writes, has_object) {
                // What exists already is not created.
                (WriteKind::Creation, true) => {}
                (_, false) if change.action == Action::Assign => changes.extend([read]),
                _ => bail!("an unexpected change: {change:?}"),
            }
        }
        Ok(changes)
    }

    fn understood<T: Default>(&self, answer: Result<T>) -> T {
        answer.unwrap_or_else(|error| {
            // Only the first error is reported.
            let _ = self.failure.set(error);
            T::default()
        })
    }
}

/// Nodes with a block other than the one to which a directory pins them.
fn moved_by(pins: &[(NodeIndex, BlockIndex)], seen: &Seen) -> Vec<NodeIndex> {
    let held = |node: NodeIndex| seen.nodes[usize::from(node)].and_then(|node| node.shown);
    let moves = pins
        .iter()
        .filter(|(node, block)| held(*node).is_some_and(|held| held != *block));
    moves.map(|(node, _)| *node).collect()
}

/// Every way to pin some of the nodes to a block each, a block to one node at the most.
fn all_pins(nodes: u8, blocks: u8) -> Vec<Vec<(NodeIndex, BlockIndex)>> {
    let mut all = vec![Vec::new()];
    for node in 0..nodes {
        let with_node = |pins: &Vec<(NodeIndex, BlockIndex)>| {
            let free = (0..blocks).filter(|block| pins.iter().all(|(_, other)| other != block));
            free.map(|block| [pins.as_slice(), &[(node, block)]].concat())
                .collect::<Vec<_>>()
        };
        let further: Vec<_> = all.iter().flat_map(with_node).collect();
        all.extend(further);
    }
    all
}

/// Answers by question.
struct Memory<K, V>(RwLock<HashMap<K, V>>);

impl<K, V> Default for Memory<K, V> {
    fn default() -> Memory<K, V> {
        Memory(RwLock::default())
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Memory<K, V> {
    fn get(&self, question: &K, answer: impl FnOnce() -> V) -> V {
        if let Some(known) = self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(question)
        {
            return known.clone();
        }
        let answer = answer();
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(question.clone(), answer.clone());
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_all_partial_injections() {
        assert_eq!(all_pins(2, 2).len(), 1 + 4 + 2);
        assert_eq!(all_pins(3, 2).len(), 1 + 6 + 6);
    }
}
