//! Real kubelets without containers: Kubernetes' own code registers the Node, sends signs of life
//! and runs Pods, but their containers are only played.
//!
//! The container runtimes are a process of their own, so that a kubelet that is restarted finds its
//! Pods still running. They give Pods addresses of the block that [`HollowKubelets::set_block`]
//! named, as the CNI plugin of the node's agent does.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::control_plane::{ControlPlane, Options, User};
use crate::error::{Error, Result};
use crate::process::{Ending, Server, free_port, with_free_ports};
use crate::programs::{Program, Programs};
use crate::wait::PATIENCE;

/// Beside a node's socket and static Pods.
const BLOCK: &str = "block";
const STATIC_PODS: &str = "static";

/// What a kubelet registers its Node with.
#[derive(Debug, Clone, Default)]
pub struct HollowNode {
    /// The name of the Node.
    pub name: String,
    /// The kubelet's `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// The kubelet's `--register-with-taints`, as `key=value:effect`.
    pub taints: Vec<String>,
    /// The kubelet's `--provider-id`.
    pub provider_id: String,
}

/// Running kubelets. Dropping them stops them.
#[derive(Debug)]
pub struct HollowKubelets {
    // Dropped in this order.
    kubelets: BTreeMap<String, Server>,
    runtimes: Server,
    folder: PathBuf,
}

impl HollowKubelets {
    /// Options of a control plane that gives these nodes' kubelets exactly the rights of kubelets:
    /// a user for each, the Node authorizer and NodeRestriction.
    #[must_use]
    pub fn options(names: &[&str]) -> Options {
        let users = names.iter().map(|name| User {
            name: user(name),
            groups: vec!["system:nodes".to_owned()],
        });
        Options {
            apiserver_flags: vec![
                // Beside RBAC.
                "--authorization-mode=Node".to_owned(),
                "--enable-admission-plugins=NodeRestriction".to_owned(),
            ],
            users: users.collect(),
            ..Options::default()
        }
    }

    /// Starts a kubelet for each of these nodes, and waits until all have registered. The control
    /// plane must have been started with [`HollowKubelets::options`].
    ///
    /// # Errors
    /// Fails if the program was not built, or a kubelet does not register its Node.
    pub fn start(programs: &Programs, plane: &ControlPlane, nodes: &[HollowNode]) -> Result<Self> {
        let folder = plane.folder().join("kubelets");
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        for name in &names {
            let own = folder.join(name);
            fs::create_dir_all(&own).map_err(Error::file(&own))?;
        }
        let runtimes = start_runtimes(programs, plane, &folder, &names)?;
        let mut all = Self {
            kubelets: BTreeMap::new(),
            runtimes,
            folder,
        };
        for node in nodes {
            let kubelet = all.start_kubelet(programs, plane, node)?;
            all.kubelets.insert(node.name.clone(), kubelet);
        }
        for node in nodes {
            all.wait_ready(programs, plane, node)?;
        }
        Ok(all)
    }

    /// A kubelet opens its port late, so it may find the port in use long after its start.
    fn wait_ready(
        &mut self,
        programs: &Programs,
        plane: &ControlPlane,
        node: &HollowNode,
    ) -> Result<()> {
        let path = format!("/api/v1/nodes/{}", node.name);
        with_free_ports(|| {
            let mut kubelet = match self.kubelets.remove(&node.name) {
                Some(started) => started,
                None => self.start_kubelet(programs, plane, node)?,
            };
            kubelet.wait_ready(PATIENCE, || plane.client().is_ok(&path))?;
            self.kubelets.insert(node.name.clone(), kubelet);
            Ok(())
        })
    }

