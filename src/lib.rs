//! `cilium-ipam` decides which addresses every node of a Cilium cluster gets, from YAML files, as a
//! plan that a person can read before it is applied.
//!
//! ```text
//! ipam-config ─▶ Documents ─▶ Desired ──┬─ ipam-planner ─▶ Plan ─ ipam-controller ─▶ Outcomes
//! ipam-cluster ─ ipam-cilium ─▶ Observed ┘                   └─▶ render
//! ```
//! The libraries lie under `crates/`; here are the terminal program (`cli`) and what it prints
//! (`render`). Left of the plan nothing writes, right of it nothing decides.
#![forbid(unsafe_code)]

pub mod cli;
pub mod render;
