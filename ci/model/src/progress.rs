//! What a single applier brings about that has the cluster to itself. Judges no state by what
//! others might do.

use crate::protocol::{Action, Flight, Kind, Protocol, Step, die, is_served};
use crate::state::{Phase, State};
use crate::world::Event;

/// How many rounds an applier may need: one to learn that a claim is dead, and one to give its
/// block away.
const ROUNDS: usize = 2;

impl Protocol {
    /// Whether all nodes are served in the end once everything that is on its way got lost, time
    /// has passed and everybody but one applier is gone.
    pub(crate) fn progresses(&self, state: &State) -> bool {
        let mut state = state.clone();
        for applier in 0..state.appliers.len() {
            die(&mut state, applier);
        }
        state.in_flight.clear();
        for _ in 0..ROUNDS {
            // Quarantined blocks are free in the next round.
            self.go(&mut state, Action::Event(Event::TimePasses));
            self.round(&mut state);
        }
        is_served(&state)
    }

    fn round(&self, state: &mut State) {
        for step in [Step::Read(Kind::Claims), Step::Decide(0), Step::Swap] {
            self.go(state, Action::Applier(0, step));
        }
        let sent = match &state.appliers[0].phase {
            Phase::Deciding { sent, .. } => sent.len(),
            Phase::Idle | Phase::Reading { .. } => 0,
        };
        for write in 0..sent {
            self.go(
                state,
                Action::Landing(Flight::Awaited { applier: 0, write }),
            );
        }
        self.go(state, Action::Applier(0, Step::Close));
        die(state, 0);
    }

    /// A step that is not possible changes nothing. Indifferent details stay, so that positions do
    /// too.
    fn go(&self, state: &mut State, action: Action) {
        let mut next = state.clone();
        if self.act(&mut next, action).is_some() {
            *state = next;
        }
    }
}
