//! Starting what is measured.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use xtask::tool::clean;

use crate::timed::Timed;

/// Runs a command line as a whole process, with its standard output thrown away.
pub fn timed(words: &[&OsStr]) -> Result<Timed> {
    let output = timer(words)?.output().context("the timer does not start")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    finished(&output.stdout, &output.stderr)
}

/// The same, not started yet: prints a [`Timed`] at its end; its standard error is the program's
/// own.
pub fn timer(words: &[&OsStr]) -> Result<Command> {
    let mut command = this("timed")?;
    command
        .arg("--")
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}

/// A verb of this program, as a process of its own.
pub fn this(verb: &str) -> Result<Command> {
    let mut command = clean(&std::env::current_exe().context("this program has no path")?);
    command.arg(verb);
    Ok(command)
}

/// What a timer printed, if what it timed succeeded.
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
