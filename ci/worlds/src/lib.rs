//! One generator of worlds, each a directory of pools with a cluster, and one library of invariants
//! that hold for every plan. Properties, fuzz checks, the simulator and the model share both.
//!
//! It writes nothing, and knows none of the tools that use it.

pub mod documents;
pub mod invariants;
pub mod objects;

mod choices;
mod cluster;
mod generate;
mod numbers;
mod world;

pub use generate::Profile;
pub use numbers::{AROUND, FALLBACK, Number, WHOLE_B, ipv4, is_widest};
pub use world::{Agent, ClaimState, Mode, NodeState, Owner, Shown, World, name};
