//! Builds and runs the programs behind `bench` and `prove`, and the tool that they need, all with
//! optimisations.

use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::tool::TOOL_VARIABLE;

use crate::cargo;
use crate::suite::Guard;

/// Builds the tool and the companion for `verb`; runs the companion with these arguments behind
/// the guard.
pub fn run(verb: &str, arguments: &[String], guard: Guard) -> Result<()> {
    let companion = format!("xtask-{verb}");
    cargo::run("build --release --package cilium-ipam --bin cilium-ipam")?;
    cargo::run(&format!(
        "build --release --package xtask --features {verb} --bin {companion}"
    ))?;
    let folder = cargo::release_folder()?;
    let status = guard
        .around(Command::new(folder.join(&companion)))
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
