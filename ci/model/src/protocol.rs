//! The protocol as a model: which steps are possible in a state, and what each leads to.
//!
//! This module and `applier` define the order of the steps. The decisions in the steps come from
//! the code of `cilium-ipam` itself.

use anyhow::{Result, ensure};
use stateright::{Model, Property};

use crate::bounds::{Bounds, Progress};
use crate::decisions::Decisions;
use crate::list::{List, MOST};
use crate::mutation::Mutation;
use crate::state::{
    Applier, BlockIndex, Change, ClaimStatus, Knowledge, NodeIndex, Nodes, Phase, Slot, Spoken,
    State,
};
use crate::world::{Event, World, held, new_node};
use worlds::invariants::{Invariant, shared};

/// No two existing Nodes have the same block.
pub(crate) const UNIQUE: &str = Invariant::NoSharedBlock.name();
/// All nodes exist, and each has a block unless the blocks have run out.
pub(crate) const SERVED: &str = "all nodes are served";
/// As [`SERVED`], and one of the nodes was deleted before.
pub(crate) const SERVED_AGAIN: &str = "a node that came back is served";
/// Each node gets a block once an applier runs alone.
pub(crate) const PROGRESSES: &str = "a single applier serves all nodes";

/// What an applier does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Read(Kind),
    /// It reads what it has not read yet, and decides as one of the directories says.
    Decide(u8),
    /// It replaces the claims, and sends the writes of a batch.
    Swap,
    /// As `Swap`, but the landed writes of the earlier batches are not settled yet.
    SwapUnsettled,
    /// It tells the cluster which claims its writes have settled.
    Close,
    /// It has waited long enough for the answer to a write, and does not know what became of it.
    GiveUp(u8),
    /// It is killed.
    Die,
    /// It writes for the claims that it has found.
    FinishFound,
}

/// What is read in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Claims,
    CiliumNodes,
    Nodes,
}

/// A write on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flight {
    /// Its applier waits for the answer.
    Awaited { applier: usize, write: usize },
    /// No applier waits for the answer.
    Forgotten(usize),
}

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Applier(usize, Step),
    Landing(Flight),
    Event(Event),
}

/// The model.
pub(crate) struct Protocol {
    pub bounds: Bounds,
    pub mutation: Option<Mutation>,
    pub decisions: Decisions,
}

impl Protocol {
    pub(crate) fn new(bounds: Bounds, mutation: Option<Mutation>) -> Result<Protocol> {
        let sizes = [bounds.appliers, bounds.nodes, bounds.blocks];
        ensure!(
            sizes.iter().all(|size| usize::from(*size) <= MOST),
            "no more than {MOST} of anything: {bounds}"
        );
        Ok(Protocol {
            bounds,
            mutation,
            decisions: Decisions::new(&bounds, mutation)?,
        })
    }

    pub(crate) fn world(&self) -> World {
        World {
            writes: self.bounds.writes,
            garbage: self.bounds.garbage,
            mutation: self.mutation,
        }
    }

    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Does it, if it is possible.
    pub(crate) fn act(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Applier(applier, step) => self.step(state, applier, step),
            Action::Landing(flight) => self.land(state, flight),
            Action::Event(event) => self.world().happen(state, event),
        }
    }

    fn landings(&self, state: &State, actions: &mut Vec<Action>) {
        let accepts = |write: &Change| self.world().accepts(state, write);
        for (applier, Applier { phase, .. }) in state.appliers.iter().enumerate() {
            let Phase::Deciding { sent, .. } = phase else {
                continue;
            };
            for (write, (change, claim_status)) in sent.iter().enumerate() {
                if *claim_status == ClaimStatus::InFlight && accepts(change) {
                    actions.push(Action::Landing(Flight::Awaited { applier, write }));
                }
            }
        }
        let forgotten = state
            .in_flight
            .iter()
            .enumerate()
            .filter(|(_, change)| accepts(change));
        actions.extend(forgotten.map(|(index, _)| Action::Landing(Flight::Forgotten(index))));
    }

    fn land(&self, state: &mut State, flight: Flight) -> Option<()> {
        let change = match flight {
            Flight::Forgotten(index) => {
                let change = *state.in_flight.get(index)?;
                if !self.world().may_repeat(state, &change) {
                    state.in_flight.remove(index);
                }
                change
            }
            Flight::Awaited { applier, write } => {
                let Phase::Deciding { sent, .. } = &mut state.appliers[applier].phase else {
                    return None;
                };
                let (change, claim_status) = sent.get_mut(write)?;
                *claim_status = ClaimStatus::Landed;
                *change
            }
        };
        self.world()
            .accepts(state, &change)
            .then(|| self.world().land(state, &change))?
    }

    /// Drops state that no longer makes a difference, so that there are fewer distinct states.
    fn forget_the_indifferent(&self, state: &mut State) {
        // Such an applier can only fail at its next swap, as a killed one does.
        if !self
            .mutation
            .is_some_and(Mutation::lets_outdated_appliers_act)
        {
            for applier in 0..state.appliers.len() {
                if state.appliers[applier].knowledge == Knowledge::Outdated {
                    die(state, applier);
                }
            }
        }
        if !self.has(Mutation::DroppedUnanswered) {
            self.forget_refused(state);
        }
        let mut in_flight = std::mem::take(&mut state.in_flight);
        in_flight.retain(|write| self.world().may_accept(state, write));
        in_flight.sort_unstable();
        state.in_flight = in_flight;
        self.forget_copies(state);
    }

    fn forget_copies(&self, state: &mut State) {
        let mut kept: Vec<Change> = Vec::with_capacity(state.in_flight.len());
        for write in &state.in_flight {
            let copies = kept
                .iter()
                .rev()
                .take_while(|other| *other == write)
                .count();
            if copies < self.world().copies_that_matter(state, write) {
                kept.push(*write);
            }
        }
        state.in_flight = kept;
    }

    /// Writes that can no longer land, and appliers that wait for nothing else.
    fn forget_refused(&self, state: &mut State) {
        let mut appliers = state.appliers;
        for applier in &mut appliers {
            let Phase::Deciding { claims, left, sent } = &mut applier.phase else {
                continue;
            };
            sent.retain(|(write, claim_status)| {
                *claim_status == ClaimStatus::Landed || self.world().may_accept(state, write)
            });
            if left.is_empty() && sent.is_empty() && *claims == state.claims {
                *applier = Applier::default();
            }
        }
        state.appliers = appliers;
    }
}

