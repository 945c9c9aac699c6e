//! `timed`: runs one program and reports its time, its processor time and its peak memory.
//!
//! This runs in a small process of its own, as `/usr/bin/time` does, because the kernel counts the
//! memory of the process that starts a program as the program's until it has started: the
//! benchmark's own would be taken for the tool's.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

/// Run a program; print its time, its processor time and its peak memory.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The exit code 1 is a success, too: `diff` says so that it found something.
    #[arg(long)]
    finds: bool,
    /// Write its standard output to this file. Default: discard it.
    #[arg(long, value_name = "FILE")]
    stdout: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// What was measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct Timed {
    /// From its start to its end, as a whole process.
    pub milliseconds: f64,
    /// User and system time, with that of the processes that it waited for.
    pub cpu_seconds: f64,
    /// The kernel's `ru_maxrss`.
    pub peak_rss_mib: f64,
    /// Whether it ended with 0.
    pub succeeded: bool,
}

/// Runs the program and prints a [`Timed`].
pub fn run(arguments: &Arguments) -> Result<()> {
    let (program, rest) = arguments.command.split_first().context("no program")?;
    let mut command = Command::new(program);
    let stdout = match &arguments.stdout {
        Some(file) => Stdio::from(File::create(file).context("its output cannot be written")?),
        None => Stdio::null(),
    };
    command.args(rest).stdin(Stdio::null()).stdout(stdout);
    let start = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("{program} does not start"))?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = usage.user_time() + usage.system_time();
    #[expect(
        clippy::cast_precision_loss,
        reason = "times and memory sizes are far below 2^52 µs or KiB"
    )]
    let (cpu_seconds, peak_rss_mib) = (
        cpu.num_microseconds() as f64 / 1e6,
        usage.max_rss() as f64 / 1024.0,
    );
    println!(
        "{}",
        serde_json::to_string(&Timed {
            milliseconds,
            cpu_seconds,
            peak_rss_mib,
            succeeded: status.success() || arguments.finds && status.code() == Some(1)
        })?
    );
    Ok(())
}
