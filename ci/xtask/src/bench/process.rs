//! Starting what is measured.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::timed::Timed;

/// The tool, and the arguments that all its runs have in common.
pub struct Tool {
    program: PathBuf,
}

impl Tool {
    /// The binary at this path.
    pub fn new(program: &Path) -> Result<Self> {
        let program = program.canonicalize().with_context(|| format!("there is no {}", program.display()))?;
        Ok(Self { program })
    }

    /// Words of a command line that [`timed`] takes.
    pub fn words<'w>(&'w self, arguments: &[&'w OsStr]) -> Vec<&'w OsStr> {
        [self.program.as_os_str()].into_iter().chain(arguments.iter().copied()).collect()
    }

    /// Runs it once and reads the JSON that it prints, to see that it does what is to be measured.
    pub fn json(&self, arguments: &[&OsStr]) -> Result<Value> {
        let output = clean(&self.program).args(arguments).output().context("the tool does not start")?;
        if !output.status.success() {
            bail!("the tool failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        serde_json::from_slice(&output.stdout).context("the tool does not print JSON")
    }
}

/// Runs a command line as a whole process, with its standard output thrown away.
pub fn timed(words: &[&OsStr]) -> Result<Timed> {
    let output = timer(words)?.output().context("the timer does not start")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    finished(&output.stdout, &output.stderr)
}

/// The same, not started yet: prints a [`Timed`] at its end; its standard error is the program's own.
pub fn timer(words: &[&OsStr]) -> Result<Command> {
    let mut command = this("timed")?;
    command.arg("--").args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
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
        bail!("what is measured failed:\n{}", String::from_utf8_lossy(stderr));
    }
    Ok(timed)
}

/// A command which knows nothing of the person's clusters.
fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("KUBECONFIG");
    command
}
