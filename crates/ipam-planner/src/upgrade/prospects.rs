//! What a Service that lacks an address can expect at the operator's start: what is sure, and what
//! another Service may take first. Must never know why an address is lost.

use std::collections::BTreeSet;

use super::addresses::Starts;
use super::change::listed;
use ipam_cilium::lbipam::{self, Certainty, GainedAddress, Pending, Prospect};
use ipam_core::model::ServiceName;

/// All that a Service can expect.
#[derive(Clone, Debug, Default)]
pub(super) struct Prospects {
    pub(super) gains: Vec<Prospect>,
    /// Reasons for which it may wait.
    waits: BTreeSet<&'static str>,
}

/// Compares what the Service gets in every order.
pub(super) fn prospects(starts: &Starts, name: &ServiceName) -> Prospects {
    let orders = [&starts.next, &starts.adverse[0], &starts.adverse[1]];
    let outcomes = orders.map(|evaluated| evaluated.outcomes.get(name));
    let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
    let all: Vec<&[GainedAddress]> = outcomes.iter().map(|one| &one.gains[..]).collect();
    let rivalry = &starts.rivalry;
    let mut gains = lbipam::prospects(&all, &|gain| rivalry.is_doubtful(gain, &starts.next_pools));
    let pending = outcomes.iter().take(1).flat_map(|one| &one.pending);
    for address in pending
        .filter_map(Pending::awaits)
        .filter(|one| rivalry.is_disputed(*one))
    {
        let any_of = vec![GainedAddress::Exactly(address)];
        if !gains.iter().any(|known| known.any_of == any_of) {
            gains.push(Prospect {
                any_of,
                certainty: Certainty::LeftToChance,
            });
        }
    }
    let is_sure = gains.iter().all(Prospect::is_sure);
    let pending = outcomes.iter().take(if is_sure { 1 } else { orders.len() });
    let pending = pending.flat_map(|outcome| &outcome.pending);
    Prospects {
        waits: pending.map(Pending::reason).collect(),
        gains,
    }
}

impl Prospects {
    /// Whether chance decides nothing.
    pub(super) fn are_sure(&self) -> bool {
        self.gains.iter().all(Prospect::is_sure)
    }

    /// `, then gets …`, or why it waits.
    pub(super) fn then(&self) -> String {
        let gains = self.gains.iter().map(ToString::to_string);
        let waits = self
            .waits
            .iter()
            .map(|reason| format!("waits (`{reason}`)"));
        let all: BTreeSet<String> = gains.chain(waits).collect();
        match (all.is_empty(), self.are_sure()) {
            (true, _) => String::new(),
            (false, true) => format!(", then {}", listed(all)),
            (false, false) => {
                let all: Vec<String> = all.into_iter().collect();
                format!(", then {}", all.join(" or "))
            }
        }
    }
}
