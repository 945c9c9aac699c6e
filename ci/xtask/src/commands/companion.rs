//! Builds and runs the optimised programs: those behind `bench` and `prove`, the model, the
//! simulator, and the tool that they need.

use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

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
    cargo::release_folder()
}

/// A build of all programs of the proofs, beside something else that mostly waits.
pub struct Build {
    child: Child,
    printed: std::fs::File,
}

impl Build {
    /// Starts the build with the lowest priority of the processor.
    pub fn start() -> Result<Self> {
        const PROGRAMS: &str = "--bin cilium-ipam --bin simulator --bin xtask-prove";
        let printed = tempfile::tempfile().context("there is no file for the build's output")?;
        eprintln!("$ nice -n 19 cargo {PACKAGES} {PROGRAMS} &");
        let cargo = cargo::cargo();
        let child = Command::new("nice")
            .args(["-n", "19"])
            .arg(cargo.get_program())
            .args(PACKAGES.split_whitespace())
            .args(PROGRAMS.split_whitespace())
            .current_dir(cargo::root())
            .stdin(Stdio::null())
            .stdout(printed.try_clone().context("cannot share the file")?)
            .stderr(printed.try_clone().context("cannot share the file")?)
            .spawn()
            .context("nice does not start")?;
        Ok(Self { child, printed })
    }

    /// Waits for the build.
    pub fn finish(mut self) -> Result<()> {
        let status = self.child.wait().context("cargo does not end")?;
        if status.success() {
            return Ok(());
        }
        let mut told = Vec::new();
        self.printed.rewind().context("cannot read the output")?;
        self.printed
            .read_to_end(&mut told)
            .context("cannot read the output")?;
        bail!(
            "the build of the proofs failed\n{}",
            String::from_utf8_lossy(&told)
        )
    }
}

impl Drop for Build {
    /// A suite that fails leaves no build behind. Without effect after `finish`.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
