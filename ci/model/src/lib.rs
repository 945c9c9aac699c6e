//! Checks the claims protocol state by state: what appliers that run, stop and are killed anywhere
//! do to a small cluster.
//!
//! What is decided is asked of `cilium_ipam` itself, and never of a copy. Here are only the steps
//! between the decisions, and a cluster that is as unkind as Kubernetes may be.
//!
//! Left out: undo plans, blocks of several sizes or families, `spec.podCIDRs` that stay once
//! written, and people who delete the claims. A creation counts on Kubernetes to collect it when
//! its owner is gone before any agent takes it over ([`Garbage`]).

mod applier;
mod bounds;
mod check;
mod decisions;
mod list;
mod mutation;
mod progress;
mod protocol;
mod prove;
mod state;
mod trace;
mod translate;
mod world;

pub use bounds::{Bounds, Garbage, Moves, Progress, WriteKind};
pub use check::{Report, check};
pub use mutation::{Mutation, mutations};
pub use prove::{Proof, Verdict, WORLDS, prove};
