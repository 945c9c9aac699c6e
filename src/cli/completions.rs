//! `completions`: prints a completion script for a shell.

use clap_complete::Shell;

use super::failure::Failure;
use super::{ExitStatus, output};

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitStatus, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut super::interface::command(),
        "cilium-ipam",
        &mut script,
    );
    output::script(&String::from_utf8_lossy(&script))?;
    Ok(ExitStatus::Done)
}
