//! The order in which the operator serves Services that lack an address. Knows nothing of addresses
//! that are free.

use super::pool::OperatorState;
use super::reaction::{Reaction, Revalidation};
use super::rules::LbRules;
use super::selection::Request;
use super::service::AddressRequest;
use crate::behaviours;
use ipam_core::net::Family;

/// Which of the Services that lack an address is served first, and what it takes. The operator goes by
/// the order of a Go map. Of two rivals, each is served first in one of the adverse orders; of three,
/// the one in between is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingOrder {
    /// Those that the operator prefers, then by name. A Service that takes any address takes none that
    /// another one requests.
    Usual,
    /// The same order. A Service that takes any address takes those that later ones request.
    Adverse,
    /// The reverse of it, among those that compete.
    AdverseReversed,
}

impl ServingOrder {
    /// The orders in which Services that compete have bad luck.
    pub const ADVERSE: [ServingOrder; 2] = [ServingOrder::Adverse, ServingOrder::AdverseReversed];
}

/// How soon the operator serves a Service. Among those of one rank, the order of a Go map decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    First,
    Second,
    Last,
}

/// By what the status of a Service shows of the addresses that it shall have: all, some, or none.
fn rank(request: &Request<'_, '_>) -> Rank {
    let ingress = &request.service.ingress;
    let is_complete = match &request.wanted {
        AddressRequest::Exactly(requested) => requested.iter().all(|one| ingress.contains(one)),
        AddressRequest::AnyOf(families) => families
            .iter()
            .all(|family| ingress.iter().any(|one| Family::of(*one) == *family)),
    };
    match (is_complete, ingress.is_empty()) {
        (true, _) => Rank::First,
        (false, false) => Rank::Second,
        (false, true) => Rank::Last,
    }
}

/// The rank of each Service.
pub(super) fn ranks(
    requests: &[Request<'_, '_>],
    rules: &LbRules,
    reaction: Reaction,
) -> Vec<Rank> {
    let revalidates_all = match reaction {
        Reaction::Idle | Reaction::Runs(Revalidation::Changed) => false,
        Reaction::Starts | Reaction::Runs(Revalidation::All) => true,
    };
    let is_waiting_first = !rules.is_of(behaviours::HOLDERS_FIRST) && revalidates_all;
    let of_one = |request| match (is_waiting_first, rank(request)) {
        (true, Rank::First) => Rank::Last,
        (true, Rank::Second | Rank::Last) => Rank::First,
        (false, rank) => rank,
    };
    requests.iter().map(of_one).collect()
}

/// The ranks within which Services compete. At a start it is one for all: which of them the operator
/// prefers depends on its release, and an upgrade may skip releases.
pub(super) fn competing(ranks: &[Rank], state: OperatorState<'_>) -> Vec<Rank> {
    match state {
        OperatorState::Running(_) => ranks.to_vec(),
        OperatorState::Restarted => vec![Rank::First; ranks.len()],
    }
}

/// Places of the Services in the order in which they are served. Those compete that are of one rank
/// in `competing`.
pub(super) fn in_order(wanted: ServingOrder, ranks: &[Rank], competing: &[Rank]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by_key(|place| ranks[*place]);
    if wanted == ServingOrder::AdverseReversed {
        order.reverse();
        order.sort_by_key(|place| competing[*place]);
    }
    order
}
