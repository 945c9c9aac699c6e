//! A real API server with everything that the tool reads in a cluster, except nodes.

use anyhow::Result;
use testbed::{
    CiliumInstallation, ControlPlane, Options, Program, Programs, build, install_cilium,
    install_crds,
};

/// Away from the pools, the nodes' own addresses and the block in between.
const SERVICE_RANGE: &str = "192.168.0.0/16";

/// The options of its start.
#[must_use]
pub fn options() -> Options {
    Options {
        // Deleting one at a time takes a minute for 5,000 nodes, and is not measured.
        apiserver_flags: vec!["--delete-collection-workers=16".to_owned()],
        service_cluster_ip_range: SERVICE_RANGE.to_owned(),
        ..Options::default()
    }
}

/// Starts one with Cilium's CRDs and settings, and no nodes.
///
/// # Errors
/// Fails if it does not start.
pub fn start() -> Result<ControlPlane> {
    start_with(&build(&[Program::KubeApiserver, Program::Etcd])?, options())
}

/// The same with programs that are already built, and with the caller's options.
///
/// # Errors
/// Fails if it does not start.
pub fn start_with(programs: &Programs, options: Options) -> Result<ControlPlane> {
    start_as(programs, options, &CiliumInstallation::default())
}

/// The same with this Cilium.
///
/// # Errors
/// Fails if it does not start.
pub fn start_as(
    programs: &Programs,
    options: Options,
    cilium: &CiliumInstallation,
) -> Result<ControlPlane> {
    let plane = ControlPlane::start(programs, options)?;
    install_crds(&plane, &cilium.version)?;
    install_cilium(&plane, cilium)?;
    Ok(plane)
}
