//! Shared parts of the programs of this package: `xtask`, the one entry, and its companions
//! `xtask-bench` and `xtask-prove`, which it builds with optimisations and runs for `cargo xtask
//! bench` and `cargo xtask prove`.
//!
//! It knows nothing of what is checked, measured or proved.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod fleet;
pub mod line;
pub mod node;
pub mod objects;
pub mod parallel;
pub mod pools;
pub mod running;
#[cfg(feature = "prove")]
pub mod stopping;
pub mod tool;
