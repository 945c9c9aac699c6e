//! Checks the claims protocol state by state: what appliers that run, stop and are killed at any
//! step do to a small cluster.
//!
//! All decisions come from the code of `cilium-ipam` itself, never from a copy. The model adds only
//! the steps between the decisions, and a cluster with every behaviour that Kubernetes allows.
//!
//! Left out: undo plans, blocks of several sizes or families, `spec.podCIDRs` that stay once
//! written, and people who delete the claims. A creation relies on Kubernetes to delete the
//! object after its owner, before any agent takes it over ([`Garbage`]).

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
