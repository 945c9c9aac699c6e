//! What the objects of Kubernetes and Cilium mean, by version of Cilium. Turns raw JSON into
//! `Observed`, and predicts Cilium's LB-IPAM. Pure: it never fetches an object.
#![forbid(unsafe_code)]

pub mod api_versions;
pub mod behaviours;
pub mod budgets;
pub mod lbipam;
pub mod observed;
pub mod parser_words;
pub mod pod_addresses;
pub mod pods;
pub mod releases;
