//! The tool as a program: where it lies, and a command line of it that knows nothing of the
//! person's clusters.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Names the tool to the companions. Set by `cargo xtask bench` and `cargo xtask prove`.
pub const TOOL_VARIABLE: &str = "XTASK_TOOL";
/// Where a companion that a person has started looks for the tool.
pub const USUAL_PLACE: &str = "target/release/cilium-ipam";
/// Names the CNI plugin to the companions.
pub const PLUGIN_VARIABLE: &str = "XTASK_PLUGIN";
/// Where a companion that a person has started looks for the CNI plugin.
pub const PLUGIN_PLACE: &str = "target/plugin/cni-ipam-neutron";

/// The tool.
pub struct Tool {
    program: PathBuf,
}

impl Tool {
    /// The binary at this path.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(program: &Path) -> Result<Self> {
        let program = program
            .canonicalize()
            .with_context(|| format!("there is no {}", program.display()))?;
        Ok(Self { program })
    }

    /// A command without arguments yet.
    #[must_use]
    pub fn command(&self) -> Command {
        clean(&self.program)
    }

    /// A command line as words.
    #[must_use]
    pub fn words<'w>(&'w self, arguments: &[&'w OsStr]) -> Vec<&'w OsStr> {
        [self.program.as_os_str()]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect()
    }

    /// Runs it once and reads the JSON that it prints.
    ///
    /// # Errors
    /// When it fails, or prints something else.
    pub fn json(&self, arguments: &[&OsStr]) -> Result<Value> {
        let output = self
            .command()
            .args(arguments)
            .output()
            .context("the tool does not start")?;
        if !output.status.success() {
            bail!(
                "the tool failed:\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        serde_json::from_slice(&output.stdout).context("the tool does not print JSON")
    }
}

/// A command which knows nothing of the person's clusters.
#[must_use]
pub fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("KUBECONFIG");
    command
}