/// An applier loses its memory; what it has sent stays on its way.
pub(crate) fn die(state: &mut State, applier: usize) {
    let applier = std::mem::take(&mut state.appliers[applier]);
    if let Phase::Deciding { sent, .. } = applier.phase {
        let under_way = sent
            .iter()
            .filter(|(_, claim_status)| *claim_status == ClaimStatus::InFlight);
        state.in_flight.extend(under_way.map(|(write, _)| *write));
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let Bounds {
            appliers,
            nodes,
            blocks,
            disturbances,
            ..
        } = self.bounds;
        let mut state = State {
            nodes: List::of(
                Slot {
                    living: Some(new_node(0)),
                    next_uid: 1,
                },
                nodes,
            ),
            cilium_nodes: List::of(None, nodes),
            claims: List::of(Spoken::default(), blocks),
            appliers: List::of(Applier::default(), appliers),
            in_flight: Vec::new(),
            cache: Nodes::default(),
            disturbances_left: disturbances,
        };
        if self.has(Mutation::NodesFromCache) {
            state.cache = state.living();
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for applier in 0..state.appliers.len() {
            // Equal appliers have equal futures.
            if !state.appliers[..applier].contains(&state.appliers[applier]) {
                actions.extend(
                    self.steps(state, applier)
                        .into_iter()
                        .map(|step| Action::Applier(applier, step)),
                );
            }
        }
        self.landings(state, actions);
        actions.extend(self.world().events(state).into_iter().map(Action::Event));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.act(&mut state, action)?;
        self.forget_the_indifferent(&mut state);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        let unique = Property::always(UNIQUE, |_, state: &State| duplicate(state).is_none());
        let served = Property::sometimes(SERVED, |_, state: &State| {
            is_complete(state) && is_served(state)
        });
        let served_again = Property::sometimes(SERVED_AGAIN, |_, state: &State| {
            is_complete(state)
                && is_served(state)
                && (0..)
                    .zip(&state.nodes)
                    .any(|(node, _)| is_later(state, node))
        });
        let progresses = Property::always(PROGRESSES, Protocol::progresses);
        match (self.mutation, self.bounds.progress) {
            // The search ends with the first violation then, and the first is the nearest.
            (Some(_), _) => vec![unique],
            (None, Progress::Unchecked) => vec![unique, served, served_again],
            (None, Progress::Checked) => vec![unique, served, served_again, progresses],
        }
    }
}

fn is_complete(state: &State) -> bool {
    state.nodes.iter().all(|slot| slot.living.is_some())
}

/// Whether a node has a block and had a predecessor of the same name.
fn is_later(state: &State, node: NodeIndex) -> bool {
    state.node(node).is_some_and(|node| node.uid > 0) && !held(state, node).is_empty()
}

/// Whether each existing node has a block, or all blocks are used.
pub(crate) fn is_served(state: &State) -> bool {
    let living = state
        .nodes
        .iter()
        .filter(|slot| slot.living.is_some())
        .count();
    let served = (0..)
        .zip(&state.nodes)
        .filter(|(node, _)| !held(state, *node).is_empty())
        .count();
    served == living.min(state.claims.len())
}

/// Two nodes that have the same block. Blocks of one size overlap only where they are equal.
pub(crate) fn duplicate(state: &State) -> Option<(NodeIndex, NodeIndex)> {
    let held: Vec<(NodeIndex, BlockIndex)> = (0..)
        .zip(&state.nodes)
        .flat_map(|(node, _)| {
            held(state, node)
                .into_iter()
                .map(move |block| (node, block))
        })
        .collect();
    let shared = shared(&held, |one, two| one == two);
    shared.first().map(|(first, second)| (first.0, second.0))
}
