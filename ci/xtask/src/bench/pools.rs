//! The directory that the tool plans from: a pool for each rack.

use std::ffi::OsStr;
use std::fmt::Write;

use anyhow::{Context, Result};
use tempfile::TempDir;
use xtask::node::RACKS;

/// Each range holds 65,536 blocks of this size.
const BLOCK_SIZE: u8 = 26;
const RANGES: [&str; 3] = ["10.0.0.0/10", "10.64.0.0/10", "10.128.0.0/10"];

/// Removed when it is dropped.
pub struct Pools(TempDir);

impl Pools {
    /// Writes it.
    pub fn write() -> Result<Self> {
        let mut text = String::new();
        for (rack, range) in RACKS.iter().zip(RANGES) {
            write!(
                text,
                "---\napiVersion: cilium-ipam.io/v1alpha1\nkind: IPPool\nmetadata: {{name: rack-{rack}}}\nspec:\n  \
                 cidrs: [{range}]\n  blockSize: {BLOCK_SIZE}\n  nodeSelector: {{matchLabels: {{rack: {rack}}}}}\n"
            )?;
        }
        let folder = TempDir::new().context("no temporary folder")?;
        std::fs::write(folder.path().join("pools.yaml"), text).context("the pools cannot be written")?;
        Ok(Self(folder))
    }

    /// Where it lies.
    pub fn path(&self) -> &OsStr {
        self.0.path().as_os_str()
    }
}
