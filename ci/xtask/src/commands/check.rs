//! `check`: everything that can be said about the sources without running them.

use anyhow::{Result, bail};

use super::docs;
use crate::cargo;

pub fn run() -> Result<()> {
    cargo::run("fmt --all --check")?;
    cargo::run("clippy --workspace --all-targets --all-features -- --deny warnings")?;
    dependencies()?;
    let words = "doc --workspace --no-deps --all-features --document-private-items";
    cargo::run_with(words, &[], Some(("RUSTDOCFLAGS", "--deny warnings")))?;
    docs::run(&docs::Arguments::default())
}

fn dependencies() -> Result<()> {
    deny_is_there()?;
    cargo::run("deny --workspace --all-features check bans licenses sources")
}

/// Says how to get cargo-deny where it is missing.
pub fn deny_is_there() -> Result<()> {
    if cargo::output("deny --version").is_err() {
        bail!(
            "cargo-deny is missing\nhelp: `cargo install cargo-deny --locked`, or `.ci/run`, which installs it"
        );
    }
    Ok(())
}
