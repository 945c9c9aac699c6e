//! The addresses that changes take from Services and give them. Must never know the changes.

use std::collections::BTreeMap;

use ipam_cilium::lbipam::{Certainty, Conflict, LossReason, Pending, Prospect, ServedAddress};
use ipam_core::model::ServiceName;

ipam_core::text_enum! {
    /// When a Service loses an address. The text stands in JSON.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum LossTime {
        /// When the change is written.
        Now = "now",
        /// When the operator restarts or another replica takes over.
        OperatorRestart = "operator-restart",
        /// When Cilium is upgraded to the newest version that this program knows.
        Upgrade = "upgrade",
    }
}

/// An address or a hostname that a Service has and loses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostAddress {
    /// The address.
    pub address: ServedAddress,
    /// When.
    pub when: LossTime,
    /// Why.
    pub why: LossReason,
    /// Whether the loss is certain.
    pub certainty: Certainty,
}

/// The effects on one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceEffect {
    /// The Service.
    pub service: ServiceName,
    /// Addresses that it loses, or may lose.
    pub loses: Vec<LostAddress>,
    /// Addresses that it gets, or may get.
    pub gains: Vec<Prospect>,
    /// Why it then waits for an address, or may wait.
    pub pending: Vec<Pending>,
}

/// The effects of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// On Services, by name, without unaffected ones.
    pub services: Vec<ServiceEffect>,
    /// Number of addresses that Services get, one of which several Services may get counted once.
    pub given: usize,
    /// Pools that come to overlap, by name.
    pub conflicts: BTreeMap<String, Conflict>,
}

impl Effects {
    /// Addresses that Services lose, or may lose, now or later.
    pub fn lost(&self) -> impl Iterator<Item = (&ServiceName, &LostAddress)> {
        self.services
            .iter()
            .flat_map(|effect| effect.loses.iter().map(move |lost| (&effect.service, lost)))
    }
}
