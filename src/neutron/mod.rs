//! Pods whose addresses are ports of OpenStack Neutron: what a CNI plugin is asked, which port belongs to which interface of which
//! container, and what is done at Neutron for it. Pure: it asks through a trait, and touches no file, no clock, no link and no namespace.
//! Knows nothing of Kubernetes' API, of pools or plans.

pub mod cni;

mod api;
mod clouds;
mod identity;
mod settings;
mod verbs;

pub use api::{
    Address as PortAddress, Id, Network, Neutron, NeutronError, NewPort, NotAnId, Port, PortFilter, Subnet, Wanted,
};
pub use clouds::{Access, Cloud, CloudsFault, Named, Project, Trust};
pub use identity::{Identity, PORT_OWNER, RunId};
pub use settings::{RouteMtu, Settings, Source, Wish};
pub(crate) use settings::{invalid, shown};
pub(crate) use verbs::answered;
pub use verbs::{Collected, Patience, Verdict, add, check, collect_garbage, delete};
