//! Builds and runs the programs behind `bench` and `prove`, the model, the simulator, and the tool that
//! they need.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::tool::TOOL_VARIABLE;

use crate::cargo;
use crate::suite::Guard;

/// One selection of packages and features for all of these programs: with another one, cargo builds
/// the dependencies again.
const PACKAGES: &str = "build --release --package cilium-ipam --package simulator --package model \
     --package xtask --features xtask/bench,xtask/prove";

/// Builds programs; returns their folder.
fn build(programs: &[&str]) -> Result<PathBuf> {
    let bins: String = programs
        .iter()
        .map(|program| format!(" --bin {program}"))
        .collect();
    cargo::run(&format!("{PACKAGES}{bins}"))?;
    cargo::folder_of("release")
}

/// Builds a program that needs no tool, and runs it with these arguments behind the guard.
pub fn run_alone(program: &str, arguments: &[String], guard: Guard) -> Result<()> {
    let folder = build(&[program])?;
    finish(
        program,
        guard
            .around(Command::new(folder.join(program)))
            .args(arguments),
    )
}

/// Builds the tool and the companion for `verb`; runs the companion with these arguments behind
/// the guard. The companion takes the tool that the variable of the environment names, if it is set.
pub fn run(verb: &str, arguments: &[String], guard: Guard) -> Result<()> {
    let companion = format!("xtask-{verb}");
    let folder = build(&["cilium-ipam", &companion])?;
    let tool = std::env::var_os(TOOL_VARIABLE);
    let tool = tool.map_or_else(|| folder.join("cilium-ipam"), PathBuf::from);
    let mut command = guard.around(Command::new(folder.join(&companion)));
    finish(&companion, command.args(arguments).env(TOOL_VARIABLE, tool))
}

/// Runs a program in the root of the repository, to its end.
pub fn finish(program: &str, command: &mut Command) -> Result<()> {
    let status = command
        .current_dir(cargo::root())
        .status()
        .with_context(|| format!("{program} does not start"))?;
    if !status.success() {
        bail!("`{program}` failed");
    }
    Ok(())
}
