//! `manual`: writes man pages. For packagers; the help hides it.

use std::path::PathBuf;

use super::failure::Failure;
use super::{ExitStatus, interface};

/// Write man pages into a directory.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory. It is created if it does not exist.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitStatus, Failure> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(interface::command(), directory))
        .map_err(|error| {
            let directory = directory.display();
            Failure::Failed(format!(
                "no man pages can be written to {directory}: {error}"
            ))
        })?;
    Ok(ExitStatus::Done)
}
