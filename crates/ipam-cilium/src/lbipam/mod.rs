//! Predicts Cilium's LB-IPAM by version: the addresses of each pool, which of two conflicting pools
//! loses, and which Services keep, lose, gain or wait for addresses, and why.
//!
//! Pure functions. They know neither files nor clients, nor whether a plan is applied. Source:
//! `operator/pkg/lbipam` of Cilium 1.15 to 1.20; `tests/it/transitions` compares it with real operators.

mod conflict;
mod contested;
mod evaluate;
mod evaluation;
mod groups;
mod manifest;
mod pool;
mod pool_annotations;
mod rivalry;
mod rules;
mod satisfy;
mod selection;
mod service;
mod service_outcome;
#[cfg(test)]
mod test_objects;

pub use conflict::{Certainty, Conflict, conflicts};
pub use evaluate::{evaluate, evaluate_in, evaluate_part};
pub use groups::{Group, Groups, Reaction, Revalidation, ServingOrder};
pub use manifest::{
    AddressBlock, AddressPoolApi, AddressPoolManifest, AddressPoolSpec, NotRead, Translation,
};
pub use pool::{
    AddressPool, AddressRange, Counts, FirstLast, Marking, OperatorState, RangeForm, ServedAddress,
    ServedHostname, ServingState,
};
pub use pool_annotations::{
    OUR_PREFIX, POOL_ANNOTATIONS, PRIORITY, RESERVED, WrittenRequirement, WrittenSelector,
    is_unknown,
};
pub use rivalry::{PartRivalry, Rivalry, Unrest, Waiting};
pub use rules::{BGP_CLASS, L2_CLASS, LbRules, NotServed};
pub use service::{
    ADDRESSES, AddressRequest, Annotation, FamilyPolicy, LbService, Port, RequestAuthor,
    SPEC_REQUEST, ServiceOwner, SharingObstacle, TrafficPolicy, WrittenRequest, conflicting_ports,
    may_share, sharing_obstacles,
};
pub use service_outcome::{
    Evaluated, Fatal, GainedAddress, InOrder, LossReason, Pending, Prospect, ServiceOutcome,
    prospects,
};
