//! The `cilium-ipam` binary: its path, and commands that ignore the user's clusters.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Names the tool to the companions. Set by `cargo xtask bench` and `cargo xtask prove`.
pub const TOOL_VARIABLE: &str = "XTASK_TOOL";
/// The tool's path if a person started the companion.
pub const USUAL_PLACE: &str = "target/release/cilium-ipam";
/// Names the CNI plugin to the companions.
pub const PLUGIN_VARIABLE: &str = "XTASK_PLUGIN";
/// The CNI plugin's path if a person started the companion.
pub const PLUGIN_PLACE: &str = "target/plugin/cni-ipam-neutron";

/// The tool.
pub struct Tool {
    program: PathBuf,
}

impl Tool {
    /// The binary at this path.
    ///
    /// # Errors
    /// Fails if there is no file at this path.
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

    /// The words of a command line.
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
    /// Fails if it fails, or prints something else.
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

/// A command that ignores the user's clusters.
#[must_use]
pub fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("KUBECONFIG");
    command
}
