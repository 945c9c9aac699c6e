//! The validated nouns that every crate shares.
//!
//! A value of these types is always valid. Knows neither serde nor Kubernetes' wire formats.

mod count;
mod finding;
mod finding_group;
mod hazard;
mod ipam;
mod limit;
mod name;
mod near_name;
mod per_family;
mod selector;
mod selector_index;
mod selector_text;
mod version;
mod waiver;

pub use count::{count, grouped_digits};
pub use finding::{Finding, Label, Origin, Rule, Severity};
pub use finding_group::{FindingGroup, grouped};
pub use hazard::Hazard;
pub use ipam::{CiliumVersion, IpamMode, Stage, WritePath, WritePathChoice};
pub use limit::{LimitName, LimitNameError, Limited, Measure};
pub use name::{
    AddressPoolName, NameError, NodeName, OWNER_LABEL, ObjectRef, PoolName, ServiceName, is_ours,
};
pub use near_name::NearNames;
pub use per_family::PerFamily;
pub use selector::{Labels, Operator, Requirement, RequirementError, Selector};
pub use selector_index::SelectorIndex;
pub use selector_text::SelectorTextError;
pub use version::ObjectVersion;
pub use waiver::{Waiver, WaiverError};
