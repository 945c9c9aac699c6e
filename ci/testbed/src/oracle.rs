//! Cilium's own answer to which pod CIDRs an agent uses for a Node.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::control_plane::ControlPlane;
use crate::error::{Error, Result};
use crate::folder::RunFolder;
use crate::programs::{Program, Programs};

/// Cilium's option `annotate-k8s-node`. On stands in for Cilium up to 1.11, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnotateK8sNode {
    /// Annotations count where `spec.podCIDRs` says nothing.
    On,
    /// Annotations do not count.
    Off,
}

impl AnnotateK8sNode {
    /// As `cilium-config` writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "true",
            Self::Off => "false",
        }
    }
}

/// The pod CIDRs of one node, as Cilium writes them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodCidrs {
    /// The IPv4 block.
    pub ipv4: Option<String>,
    /// The IPv6 block.
    pub ipv6: Option<String>,
}

/// Which pod CIDRs an agent of Cilium 1.19 would use, by the name of the Node.
///
/// # Errors
/// Fails if [`Program::ParseNodeOracle`] was not built, or cannot read the nodes.
pub fn parse_node(
    programs: &Programs,
    nodes: &[Value],
    annotate: AnnotateK8sNode,
) -> Result<BTreeMap<String, PodCidrs>> {
    let home = RunFolder::new()?;
    let path = programs.path(Program::ParseNodeOracle)?;
    let mut child = programs
        .command(Program::ParseNodeOracle, home.path())?
        .arg(format!("-annotate-k8s-node={}", annotate.as_str()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::file(path))?;
    let input = Value::from(nodes).to_string();
    // It reads everything before it writes anything, so neither waits for the other. Should
    // it end early, its own words tell more than the broken pipe.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(Error::file(path))?;
    if !output.status.success() {
        return Err(Error::Failed {
            program: "parsenode".to_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }
    read_answer(&output.stdout)
}

/// What agents of Cilium 1.19 would be set to on these nodes, by the name of the node:
/// `cilium-config` in `kube-system`, and over it the `CiliumNodeConfig`s there.
///
/// # Errors
/// Fails if [`Program::NodeSettingsOracle`] was not built, or the server does not answer it.
pub fn agent_settings(
    programs: &Programs,
    plane: &ControlPlane,
    nodes: &[&str],
) -> Result<BTreeMap<String, BTreeMap<String, String>>> {
    settings_of(programs, plane.kubeconfig(), nodes)
}

/// As [`agent_settings`], for the cluster of a kubeconfig file.
pub(crate) fn settings_of(
    programs: &Programs,
    kubeconfig: &Path,
    nodes: &[&str],
) -> Result<BTreeMap<String, BTreeMap<String, String>>> {
    let home = RunFolder::new()?;
    let path = programs.path(Program::NodeSettingsOracle)?;
    let output = programs
        .command(Program::NodeSettingsOracle, home.path())?
        .arg(format!("--k8s-kubeconfig-path={}", kubeconfig.display()))
        .arg(format!("--nodes={}", nodes.join(",")))
        .stdin(Stdio::null())
        .output()
        .map_err(Error::file(path))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Failed {
            program: "nodesettings".to_owned(),
            stderr,
        });
    }
    serde_json::from_slice(&output.stdout).map_err(|why| Error::unreadable("nodesettings", why))
}

fn read_answer(text: &[u8]) -> Result<BTreeMap<String, PodCidrs>> {
    let answer: BTreeMap<String, Value> =
        serde_json::from_slice(text).map_err(|why| Error::unreadable("parsenode", why))?;
    let block = |node: &Value, family: &str| node[family].as_str().map(str::to_owned);
    Ok(answer
        .into_iter()
        .map(|(name, node)| {
            let ipv4 = block(&node, "ipv4");
            let ipv6 = block(&node, "ipv6");
            (name, PodCidrs { ipv4, ipv6 })
        })
        .collect())
}
