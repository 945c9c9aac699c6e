//! What one release is made from, and where it goes.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::source::{Commit, Source};

/// The inputs of every writer.
#[derive(Debug, Clone)]
pub struct Plan {
    pub source: Source,
    pub commit: Commit,
    pub version: String,
    /// The version's section of the changelog, in Markdown.
    pub changes: String,
    /// The URL of the repository's page.
    pub repository: String,
    /// The URL of the folder that the files of `dist` are downloaded from.
    pub downloads: String,
    /// Name and address for the packages, as `Name <mail>`.
    pub maintainer: String,
    /// The folder that the files are written into.
    pub dist: PathBuf,
}

impl Plan {
    /// Writes a file of the release.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.dist.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The time of all files in the form of RFC 3339.
    pub fn time(&self) -> String {
        let seconds = i64::try_from(self.commit.time).unwrap_or_default();
        jiff::Timestamp::from_second(seconds)
            .unwrap_or_default()
            .to_string()
    }
}
