//! What Cilium's LB-IPAM makes of address pools and Services, version by version: which addresses a
//! pool has, which of two pools loses, which Services keep, lose, gain or wait, and why.
//!
//! Pure functions over what was read or is wished for; they know neither files nor clients, nor
//! whether anything of it will be written. Source: `operator/pkg/lbipam` of Cilium 1.15.19 and
//! 1.19.3; other versions as their release notes differ from these.

mod conflict;
mod counts;
mod evaluate;
mod manifest;
mod outlook;
mod pool;
mod rules;
mod satisfy;
mod selection;
mod service;
mod sharing;

pub use conflict::{Certainty, Conflict, conflicts};
pub use counts::Counts;
pub use evaluate::evaluate;
pub use manifest::{
    AddressBlock, AddressPoolApi, AddressPoolManifest, AddressPoolSpec, NotRead, Translation,
    WrittenRequirement, WrittenSelector,
};
pub use outlook::{Evaluated, Gain, Loss, Outlook, Pending};
pub use pool::{
    AddressPool, AddressRange, FirstLast, Marking, OperatorState, RangeForm, ServingState,
};
pub use rules::{ClassUse, LbRules};
pub use service::{ADDRESSES, Annotation, FamilyPolicy, LbService, Port, TrafficPolicy, Wish};
pub use sharing::may_share;
