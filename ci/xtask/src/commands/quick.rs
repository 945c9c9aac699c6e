//! `quick`: the pure rooms alone, which need neither a runtime nor a client.

use anyhow::Result;

use crate::cargo;

/// Runs it.
pub fn run() -> Result<()> {
    cargo::run("check --package cilium-ipam --lib --no-default-features")?;
    cargo::run("test --package cilium-ipam --lib --no-default-features")
}
