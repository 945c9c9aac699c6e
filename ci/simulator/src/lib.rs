//! Several applies at once against a simulated cluster, everything that can go wrong included, and
//! all of it decided by a seed: a seed that fails once fails always.
//!
//! What runs is the product's own way from observing to writing. Only the cluster and the order of
//! steps are simulated.
#![forbid(unsafe_code)]

mod applier;
mod history;
mod life;
mod replica;
mod sabotage;
mod setup;

pub use history::{Failure, Figures, Log, first_failure, run};
pub use life::{Lives, first_failed_life, live};
pub use sabotage::Sabotage;
pub use setup::Setups;
