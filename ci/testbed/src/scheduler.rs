//! kube-scheduler, which binds the Pods of workloads to Nodes.

use crate::client::Client;
use crate::control_plane::{ControlPlane, SERVER_CERTIFICATE, SERVER_KEY};
use crate::error::Result;
use crate::process::{Server, free_port, with_free_ports};
use crate::programs::{Program, Programs};
use crate::wait::PATIENCE;

/// A running kube-scheduler. Dropping it stops it.
#[derive(Debug)]
pub struct Scheduler {
    server: Server,
}

impl Scheduler {
    /// Starts it, and waits until it is healthy.
    ///
    /// # Errors
    /// Fails if it was not built, or does not get healthy.
    pub fn start(programs: &Programs, plane: &ControlPlane) -> Result<Self> {
        let program = programs.path(Program::KubeScheduler)?;
        with_free_ports(|| {
            let port = free_port()?;
            let arguments = [
                format!("--kubeconfig={}", plane.kubeconfig().display()),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={port}"),
                format!("--tls-cert-file={SERVER_CERTIFICATE}"),
                format!("--tls-private-key-file={SERVER_KEY}"),
                "--leader-elect=false".to_owned(),
                "--kube-api-qps=1000".to_owned(),
                "--kube-api-burst=2000".to_owned(),
            ];
            let mut server = Server::start("kube-scheduler", program, &arguments, plane.folder())?;
            let url = format!("https://127.0.0.1:{port}");
            let client = Client::new(&url, &plane.certificates().authority, "")?;
            server.wait_ready(PATIENCE, || client.is_ok("/healthz"))?;
            Ok(Self { server })
        })
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
}
