//! The tool's custom resources: their definitions, and pools as objects.

use std::ffi::OsStr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testbed::{ControlPlane, wait_until};

use crate::tool::Tool;

/// The path of IPPools.
pub const IP_POOLS: &str = "/apis/cilium-ipam.io/v1alpha1/ippools";

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SERVED_LIMIT: Duration = Duration::from_secs(60);

/// Installs the definitions, and waits until they are served.
///
/// # Errors
/// Fails if the tool does not print them, or the server does not take them.
pub fn install_definitions(tool: &Tool, plane: &ControlPlane) -> Result<()> {
    let list = tool.json(&["schema", "--crds"].map(OsStr::new))?;
    for definition in list["items"].as_array().context("no definitions")? {
        plane.create(DEFINITIONS, definition)?;
        let name = |field: &str| {
            definition["spec"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let plural = definition["spec"]["names"]["plural"]
            .as_str()
            .unwrap_or_default();
        let path = format!("/apis/{}/v1alpha1/{plural}", name("group"));
        wait_until("our kinds to be served", SERVED_LIMIT, || {
            Ok(plane.list(&path).ok())
        })?;
    }
    Ok(())
}

/// An IPPool for every node.
#[must_use]
pub fn pool(name: &str, cidrs: &[&str], block_size: u8) -> Value {
    json!({"apiVersion": "cilium-ipam.io/v1alpha1", "kind": "IPPool", "metadata": {"name": name},
        "spec": {"cidrs": cidrs, "blockSize": block_size}})
}
