//! What the two programs of this package share: `xtask`, the one door, and `xtask-bench`, which it builds with
//! optimisations and runs for `cargo xtask bench`.
//!
//! Nothing here knows what is checked or measured.
#![forbid(unsafe_code)]

pub mod fleet;
pub mod node;
pub mod parallel;
