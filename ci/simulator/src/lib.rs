//! Runs applies and following processes against a simulated cluster. A seed decides all faults and
//! the order of steps: a seed that fails once fails always.
//!
//! The product's own code runs, from observing to writing. Only the cluster and the order of steps
//! are simulated.
#![forbid(unsafe_code)]

mod applier;
#[cfg(test)]
mod churn;
mod cluster;
mod figures;
mod history;
mod life;
mod migration;
mod replica;
mod sabotage;
mod setup;

pub use history::{Failure, Figures, Log, first_failure, run};
pub use life::{Lives, first_failed_life, live};
pub use migration::{BrokenRule, MigrationSetups, Moves, first_failed_migration, migrate};
pub use sabotage::Sabotage;
pub use setup::Setups;
