//! The effect of changes on one Service, from its addresses in each order of serving. Must never see
//! the changes.

use super::ServiceEffect;
use ipam_cilium::lbipam::{Certainty, GainedAddress, InOrder, Pending, Prospect, prospects};
use ipam_core::model::ServiceName;

/// What a Service gets in one order, and why it waits.
pub(super) struct Expected {
    pub(super) gains: Vec<GainedAddress>,
    pub(super) certainty: Certainty,
    pub(super) chances: Vec<GainedAddress>,
    pub(super) pending: Vec<Pending>,
}

impl Expected {
    fn in_order(&self) -> InOrder<'_> {
        InOrder {
            gains: &self.gains,
            certainty: self.certainty,
            chances: &self.chances,
        }
    }
}

/// The effect without losses, from what is expected in each order.
pub(super) fn effect_of(
    name: &ServiceName,
    orders: Vec<Expected>,
    is_doubtful: &dyn Fn(&GainedAddress) -> bool,
) -> ServiceEffect {
    let all: Vec<InOrder<'_>> = orders.iter().map(Expected::in_order).collect();
    let gains = prospects(&all, is_doubtful);
    let counted = match gains.iter().all(Prospect::is_sure) {
        true => 1,
        false => orders.len(),
    };
    let mut pending: Vec<Pending> = Vec::new();
    for why in orders.into_iter().take(counted).flat_map(|one| one.pending) {
        if !pending.contains(&why) {
            pending.push(why);
        }
    }
    ServiceEffect {
        service: name.clone(),
        loses: Vec::new(),
        gains,
        pending,
    }
}
