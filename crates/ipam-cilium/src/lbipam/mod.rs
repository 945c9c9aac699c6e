//! Predicts Cilium's LB-IPAM by version: the addresses of each pool, which of two conflicting pools
//! loses, and which Services keep, lose, gain or wait for addresses, and why.
//!
//! Pure functions. They know neither files nor clients, nor whether a plan is applied. Source:
//! `operator/pkg/lbipam` of Cilium 1.15 to 1.20; `tests/it/transitions` compares it with real operators.

mod active_range;
mod conflict;
mod contested;
mod counts;
mod evaluate;
mod evaluation;
mod fatal;
mod groups;
mod manifest;
mod pool;
mod pool_annotations;
mod prospects;
mod reaction;
mod rivalry;
mod rivals;
mod rules;
mod satisfy;
mod selection;
mod served_address;
mod service;
mod service_outcome;
mod serving_order;
mod sharing;
mod takers;
#[cfg(test)]
mod test_objects;
mod written_selector;

pub use conflict::{Certainty, Conflict, conflicts};
pub use counts::Counts;
pub use evaluate::{evaluate, evaluate_in, evaluate_part};
pub use groups::{Group, Groups};
pub use manifest::{
    AddressBlock, AddressPoolApi, AddressPoolManifest, AddressPoolSpec, NotRead, Translation,
};
pub use pool::{
    AddressPool, AddressRange, FirstLast, Marking, OperatorState, RangeForm, ServingState,
};
pub use pool_annotations::{OUR_PREFIX, POOL_ANNOTATIONS, PRIORITY, RESERVED, is_unknown};
pub use prospects::{InOrder, Prospect, prospects};
pub use reaction::{Reaction, Revalidation};
pub use rivalry::{PartRivalry, Rivalry, Unrest, Waiting};
pub use rules::{ClassUse, LbRules};
pub use served_address::{ServedAddress, ServedHostname};
pub use service::{
    ADDRESSES, AddressRequest, Annotation, FamilyPolicy, LbService, Port, RequestAuthor,
    ServiceOwner, TrafficPolicy,
};
pub use service_outcome::{Evaluated, Fatal, GainedAddress, LossReason, Pending, ServiceOutcome};
pub use serving_order::ServingOrder;
pub use sharing::{SharingObstacle, conflicting_ports, may_share, sharing_obstacles};
pub use written_selector::{WrittenRequirement, WrittenSelector};
