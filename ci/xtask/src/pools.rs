//! Directories that the tool plans from.

use std::ffi::OsStr;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::node::RACKS;

/// Each range holds 65,536 blocks of this size.
const BLOCK_SIZE: u8 = 26;
const RANGES: [&str; 3] = ["10.0.0.0/10", "10.64.0.0/10", "10.128.0.0/10"];

/// Removed when it is dropped.
pub struct Pools(TempDir);

impl Pools {
    /// A pool for each rack.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn racks() -> Result<Self> {
        Self::of(&Self::rack_documents())
    }

    /// The documents of [`Pools::racks`].
    #[must_use]
    pub fn rack_documents() -> String {
        let mut text = String::new();
        for (rack, range) in RACKS.iter().zip(RANGES) {
            let selector = format!("nodeSelector: {{matchLabels: {{rack: {rack}}}}}");
            text += &pool(
                &format!("rack-{rack}"),
                &format!("cidrs: [{range}], blockSize: {BLOCK_SIZE}, {selector}"),
            );
        }
        text
    }

    /// These documents.
    ///
    /// # Errors
    /// Fails if they cannot be written.
    pub fn of(documents: &str) -> Result<Self> {
        let folder = TempDir::new().context("no temporary folder")?;
        std::fs::write(folder.path().join("pools.yaml"), documents)
            .context("the pools cannot be written")?;
        Ok(Self(folder))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &OsStr {
        self.0.path().as_os_str()
    }
}

/// A pool; `spec` is the text between the braces.
#[must_use]
pub fn pool(name: &str, spec: &str) -> String {
    document("IPPool", name, spec)
}

/// A pin of one block.
#[must_use]
pub fn pin(node: &str, block: &str) -> String {
    document("NodeAssignment", node, &format!("podCIDRs: [{block}]"))
}

/// Any document; `spec` is the text between the braces.
#[must_use]
pub fn document(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: cilium-ipam.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )
}
