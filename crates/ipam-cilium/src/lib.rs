//! What the objects of Kubernetes and Cilium mean, by version of Cilium: raw JSON to `Observed`,
//! and what Cilium's LB-IPAM makes of pools and Services. Pure: it never fetches an object.
#![forbid(unsafe_code)]

pub mod lbipam;
pub mod observed;
