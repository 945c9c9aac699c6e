//! The real API server that `plan` and `apply` are measured on.

use anyhow::Result;
use testbed::{CiliumInstallation, ControlPlane, Options, Program, build, install_cilium, install_crds};

/// Away from the pools, the nodes' own addresses and the block in between.
const SERVICE_RANGE: &str = "192.168.0.0/16";

/// Starts one with Cilium's CRDs and settings, and no nodes.
pub fn start() -> Result<ControlPlane> {
    let programs = build(&[Program::KubeApiserver, Program::Etcd])?;
    let options = Options {
        // One at a time takes a minute for 5,000 nodes, and nobody measures it.
        apiserver_flags: vec!["--delete-collection-workers=16".to_owned()],
        service_cluster_ip_range: SERVICE_RANGE.to_owned(),
        ..Options::default()
    };
    let plane = ControlPlane::start(&programs, options)?;
    let cilium = CiliumInstallation::default();
    install_crds(&plane, &cilium.version)?;
    install_cilium(&plane, &cilium)?;
    Ok(plane)
}
