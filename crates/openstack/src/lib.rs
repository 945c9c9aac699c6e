//! A client of OpenStack's Keystone and Neutron: `clouds.yaml`, logins kept between runs, ports,
//! subnets and `allowed_address_pairs`. Knows nothing of CNI, Kubernetes or plans.
#![forbid(unsafe_code)]

mod api;
mod clouds;
mod http;
mod keep_pairs;
mod login;
mod patience;
mod weakness;

pub use api::{
    HostRoute, Network, NetworkFacts, Neutron, NeutronError, NewPort, Port, PortFilter, Subnet,
    Wanted,
};
pub use clouds::{Access, Cloud, CloudsFault, Named, Project, Trust};
pub use http::{HttpNeutron, get_json};
pub use keep_pairs::{GuardedPorts, Kept as KeptPairs, keep_pairs};
pub use login::Keeping;
pub use patience::{Patience, Verdict, answered};
pub use weakness::Weakness;
