//! Signs the sums with minisign. The key stays with the person who calls: no key, no signature.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::source::run;
use super::sums::SUMS;

/// A program and its secret key.
#[derive(Debug, Clone)]
pub struct Signer {
    /// A secret key without a password, as `minisign -G -W` makes one, or minisign asks for it.
    pub key: PathBuf,
    pub program: PathBuf,
}

impl Signer {
    /// Writes `SHA256SUMS.minisig`. The comment has no time, so a second signature is the same.
    pub fn sign(&self, dist: &Path, version: &str) -> Result<()> {
        let comment = format!("cilium-ipam {version}");
        run(Command::new(&self.program)
            .arg("-S")
            .arg("-s")
            .arg(&self.key)
            .args(["-t", &comment, "-m"])
            .arg(dist.join(SUMS)))
        .context("help: install minisign, or name it with --minisign")
    }
}
