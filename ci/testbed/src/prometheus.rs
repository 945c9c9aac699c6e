//! A Prometheus of Debian that scrapes one address.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::client::Client;
use crate::control_plane::ControlPlane;
use crate::debian::debian;
use crate::error::{Error, Result};
use crate::process::{Server, free_port, with_free_ports};
use crate::wait::PATIENCE;

/// A running Prometheus. Dropping it stops it.
#[derive(Debug)]
pub struct Prometheus {
    client: Client,
    _server: Server,
}

impl Prometheus {
    /// Starts it beside a control plane, with the rules of that file, and waits until it is ready.
    ///
    /// # Errors
    /// [`Error::Missing`] where Debian cannot be reached; otherwise when it does not get ready.
    pub fn start(plane: &ControlPlane, scraped: &str, rules: &Path) -> Result<Self> {
        let folder = plane.folder();
        let program = debian("prometheus", "prometheus")?;
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}]\n\
             scrape_configs: [{{job_name: it, static_configs: [{{targets: ['{scraped}']}}]}}]\n",
            rules.display()
        );
        let path = folder.join("prometheus.yml");
        fs::write(&path, config).map_err(Error::file(&path))?;
        with_free_ports(|| {
            let address = format!("127.0.0.1:{}", free_port()?);
            let arguments = [
                format!("--config.file={}", path.display()),
                format!(
                    "--storage.tsdb.path={}",
                    folder.join("prometheus").display()
                ),
                format!("--web.listen-address={address}"),
            ];
            let mut server = Server::start("prometheus", &program, &arguments, folder)?;
            let client = Client::new(
                &format!("http://{address}"),
                &plane.certificates().authority,
                "",
            )?;
            server.wait_ready(PATIENCE, || client.is_ok("/-/ready"))?;
            Ok(Self {
                client,
                _server: server,
            })
        })
    }

    /// What its API answers to a path below `/api/v1/`.
    ///
    /// # Errors
    /// Fails if it does not answer.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.client.get(&format!("/api/v1/{path}"))
    }
}
