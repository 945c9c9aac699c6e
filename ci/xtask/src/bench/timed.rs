//! `timed`: runs one program and reports its time and its peak memory.
//!
//! This runs in a small process of its own, as `/usr/bin/time` does, because the kernel counts the
//! memory of the process that starts a program as the program's until it has started: the
//! benchmark's own would be taken for the tool's.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// Run a program; print its time and its peak memory.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The exit code 1 is a success, too: `diff` says so that it found something.
    #[arg(long)]
    finds: bool,
    /// The program and its arguments. Its standard output is discarded.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// What was measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct Timed {
    /// From its start to its end, as a whole process.
    pub milliseconds: f64,
    /// The kernel's `ru_maxrss`.
    pub peak_rss_mib: f64,
    /// Whether it ended with 0.
    pub succeeded: bool,
}

/// Runs the program and prints a [`Timed`].
pub fn run(arguments: &Arguments) -> Result<()> {
    let (program, rest) = arguments.command.split_first().context("no program")?;
    let mut command = Command::new(program);
    command
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let start = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("{program} does not start"))?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    #[expect(
        clippy::cast_precision_loss,
        reason = "memory sizes are far below 2^52 KiB"
    )]
    let peak_rss_mib = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss() as f64 / 1024.0;
    println!(
        "{}",
        serde_json::to_string(&Timed {
            milliseconds,
            peak_rss_mib,
            succeeded: status.success() || arguments.finds && status.code() == Some(1)
        })?
    );
    Ok(())
}
