//! The kubelets of all Nodes, played by kwok: Nodes get ready and send signs of life, Pods that are
//! bound to them run.

use crate::client::Client;
use crate::control_plane::ControlPlane;
use crate::error::Result;
use crate::golang::workspace;
use crate::process::{Server, free_port, with_free_ports};
use crate::programs::{Program, Programs};
use crate::wait::PATIENCE;

/// A running kwok. Dropping it stops it.
#[derive(Debug)]
pub struct Kubelets {
    server: Server,
}

impl Kubelets {
    /// Starts it for every Node that is there or comes, and waits until it is healthy.
    ///
    /// # Errors
    /// Fails if it was not built, or does not get healthy.
    pub fn start(programs: &Programs, plane: &ControlPlane) -> Result<Self> {
        Self::start_with(programs, plane, "ci/testbed/kwok-stages.yaml")
    }

    /// As [`Kubelets::start`], for many Nodes whose agents are [played](crate::AgentPlayers): Nodes
    /// send signs of life by their Leases only, and Pods wait for an agent.
    ///
    /// # Errors
    /// Fails if it was not built, or does not get healthy.
    pub fn start_fleet(programs: &Programs, plane: &ControlPlane) -> Result<Self> {
        Self::start_with(programs, plane, "ci/testbed/kwok-fleet.yaml")
    }

    /// The most memory that it has had so far, in MiB.
    ///
    /// # Errors
    /// Fails if it does not run.
    pub fn peak_rss_mib(&self) -> Result<f64> {
        self.server.peak_rss_mib()
    }

    /// The processor time that it has used so far, in seconds.
    ///
    /// # Errors
    /// Fails if it does not run.
    pub fn cpu_seconds(&self) -> Result<f64> {
        self.server.cpu_seconds()
    }

    fn start_with(programs: &Programs, plane: &ControlPlane, stages: &str) -> Result<Self> {
        let program = programs.path(Program::Kwok)?;
        with_free_ports(|| {
            let address = format!("127.0.0.1:{}", free_port()?);
            let arguments = [
                format!("--kubeconfig={}", plane.kubeconfig().display()),
                format!("--config={}", workspace().join(stages).display()),
                "--manage-all-nodes=true".to_owned(),
                format!("--server-address={address}"),
                "--node-lease-duration-seconds=40".to_owned(),
            ];
            let mut server = Server::start("kwok", program, &arguments, plane.folder())?;
            let client = Client::new(
                &format!("http://{address}"),
                &plane.certificates().authority,
                "",
            )?;
            server.wait_ready(PATIENCE, || client.is_ok("/healthz"))?;
            Ok(Self { server })
        })
    }
}
