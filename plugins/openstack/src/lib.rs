//! A client of OpenStack's Keystone and Neutron: `clouds.yaml`, logins that are cached between
//! runs, ports, subnets and `allowed_address_pairs`. Must never know CNI, Kubernetes or plans.

#![forbid(unsafe_code)]

mod api;
mod clouds;
mod http;
mod keep_pairs;
mod login;
mod recorded;

pub use api::{
    HostRoute, Network, NetworkFacts, Neutron, NeutronError, NewPort, NextAttempt, Port,
    PortFilter, Retries, Subnet, Wanted, retry_until_answered,
};
pub use clouds::{
    Access, Cloud, CloudsError, InsecureSetting, Named, Project, Trust, clouds_files,
};
pub use http::{HttpNeutron, OnRequest, SentRequest};
pub use keep_pairs::{PairsOutcome, PairsPatch, VmPorts, keep_pairs, missing_ranges, write_pairs};
pub use login::SessionCache;
pub use recorded::RecordedNeutron;
