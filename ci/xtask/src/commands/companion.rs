//! What `bench` and `prove` have in common: each is a program of its own, which needs the tool,
//! both with optimisations.

use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::tool::TOOL_VARIABLE;

use crate::cargo;

/// Builds the tool and the companion for `verb`, and runs the latter with these arguments.
pub fn run(verb: &str, arguments: &[String]) -> Result<()> {
    let companion = format!("xtask-{verb}");
    cargo::run("build --release --package cilium-ipam --bin cilium-ipam")?;
    cargo::run(&format!(
        "build --release --package xtask --features {verb} --bin {companion}"
    ))?;
    let folder = cargo::release_folder()?;
    let status = Command::new(folder.join(&companion))
        .args(arguments)
        .env(TOOL_VARIABLE, folder.join("cilium-ipam"))
        .current_dir(cargo::root())
        .status()
        .with_context(|| format!("{companion} does not start"))?;
    if !status.success() {
        bail!("`{verb}` failed");
    }
    Ok(())
}