    fn start_kubelet(
        &self,
        programs: &Programs,
        plane: &ControlPlane,
        node: &HollowNode,
    ) -> Result<Server> {
        let HollowNode {
            name,
            labels,
            taints,
            provider_id,
        } = node;
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let kubeconfig = plane.kubeconfig_for(&user(name))?;
        with_free_ports(|| {
            let port = free_port()?;
            let arguments = [
                "kubelet".to_owned(),
                format!("-folder={}", self.folder.display()),
                format!("-name={name}"),
                format!("-kubeconfig={}", kubeconfig.display()),
                format!("-port={port}"),
                format!("-provider-id={provider_id}"),
                format!("-node-labels={}", labels.join(",")),
                format!("-register-with-taints={}", taints.join(",")),
            ];
            let program = programs.path(Program::HollowKubelet)?;
            let server_name = format!("kubelet-{name}");
            let mut server = Server::start(&server_name, program, &arguments, plane.folder())?;
            server.check_running()?;
            Ok(server)
        })
    }

    /// Stops one kubelet and starts it again. It registers its Node if the Node does not exist.
    ///
    /// # Errors
    /// Fails if there is no such kubelet, or it does not start.
    pub fn restart(&mut self, node: &str, ending: Ending) -> Result<()> {
        self.kubelet(node)?.restart(ending)
    }

    /// Stops one kubelet. The containers of its Pods continue to run.
    ///
    /// # Errors
    /// Fails if there is no such kubelet.
    pub fn stop(&mut self, node: &str, ending: Ending) -> Result<()> {
        self.kubelet(node)?.end(ending);
        Ok(())
    }

    fn kubelet(&mut self, node: &str) -> Result<&mut Server> {
        let missing = || Error::NoUser(user(node));
        self.kubelets.get_mut(node).ok_or_else(missing)
    }

    /// The folder of all nodes, for an [agent player](crate::AgentPlayers).
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Names the block of which the node's new Pods get their addresses, or none while no agent
    /// answers.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn set_block(&self, node: &str, block: Option<&str>) -> Result<()> {
        write_block(&self.folder, node, block)
    }

    /// Puts a manifest into a node's folder of static Pods.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn add_static_pod(&self, node: &str, name: &str, manifest: &str) -> Result<()> {
        let path = self.folder.join(node).join(STATIC_PODS);
        fs::create_dir_all(&path).map_err(Error::file(&path))?;
        let path = path.join(format!("{name}.json"));
        fs::write(&path, manifest).map_err(Error::file(&path))
    }

    /// The most memory of each process so far, in MiB: the kubelets by node, then the runtimes.
    ///
    /// # Errors
    /// Fails if one does not run.
    pub fn peak_rss_mib(&self) -> Result<Vec<f64>> {
        self.servers().map(Server::peak_rss_mib).collect()
    }

    /// The processor time of each process so far, in seconds, in the order of
    /// [`HollowKubelets::peak_rss_mib`].
    ///
    /// # Errors
    /// Fails if one does not run.
    pub fn cpu_seconds(&self) -> Result<Vec<f64>> {
        self.servers().map(Server::cpu_seconds).collect()
    }

    fn servers(&self) -> impl Iterator<Item = &Server> {
        self.kubelets.values().chain([&self.runtimes])
    }
}

/// Replaces the file at once, so that no runtime reads half of it.
pub(crate) fn write_block(folder: &Path, node: &str, block: Option<&str>) -> Result<()> {
    let path = folder.join(node).join(BLOCK);
    match block {
        Some(block) => {
            let unfinished = path.with_added_extension("unfinished");
            fs::write(&unfinished, block).map_err(Error::file(&unfinished))?;
            fs::rename(&unfinished, &path).map_err(Error::file(&path))
        }
        None => match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::file(&path)(error))
            }
            _ => Ok(()),
        },
    }
}

fn start_runtimes(
    programs: &Programs,
    plane: &ControlPlane,
    folder: &Path,
    names: &[&str],
) -> Result<Server> {
    let arguments = [
        "runtime".to_owned(),
        format!("-folder={}", folder.display()),
        format!("-nodes={}", names.join(",")),
    ];
    let program = programs.path(Program::HollowKubelet)?;
    let mut server = Server::start("container-runtimes", program, &arguments, plane.folder())?;
    let log = server.log().to_owned();
    server.wait_ready(PATIENCE, || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("serving"))
    })?;
    Ok(server)
}

/// As kubelets' certificates name them.
fn user(node: &str) -> String {
    format!("system:node:{node}")
}
