//! Pods whose addresses are ports of OpenStack Neutron: what a CNI plugin is asked, which port
//! belongs to which interface of which container, and what is done at Neutron for it. Pure: it asks
//! through a trait, and touches no file, no clock, no link and no namespace. Knows nothing of
//! Kubernetes' API, of pools or plans.

pub mod cni;

mod api;
mod clouds;
mod identity;
mod life;
mod pairs;
mod settings;
mod verbs;
mod warm;
mod weakness;

pub use api::{
    Address as PortAddress, Id, Network, NetworkFacts, Neutron, NeutronError, NewPort, NotAnId,
    Port, PortFilter, Subnet, Wanted,
};
pub use clouds::{Access, Cloud, CloudsFault, Named, Project, Trust};
pub use identity::{Identity, Owner, RunId};
pub use life::{Beginnings, Boot, Life, Netns, Remembered, Suspects, Trace};
pub use pairs::{
    GuardedPort, GuardedPorts, Kept as KeptPairs, Pair, PairsChange, PortSecurity, keep_pairs,
};
pub use settings::{
    Chores, GuardedInterface, PairsChore, RouteMtu, STATE_DIRECTORY, Settings, Source, Wish,
};
pub(crate) use settings::{invalid, shown};
pub(crate) use verbs::answered;
pub use verbs::{
    Added, Collected, Left, NotAdded, Patience, Verdict, add, check, collect_garbage, delete,
    outcome,
};
pub use warm::{KeptFacts, MadeFor, PoolPorts, PoolSize, PooledPort, Upkeep, upkeep};
pub use weakness::Weakness;
