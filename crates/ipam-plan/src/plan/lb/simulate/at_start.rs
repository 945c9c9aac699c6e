//! What the next start of the operator does. A running operator has seen the changes one by one; a
//! stopped one sees them all at once when it starts.

use std::collections::BTreeMap;

use super::super::simulated_state::SimulatedState;
use super::service_effect::{Expected, ServiceEffect, effect_of};
use super::{Losses, Simulation, all, lost_of};
use ipam_cilium::lbipam::{
    Certainty, Evaluated, GainedAddress, LbRules, LbService, OperatorState, Rivalry, evaluate,
};
use ipam_cilium::observed::OperatorRun;
use ipam_core::model::ServiceName;

impl Simulation {
    /// The changes so far without an operator: no Service loses or gets an address.
    fn untouched(&self) -> SimulatedState {
        let mut state = self.before.clone();
        for change in &self.steps {
            state.apply(change);
        }
        state
    }

    /// Addresses that are lost when an operator with these rules starts, and might have stayed without
    /// the changes.
    pub(super) fn lost_at_start(&self, rules: &LbRules) -> Losses {
        let before = started(&self.before, rules, &|_| true);
        let after = match self.run {
            // A Service that got an address in one of the steps no longer waits, whichever it got.
            OperatorRun::Assumed => started(&self.usual.state, rules, &|service| {
                !service.ingress.is_empty() || self.usual.given_to(&service.name).is_empty()
            }),
            OperatorRun::Stopped => started(&self.untouched(), rules, &|_| true),
        };
        let before = lost_of(&before.outcomes, all);
        let mut lost = lost_of(&after.outcomes, all);
        lost.retain(|address, (_, certainty)| match before.get(address) {
            Some((_, Certainty::LeftToChance)) => *certainty == Certainty::Certain,
            Some((_, Certainty::Certain)) => false,
            None => true,
        });
        lost
    }

    /// What each Service gets or waits for when a stopped operator starts, and not without the
    /// changes; and how many addresses they give.
    pub(super) fn expected_at_start(
        &self,
        rivalry: &Rivalry,
    ) -> (BTreeMap<ServiceName, ServiceEffect>, usize) {
        let rules = &self.before.rules;
        let state = self.untouched();
        let pools = state.read(rules);
        let before = started(&self.before, rules, &|_| true);
        let after = started(&state, rules, &|_| true);
        let is_doubtful = |gain: &GainedAddress| rivalry.is_doubtful(gain, &pools);
        let (mut effects, mut given) = (BTreeMap::new(), 0);
        for (name, outcome) in after.outcomes {
            let known = before.outcomes.get(&name);
            let is_new = |gain: &GainedAddress| {
                known.is_none_or(|known| {
                    !(known.gains.contains(gain) || known.chances.contains(gain))
                })
            };
            let mut expected = Expected {
                gains: outcome.gains,
                certainty: outcome.certainty,
                chances: outcome.chances,
                pending: outcome.pending,
            };
            expected.gains.retain(is_new);
            expected.chances.retain(is_new);
            expected
                .pending
                .retain(|why| known.is_none_or(|known| !known.pending.contains(why)));
            given += expected.gains.len();
            let effect = effect_of(&name, vec![expected], &is_doubtful);
            effects.insert(name, effect);
        }
        (effects, given)
    }
}

/// The outcome when an operator with these rules starts, and sees the Services that take part.
fn started(
    state: &SimulatedState,
    rules: &LbRules,
    takes_part: &dyn Fn(&&LbService) -> bool,
) -> Evaluated {
    let services = state.services.values().filter(takes_part);
    evaluate(
        &state.read(rules),
        services,
        rules,
        OperatorState::Restarted,
    )
}
