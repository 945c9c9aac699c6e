//! Starts the measured processes.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use xtask::tool::clean;

use crate::timed::Timed;

/// Runs a command line as a process and discards its standard output.
pub fn timed(words: &[&OsStr]) -> Result<Timed> {
    measured(timer(words)?)
}

/// The same for a program that ends with 1 to say that it found something.
pub fn timed_finding(words: &[&OsStr]) -> Result<Timed> {
    let mut command = this("timed")?;
    command.args(["--finds", "--"]).args(words);
    measured(command)
}

/// Runs it in this folder, with these variables and no others; also returns its standard output.
pub fn timed_alone(
    words: &[&OsStr],
    folder: &Path,
    variables: &[(&str, &OsStr)],
) -> Result<(Timed, String)> {
    let output = tempfile::NamedTempFile::new().context("no temporary file")?;
    let mut command = this("timed")?;
    command.arg("--stdout").arg(output.path());
    command.arg("--").args(words).current_dir(folder);
    command.env_clear().envs(variables.iter().copied());
    let timed = measured(command)?;
    let text = std::fs::read_to_string(output.path()).context("its output is not text")?;
    Ok((timed, text))
}

fn measured(mut timer: Command) -> Result<Timed> {
    let output = timer.output().context("the timer does not start")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    finished(&output.stdout, &output.stderr)
}

/// The same as a command. It prints a [`Timed`] at its end; its standard error is the program's.
pub fn timer(words: &[&OsStr]) -> Result<Command> {
    let mut command = this("timed")?;
    command
        .arg("--")
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}

/// A verb of this program, as a separate process.
pub fn this(verb: &str) -> Result<Command> {
    let mut command = clean(&std::env::current_exe().context("this program has no path")?);
    command.arg(verb);
    Ok(command)
}

/// The output of a timer, if the timed program succeeded.
pub fn finished(stdout: &[u8], stderr: &[u8]) -> Result<Timed> {
    let timed: Timed = serde_json::from_slice(stdout).context("cannot read what the timer says")?;
    if !timed.succeeded {
        bail!(
            "what is measured failed:\n{}",
            String::from_utf8_lossy(stderr)
        );
    }
    Ok(timed)
}
