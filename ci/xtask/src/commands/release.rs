//! `release`: builds `xtask-release` and runs it. It knows nothing of what a release has.

use std::process::Command;

use anyhow::{Context, Result, bail};

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
    let status = Command::new(cargo::release_folder()?.join(COMPANION))
        .args(&arguments.arguments)
        .current_dir(cargo::root())
        .status()
        .with_context(|| format!("{COMPANION} does not start"))?;
    if !status.success() {
        bail!("`release` failed");
    }
    Ok(())
}
