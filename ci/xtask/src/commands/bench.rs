//! `bench`: builds the tool and the program that measures it, both with optimisations, and runs the latter. What is
//! measured, it alone knows.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo;

/// Measure against limits of the same run.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// For `xtask-bench`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<()> {
    cargo::run("build --release --package cilium-ipam --bin cilium-ipam")?;
    cargo::run("build --release --package xtask --features bench --bin xtask-bench")?;
    let folder = cargo::release_folder()?;
    let status = Command::new(folder.join("xtask-bench"))
        .args(&arguments.arguments)
        .env("XTASK_BENCH_TOOL", folder.join("cilium-ipam"))
        .current_dir(cargo::root())
        .status()
        .context("xtask-bench does not start")?;
    if !status.success() {
        bail!("the benchmark did not run to its end");
    }
    Ok(())
}
