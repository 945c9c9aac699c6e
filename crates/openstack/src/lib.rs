//! A client of OpenStack's Keystone and Neutron: `clouds.yaml`, logins that are cached between
//! runs, ports, subnets and `allowed_address_pairs`. Must never know CNI, Kubernetes or plans.
#![forbid(unsafe_code)]

mod api;
mod clouds;
mod http;
mod insecure_setting;
mod keep_pairs;
mod login;
mod recorded;
mod retries;

pub use api::{
    HostRoute, Network, NetworkFacts, Neutron, NeutronError, NewPort, Port, PortFilter, Subnet,
    Wanted,
};
pub use clouds::{Access, Cloud, CloudsError, Named, Project, Trust, clouds_files};
pub use http::{HttpNeutron, OnRequest, SentRequest};
pub use insecure_setting::InsecureSetting;
pub use keep_pairs::{PairsOutcome, PairsPatch, VmPorts, keep_pairs, missing_ranges, write_pairs};
pub use login::SessionCache;
pub use recorded::RecordedNeutron;
pub use retries::{NextAttempt, Retries, retry_until_answered};
