//! Invariants for any bytes that cilium-ipam reads. Each public module has the body of one fuzz
//! target, `check`, which panics if an invariant does not hold. It builds on the stable toolchain,
//! so that the normal tests run the corpus as well.
//!
//! It knows nothing of fuzzers, and only the public part of the program.

pub mod claims;
pub mod cluster_file;
pub mod cni_input;
pub mod plan_file;
pub mod protobuf_list;
pub mod rules;
pub mod world;
pub mod yaml_directory;

mod block_on;
mod fixtures;
mod plan_invariants;
mod safe_text;
