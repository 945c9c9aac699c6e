//! What must hold for any bytes that cilium-ipam reads. Each module is the body of one fuzz target,
//! `check`, which panics where something does not hold; it builds on the stable toolchain, so that
//! the corpus runs in the normal tests too.
//!
//! Knows nothing of fuzzers, and of the program only what it makes public.

pub mod claims;
pub mod cluster_file;
pub mod cni_input;
pub mod plan_file;
pub mod yaml_directory;

mod harmless;
mod promises;
mod spin;
mod worlds;
