//! MetalLB's controller: gives addresses to Services of type LoadBalancer. No speaker announces
//! them.

use std::fs;

use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::error::{Error, Result};
use crate::golang::source_folder;
use crate::process::Server;
use crate::programs::{Program, Programs};
use crate::wait::{PATIENCE, wait_until};

const MODULE: &str = "go.universe.tf/metallb";
/// As in `tests/controlplane/metallb/go.mod`. Modules of later releases need others that the proxy
/// does not have.
const RELEASE: &str = "0.15.2";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A running controller of MetalLB. Dropping it stops it.
#[derive(Debug)]
pub struct MetalLb {
    _server: Server,
}

impl MetalLb {
    /// The namespace of its objects.
    pub const NAMESPACE: &str = "metallb-system";

    /// Installs its CRDs, as the sources of its release have them, and starts it.
    ///
    /// # Errors
    /// Fails if it was not built, or the server says no.
    pub fn start(programs: &Programs, plane: &ControlPlane) -> Result<Self> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": Self::NAMESPACE}});
        plane.create("/api/v1/namespaces", &namespace)?;
        install_crds(plane)?;
        let arguments = [
            format!("--kubeconfig={}", plane.kubeconfig().display()),
            format!("--namespace={}", Self::NAMESPACE),
            // The API server has no certificate of its webhook.
            "--webhook-mode=disabled".to_owned(),
            // It would listen on every address of the machine. An invalid port is only logged.
            "--port=-1".to_owned(),
        ];
        let program = programs.path(Program::MetalLbController)?;
        Ok(Self {
            _server: Server::start("metallb", program, &arguments, plane.folder())?,
        })
    }
}

fn install_crds(plane: &ControlPlane) -> Result<()> {
    let folder = source_folder(MODULE, RELEASE)?.join("config/crd/bases");
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Error::file(&folder))? {
        let path = entry.map_err(Error::file(&folder))?.path();
        let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
        let crd: Value = serde_yaml::from_str(&text)
            .map_err(|why| Error::unreadable(path.display().to_string(), why))?;
        plane.create(CRDS, &crd)?;
        let plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default();
        let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
        let names = versions.filter_map(|version| version["name"].as_str());
        paths.extend(names.map(|version| format!("/apis/metallb.io/{version}/{plural}?limit=1")));
    }
    wait_until("MetalLB's CRDs to be served", PATIENCE, || {
        paths.retain(|path| !plane.client().is_ok(path));
        Ok(paths.is_empty().then_some(()))
    })
}
