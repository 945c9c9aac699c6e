//! OpenTofu as a program that shows differences: a folder with all that it reads, and its plan of
//! Nodes that exist. It knows nothing of the other programs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use crate::process::timed_alone;
use crate::timed::Timed;

const PROVIDER: &str = "terraform-provider-kubernetes_v";
/// Where OpenTofu looks in a mirror for `hashicorp/kubernetes`.
const PLACE: &str = "registry.opentofu.org/hashicorp/kubernetes";
const CONFIG: &str = "tofu.rc";
/// A `kubernetes_manifest` is the only resource that can set `podCIDR`. Without a state, `import`
/// makes the Node that exists the other side of the difference.
const MAIN: &str = r#"terraform {
  required_providers {
    kubernetes = { source = "hashicorp/kubernetes" }
  }
}

variable "kubeconfig" { type = string }
variable "nodes" { type = map(string) }

provider "kubernetes" {
  config_path = var.kubeconfig
}

import {
  for_each = var.nodes
  to       = kubernetes_manifest.node[each.key]
  id       = "apiVersion=v1,kind=Node,name=${each.key}"
}

resource "kubernetes_manifest" "node" {
  for_each = var.nodes
  manifest = {
    apiVersion = "v1"
    kind       = "Node"
    metadata   = { name = each.key }
    spec = {
      podCIDR  = each.value
      podCIDRs = [each.value]
    }
  }
  field_manager {
    name            = "tofu"
    force_conflicts = true
  }
}
"#;

/// The programs.
pub struct Tofu {
    pub program: PathBuf,
    /// `terraform-provider-kubernetes_vX.Y.Z`.
    pub provider: PathBuf,
}

impl Tofu {
    /// Measures a plan that gives each of these Nodes its block.
    ///
    /// Nearly all of its time is the limit of the provider's client: 5 requests a second, which is
    /// `DefaultQPS` in `rest/config.go` of client-go. Version 3.2.1 of the provider sets no `QPS`.
    pub fn plan(&self, kubeconfig: &Path, blocks: &BTreeMap<String, String>) -> Result<Timed> {
        let folder = TempDir::new().context("no temporary folder")?;
        self.fill(folder.path(), kubeconfig, blocks)?;
        self.run(folder.path(), &["init", "-input=false", "-no-color"])
            .context("`tofu init` fails")?;
        let words = ["plan", "-input=false", "-no-color"];
        let (timed, text) = self
            .run(folder.path(), &words)
            .context("`tofu plan` fails")?;
        let said = text.lines().find(|line| line.starts_with("Plan: "));
        let wanted = summary(blocks.len());
        ensure!(
            said == Some(wanted.as_str()),
            "`tofu plan` should say `{wanted}`, but says `{}`",
            said.unwrap_or("nothing of it")
        );
        Ok(timed)
    }

    fn fill(
        &self,
        folder: &Path,
        kubeconfig: &Path,
        blocks: &BTreeMap<String, String>,
    ) -> Result<()> {
        let mirror = folder.join("mirror");
        let version = version(&self.provider)?;
        let place = mirror.join(PLACE).join(version).join(platform());
        std::fs::create_dir_all(&place)?;
        std::fs::copy(&self.provider, place.join(format!("{PROVIDER}{version}")))
            .with_context(|| format!("{} cannot be copied", self.provider.display()))?;
        let variables = json!({"kubeconfig": kubeconfig, "nodes": blocks});
        let mirror = json!(mirror);
        let config = format!(
            "disable_checkpoint = true\nprovider_installation {{\n  filesystem_mirror {{\n    path = {mirror}\n  }}\n}}\n"
        );
        std::fs::write(folder.join(CONFIG), config)?;
        std::fs::write(folder.join("main.tf"), MAIN)?;
        std::fs::write(folder.join("nodes.auto.tfvars.json"), variables.to_string())?;
        Ok(())
    }

    /// Away from the user's settings: variables such as `TF_CLI_ARGS`, and files of the home folder.
    fn run(&self, folder: &Path, arguments: &[&str]) -> Result<(Timed, String)> {
        let program = self
            .program
            .canonicalize()
            .with_context(|| format!("there is no {}", self.program.display()))?;
        let config = folder.join(CONFIG);
        let words: Vec<&OsStr> = [program.as_os_str()]
            .into_iter()
            .chain(arguments.iter().map(OsStr::new))
            .collect();
        let variables = [
            ("HOME", folder.as_os_str()),
            ("TF_CLI_CONFIG_FILE", config.as_os_str()),
            ("CHECKPOINT_DISABLE", OsStr::new("1")),
        ];
        timed_alone(&words, folder, &variables)
    }
}

/// What it says if it imports and changes this many objects.
fn summary(objects: usize) -> String {
    format!("Plan: {objects} to import, 0 to add, {objects} to change, 0 to destroy.")
}

/// `X.Y.Z` of the provider's file.
fn version(provider: &Path) -> Result<&str> {
    let name = provider.file_name().and_then(OsStr::to_str);
    name.and_then(|name| name.strip_prefix(PROVIDER))
        .with_context(|| {
            format!(
                "{} is not named `{PROVIDER}X.Y.Z`: OpenTofu reads the version from the name",
                provider.display()
            )
        })
}

/// This machine's, in Go's words.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}_{architecture}", std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_name_of_the_provider() {
        let file = Path::new("/x/terraform-provider-kubernetes_v3.2.1");
        assert_eq!(version(file).unwrap(), "3.2.1");
        assert!(version(Path::new("/x/provider")).is_err());
    }
}
