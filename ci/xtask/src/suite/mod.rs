//! Runs of tests, with one tally from libtest's output and the record of skips: how many passed,
//! which were skipped, and why. It knows nothing of what is tested.

mod expected;
mod guard;
mod plugins;
mod tally;

use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;
use testbed::SKIPS_VARIABLE;

use crate::cargo;

pub use expected::Expected;
pub use guard::Guard;
pub use plugins::{Plugins, TESTS as PLUGIN_TESTS};
pub use tally::{Skip, Tally};

/// Tests that run at once for each core. Most of the time, tests wait for servers.
const TESTS_PER_CORE: usize = 2;

const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// One run of `cargo test`.
pub struct Suite<'s> {
    /// The arguments of cargo, separated by spaces.
    pub words: &'s str,
    /// Further arguments.
    pub arguments: &'s [String],
    /// A variable for the tests.
    pub variable: Option<(&'s str, &'s str)>,
    /// Protects the machine's own folders.
    pub guard: Guard,
}

/// What happens to the output of libtest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// It is shown at once.
    Shown,
    /// It is shown if a test fails.
    Kept,
}

impl Suite<'_> {
    ///
    /// # Errors
    /// Fails if a test fails, after the sum was shown, or when skipped tests cannot be counted.
    pub fn run(&self, output: Output) -> Result<Tally> {
        let record = NamedTempFile::new().context("there is no file for skipped tests")?;
        let shown = self.shown();
        eprintln!("$ {shown}");
        let mut command = self.guard.around(cargo::cargo());
        command
            .args(self.words.split_whitespace())
            .args(self.arguments)
            .envs(self.variable);
        if std::env::var_os(THREADS_VARIABLE).is_none() {
            let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
            command.env(THREADS_VARIABLE, (cores * TESTS_PER_CORE).to_string());
        }
        command
            .env(SKIPS_VARIABLE, record.path())
            .stdout(Stdio::piped());
        let (told, succeeded) = printed(&mut command, output)?;
        let recorded = std::fs::read_to_string(record.path())
            .context("cannot read which tests were skipped")?;
        let tally = Tally::of(&told, &recorded)?;
        if !succeeded {
            if output == Output::Kept {
                eprint!("{told}");
            }
            bail!("`{shown}` failed\n{tally}");
        }
        Ok(tally)
    }

    fn shown(&self) -> String {
        let variable = self
            .variable
            .map(|(key, value)| format!("{key}='{value}' "))
            .unwrap_or_default();
        let words = ["cargo", self.words]
            .into_iter()
            .chain(self.arguments.iter().map(String::as_str));
        variable + &words.collect::<Vec<_>>().join(" ")
    }
}

/// What a command prints, and whether it succeeds.
fn printed(command: &mut Command, output: Output) -> Result<(String, bool)> {
    let mut child = command.spawn().context("cargo does not start")?;
    let mut told = String::new();
    let mut lines = BufReader::new(child.stdout.take().context("cargo has no output")?);
    let mut line = Vec::new();
    // What tests print need not be UTF-8.
    while lines
        .read_until(b'\n', &mut line)
        .context("cannot read what cargo prints")?
        > 0
    {
        if output == Output::Shown {
            std::io::stdout().write_all(&line).context("cannot print")?;
        }
        told.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok((told, child.wait().context("cargo does not end")?.success()))
}
