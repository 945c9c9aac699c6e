//! A cluster in memory whose faults come from a seed: equal seeds give equal histories.
//!
//! It keeps the API server's rules and promises. Everything else goes wrong: answers get lost
//! before and after a commit, writes land long after their client gave up, lists are shuffled or
//! come from a cache that lags behind, objects change between any two steps. Its store can go back
//! in time, as after a restore; machines remember their blocks. It must never know who runs against
//! it, or in which order.

#[cfg(test)]
mod cache_tests;
mod check_invariants;
mod client;
mod disturbance;
mod machines;
mod server;
mod state;
mod write;

pub use client::{Clock, SimClient, Yield};
pub use disturbance::Disturbance;
pub use server::{Revision, Saved, Serving};
pub use state::{Bookmarks, Faults, SimCluster};
