//! What a Service that lacks an address can expect at the operator's start: what is sure, and what
//! another Service may take first. Must never know why an address is lost.

use std::collections::BTreeSet;

use super::addresses::Starts;
use super::change::listed;
use ipam_cilium::lbipam::{self, Certainty, GainedAddress, InOrder, Pending, Prospect};
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
    let all: Vec<InOrder<'_>> = outcomes.iter().map(|one| InOrder::from(*one)).collect();
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

    /// `, then gets … and may get … or waits …`: what is sure, and then what chance decides.
    pub(super) fn then(&self) -> String {
        let texts = |is_sure: bool| {
            let gains = self
                .gains
                .iter()
                .filter(move |gain| gain.is_sure() == is_sure);
            gains.map(ToString::to_string).collect::<BTreeSet<_>>()
        };
        let waits = self.waits.iter();
        let waits: Vec<String> = waits.map(|reason| format!("waits (`{reason}`)")).collect();
        let mut all: Vec<String> = texts(true).into_iter().chain(texts(false)).collect();
        let instead = match self.are_sure() {
            true => {
                all.extend(waits);
                String::new()
            }
            false => waits.iter().map(|why| format!(" or {why}")).collect(),
        };
        match all.is_empty() {
            true => String::new(),
            false => format!(", then {}{instead}", listed(all)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prospects(gains: &[(&str, Certainty)], waits: &[&'static str]) -> String {
        let gain = |(address, certainty): &(&str, Certainty)| Prospect {
            any_of: vec![GainedAddress::Exactly(address.parse().unwrap())],
            certainty: *certainty,
        };
        let all = Prospects {
            gains: gains.iter().map(gain).collect(),
            waits: waits.iter().copied().collect(),
        };
        all.then()
    }

    #[test]
    fn chance_decides_only_what_is_not_sure() {
        let (sure, open) = (Certainty::Certain, Certainty::LeftToChance);
        for (gains, waits, text) in [
            (&[][..], &[][..], ""),
            (&[], &["no_pool"], ", then waits (`no_pool`)"),
            (&[("10.0.0.1", sure)], &[], ", then gets 10.0.0.1"),
            (
                &[("10.0.0.1", sure), ("10.0.0.2", sure)],
                &["out_of_ips"],
                ", then gets 10.0.0.1, gets 10.0.0.2 and waits (`out_of_ips`)",
            ),
            (
                &[("10.0.0.1", sure), ("10.0.0.2", open)],
                &["out_of_ips"],
                ", then gets 10.0.0.1 and may get 10.0.0.2 or waits (`out_of_ips`)",
            ),
            (
                &[("10.0.0.1", open), ("fd00::1", open)],
                &[],
                ", then may get 10.0.0.1 and may get fd00::1",
            ),
        ] {
            assert_eq!(prospects(gains, waits), text);
        }
    }
}
