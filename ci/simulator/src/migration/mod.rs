//! Migrations of a simulated cluster that runs Pods. A seed decides everything: kills at any
//! request, people who edit Nodes, machines that break, rivals, and the order of steps.

mod books;
mod client;
mod controllers;
mod ending;
mod figures;
mod history;
mod machines;
mod migrator;
mod people;
mod programs;
mod sabotage;
mod setup;
mod world;

pub use figures::Moves;
pub use history::{first_failed_migration, migrate};
pub use sabotage::BrokenRule;
pub use setup::MigrationSetups;

#[cfg(test)]
mod tests;
