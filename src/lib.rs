//! `cilium-ipam` decides which addresses every node of a Cilium cluster gets, from YAML files, as a
//! plan that a person can read before it is applied.
//!
//! ```text
//! ipam-config ─▶ Documents ─▶ Desired ──┬─ ipam-plan ────▶ Plan ─ ipam-controller ─▶ Outcomes
//! ipam-cluster ─ ipam-cilium ─▶ Observed ┘                   └─▶ render
//! ```
//! The libraries are under `crates/` and `plugins/`. This crate has the command line (`cli`) and its output
//! (`render`). Left of the plan nothing writes. Right of the plan nothing decides.
#![forbid(unsafe_code)]

pub mod cli;
pub mod render;
