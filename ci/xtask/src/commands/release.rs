//! `release`: builds `xtask-release` and runs it. It knows nothing of what a release has.

use std::process::Command;

use anyhow::Result;

use super::companion;
use crate::cargo;

const COMPANION: &str = "xtask-release";

/// Write everything that a release page needs into `dist`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Arguments of `xtask-release`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    cargo::run(&format!(
        "build --release --package xtask --features release --bin {COMPANION}"
    ))?;
    let mut command = Command::new(cargo::release_folder()?.join(COMPANION));
    companion::finish(COMPANION, command.args(&arguments.arguments))
}
