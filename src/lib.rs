//! `cilium-ipam` decides which addresses every node of a Cilium cluster gets, from YAML files, as a
//! plan that a person can read before it is applied.
//!
//! ```text
//! source ─▶ Documents ─ desired ─▶ Desired ──┬─▶ check ─▶ findings ──┐
//!                                            ├─▶ alloc ─▶ outcomes ──┼─▶ plan ─▶ Plan ─▶ apply ─▶ outcomes
//! cluster ─▶ raw JSON ─ observed ─▶ Observed ┘                       ┘             └───────▶ render
//! ```
//! Left of the plan nothing writes, right of it nothing decides. `run` joins the rooms, `cli` is
//! its terminal. The pure rooms build without default features; this file alone knows which rooms
//! need which feature.
#![forbid(unsafe_code)]

pub mod alloc;
pub mod check;
pub mod claims;
pub mod custom;
pub mod desired;
pub mod doctor;
pub mod explain;
pub mod lbipam;
pub mod model;
pub mod net;
pub mod neutron;
pub mod nic;
pub mod observed;
pub mod plan;
pub mod render;

#[cfg(feature = "live")]
pub mod apply;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "live")]
pub mod cluster;
#[cfg(feature = "nic")]
pub mod handover;
#[cfg(feature = "neutron")]
pub mod plugin;
#[cfg(feature = "neutron")]
pub mod retry;
#[cfg(feature = "live")]
pub mod run;
#[cfg(feature = "live")]
pub mod source;
