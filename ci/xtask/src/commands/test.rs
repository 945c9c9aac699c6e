//! `test`: the whole suite, with the real programs that it runs against, and the proofs.

use anyhow::Result;
use testbed::openstack::{Database, prepare};
use testbed::{CiliumVersion, Program, build};

use super::prove;
use super::testbed::PROGRAMS;
use crate::cargo;

const SUITE: &str = "test --workspace --all-features";

/// Run the whole test suite; builds the real programs that it needs first.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Run the slow tests, too: they boot the real cilium-agent in a QEMU guest.
    #[arg(long)]
    agent: bool,
    /// Further arguments for `cargo test`.
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<()> {
    // Before the tests, because what is told meanwhile cannot be seen from inside of one.
    build(&PROGRAMS)?;
    for database in [Database::Sqlite, Database::MariaDb] {
        prepare(database)?;
    }
    cargo::run_with(SUITE, &arguments.arguments, None)?;
    if arguments.arguments.is_empty() {
        prove::all()?;
    }
    if arguments.agent { agent_tests() } else { Ok(()) }
}

/// One guest at a time, as each keeps a core busy.
fn agent_tests() -> Result<()> {
    build(&[CiliumVersion::V1_15, CiliumVersion::V1_19].map(Program::CiliumAgent))?;
    cargo::run(&format!("{SUITE} -- --ignored agent --test-threads=1"))
}
