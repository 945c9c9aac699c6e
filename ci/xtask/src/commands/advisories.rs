//! `advisories`: known vulnerabilities of the dependencies, and unmaintained dependencies.

use anyhow::Result;

use super::check::deny_is_there;
use crate::cargo;

/// Runs the check. Its list comes from a Git host that not every machine reaches; without the list,
/// the check is reported as skipped, with the reason.
pub fn run() -> Result<()> {
    deny_is_there()?;
    if let Err(why) = cargo::run("deny --workspace --all-features fetch db") {
        println!(
            "skipped: advisories: the list of known vulnerabilities (github.com/RustSec/advisory-db) cannot be fetched: {why}"
        );
        return Ok(());
    }
    cargo::run("deny --workspace --all-features check --disable-fetch advisories")
}
