//! A cluster that exists only in memory, strict about what is written to it, and faulty as a seed
//! says: equal seeds, equal histories.
//!
//! It follows the API server's rules and breaks nothing that a real one promises; everything else
//! happens: answers get lost before and after a commit, writes land long after they were given up,
//! lists are shuffled or come from a cache that lags behind, objects move between any two steps.
//! Its store can go back in time, as after a backup was restored; machines remember what they hold.
//! Who runs against it, and in which order, is for its users to say.

mod client;
mod disturbance;
mod judge;
mod machines;
mod server;
mod world;

pub use client::{Pace, SimClient, Yield};
pub use disturbance::Disturbance;
pub use server::{Revision, Saved, Serving};
pub use world::{Faults, SimWorld};
