//! `test`: builds the real programs and the tests, then runs the whole suite and the proofs.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;

use anyhow::Result;
use testbed::openstack::{Database, prepare};
use testbed::{CiliumVersion, Error, Program, build};

use super::companion;
use super::prove::Setting;
use super::testbed::PROGRAMS;
use crate::cargo;
use crate::suite::{Expected, Guard, Output, PLUGIN_TESTS, Plugins, Skip, Suite};

const SUITE: &str = "test --workspace --all-features";

/// Run the whole test suite; builds the real programs that it needs first.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Run the slow tests, too: they boot the real cilium-agent in a QEMU guest, or restart operators.
    #[arg(long)]
    agent: bool,
    /// Fail if a test is skipped that this file does not list. A line is `WHAT TEST`, or `WHAT *`
    /// for every test that lacks it.
    #[arg(long, value_name = "FILE")]
    expected_skips: Option<PathBuf>,
    /// Further arguments for `cargo test`.
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

impl Arguments {
    /// Whether all tests run, and the proofs.
    fn are_for_all(&self) -> bool {
        self.arguments.is_empty()
    }
}

/// Builds the programs and the tests, then runs the tests and the proofs.
pub fn run(arguments: &Arguments) -> Result<()> {
    build_all(arguments)?;
    let expected = arguments
        .expected_skips
        .as_deref()
        .map(Expected::read)
        .transpose()?;
    let expected = expected.as_ref();
    if arguments.are_for_all() {
        suite_and_proofs(expected)?;
    } else {
        suite(SUITE, &arguments.arguments, None, expected)?;
    }
    if arguments.agent {
        agent_tests(expected)
    } else {
        Ok(())
    }
}

/// Builds the real programs, not inside a test, where libtest hides the progress; and the tests
/// beside them, because Go's linker uses one core.
fn build_all(arguments: &Arguments) -> Result<()> {
    thread::scope(|scope| {
        let programs = scope.spawn(prepare_programs);
        let tests = match arguments.are_for_all() {
            true => cargo::run(&format!("{SUITE} --no-run")),
            false => Ok(()),
        };
        match programs.join() {
            Ok(programs) => programs.and(tests),
            Err(panic) => resume_unwind(panic),
        }
    })
}

fn prepare_programs() -> Result<()> {
    build(&PROGRAMS)?;
    for database in [Database::Sqlite, Database::MariaDb] {
        match prepare(database) {
            Err(missing @ Error::Missing { .. }) => eprintln!("testbed: {missing}"),
            prepared => prepared?,
        }
    }
    Ok(())
}

/// Runs the tests and then the proofs, which are built while the tests wait for servers. The tests
/// of the plugins are left out if nothing that they run has changed since they passed.
fn suite_and_proofs(expected: Option<&Expected>) -> Result<()> {
    let proofs = companion::Build::start()?;
    let plugins = Plugins::of(cargo::root());
    let left_out = plugins.unchanged();
    let guard = suite(SUITE, &[], left_out.as_ref(), expected)?;
    proofs.finish()?;
    let setting = Setting { guard, expected };
    setting.all()?;
    if left_out.is_none() {
        plugins.passed()?;
    }
    Ok(())
}

/// Runs the tests, without those of the plugins if they are left out; returns the guard that it found.
fn suite(
    words: &str,
    arguments: &[String],
    left_out: Option<&Skip>,
    expected: Option<&Expected>,
) -> Result<Guard> {
    let (guard, missing) = Guard::find()?;
    let words = match left_out {
        Some(_) => format!("{words} -- --skip {PLUGIN_TESTS}"),
        None => words.to_owned(),
    };
    let mut tally = Suite {
        words: &words,
        arguments,
        variable: None,
        guard,
    }
    .run(Output::Shown)?;
    missing
        .into_iter()
        .chain(left_out.cloned())
        .for_each(|skip| tally.add(skip));
    println!("{tally}");
    expected.map_or(Ok(()), |expected| expected.check(&tally))?;
    Ok(guard)
}

/// Runs one guest at a time: each keeps a core busy.
fn agent_tests(expected: Option<&Expected>) -> Result<()> {
    build(&[CiliumVersion::V1_15, CiliumVersion::V1_19].map(Program::CiliumAgent))?;
    build(&[Program::CiliumCni(CiliumVersion::V1_19)])?;
    suite(
        &format!(
            "{SUITE} -- --ignored agent comment_gitea gitea_actions guests operator_1_18 racks services_of_cilium transitions --test-threads=1"
        ),
        &[],
        None,
        expected,
    )
    .map(drop)
}
