//! `migrate`: moves the nodes of a running cluster to other blocks, or the cluster to another IPAM
//! mode. Like `apply`, it has a plan, an approval and a lock. It never decides a step.

mod apply;
mod host;
mod options;
mod plan;
mod progress;
mod resume;
mod session;
mod status;

use clap::Subcommand;

use super::failure::Failure;
use super::{Common, ExitStatus};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show which nodes would move, in which waves, by which steps, and what is lost.
    Plan(plan::Arguments),
    /// Carry out a migration.
    Apply(apply::Arguments),
    /// Show how far the migration came, and what to do next.
    Status(status::Arguments),
    /// Continue a migration that stopped, paused or was interrupted, also on another machine.
    Resume(resume::ResumeArguments),
    /// Move all nodes back to the blocks that they had.
    Undo(resume::UndoArguments),
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    match &arguments.command {
        Command::Plan(arguments) => plan::run(arguments, common).await,
        Command::Apply(arguments) => apply::run(arguments, common).await,
        Command::Status(arguments) => status::run(arguments, common).await,
        Command::Resume(arguments) => resume::resume(arguments, common).await,
        Command::Undo(arguments) => resume::undo(arguments, common).await,
    }
}
