//! `manual`: writes man pages, which also name environment variables. For packagers; the help hides
//! the command.

use std::path::PathBuf;

use clap::Command;

use super::failure::Failure;
use super::{ExitStatus, interface};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory. It is created if it does not exist.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

fn with_variables(command: Command) -> Command {
    let command = command.mut_args(|flag| flag.hide_env(false));
    command.mut_subcommands(with_variables)
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitStatus, Failure> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(with_variables(interface::command()), directory))
        .map_err(|error| {
            let directory = directory.display();
            Failure::Failed(format!(
                "no man pages can be written to {directory}: {error}"
            ))
        })?;
    Ok(ExitStatus::Done)
}
