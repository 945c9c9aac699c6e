//! A real API server with all that the tool looks for in a cluster, but for nodes.

use anyhow::Result;
use testbed::{
    CiliumInstallation, ControlPlane, Options, Program, Programs, build, install_cilium,
    install_crds,
};

/// Away from the pools, the nodes' own addresses and the block in between.
const SERVICE_RANGE: &str = "192.168.0.0/16";

/// How it is started, before anything is added to it.
#[must_use]
pub fn options() -> Options {
    Options {
        // One at a time takes a minute for 5,000 nodes, and nobody measures it.
        apiserver_flags: vec!["--delete-collection-workers=16".to_owned()],
        service_cluster_ip_range: SERVICE_RANGE.to_owned(),
        ..Options::default()
    }
}

/// Starts one with Cilium's CRDs and settings, and no nodes.
///
/// # Errors
/// When it does not start.
pub fn start() -> Result<ControlPlane> {
    start_with(&build(&[Program::KubeApiserver, Program::Etcd])?, options())
}

/// The same with programs that were built already, and options of the caller's own.
///
/// # Errors
/// When it does not start.
pub fn start_with(programs: &Programs, options: Options) -> Result<ControlPlane> {
    let plane = ControlPlane::start(programs, options)?;
    let cilium = CiliumInstallation::default();
    install_crds(&plane, &cilium.version)?;
    install_cilium(&plane, &cilium)?;
    Ok(plane)
}
