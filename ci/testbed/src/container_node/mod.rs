//! A node with a real kubelet and a real container runtime: containerd, with `runc` of Debian, in
//! namespaces of its own on this machine.
//!
//! All of it ends with the process that holds the namespaces, also if the test is killed. It knows
//! nothing of the cluster except its kubeconfig, and nothing of the CNI plugins that a test puts
//! into [`ContainerNode::plugins`].

mod cgroups;
mod containers;
mod image;
mod namespaces;
mod processes;
mod settings;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::control_plane::ControlPlane;
use crate::debian::{debian_file, library_folders, nft};
use crate::error::{Error, Result};
use crate::folder::RunFolder;
use crate::loopback_relay::LoopbackRelay;
use crate::process::Ending;
use crate::programs::{Program, Programs};
use crate::wait::{PATIENCE, wait_until};

use self::cgroups::Cgroups;
use self::namespaces::Namespaces;
use self::processes::Processes;

pub use self::namespaces::Output;

/// Names of processes on the node.
const CONTAINERD: &str = "containerd";
const KUBELET: &str = "kubelet";

/// What Debian's `runc` loads.
const RUNC_LIBRARIES: [(&str, &str); 1] = [("libseccomp2", "libseccomp.so.2")];

const SOCKET: &str = "/run/containerd/containerd.sock";
/// Containerd's own namespace of what kubelets request.
const CONTAINERD_NAMESPACE: &str = "k8s.io";

/// A node. Dropping it ends everything on it.
#[derive(Debug)]
pub struct ContainerNode {
    // Dropped in this order.
    relays: Vec<LoopbackRelay>,
    namespaces: Namespaces,
    processes: Processes,
    cgroups: Cgroups,
    programs: Programs,
    servers: Vec<String>,
    name: String,
    boots: u32,
    folder: RunFolder,
}

impl ContainerNode {
    /// The image of all containers: busybox. Manifests need `imagePullPolicy: Never`.
    pub const IMAGE: &str = image::IMAGE;

    /// What [`build`](crate::build) must be asked for.
    pub const PROGRAMS: [Program; 4] = [
        Program::Containerd,
        Program::ContainerdShim,
        Program::Ctr,
        Program::Kubelet,
    ];

    /// A node of this name without any network. Nothing runs on it yet.
    ///
    /// # Errors
    /// [`Error::Missing`] if this machine has no such namespaces or control groups, or if Debian
    /// cannot be reached; otherwise if a program was not built.
    pub fn new(programs: &Programs, name: &str) -> Result<Self> {
        let folder = RunFolder::new()?;
        for part in ["bin", "net.d", "manifests", "log", "programs", "var-lib"] {
            let path = folder.path().join(part);
            fs::create_dir(&path).map_err(Error::file(&path))?;
        }
        link_programs(programs, &folder)?;
        // The kubelet's watcher of the OOM killer reads it.
        let refused = |why| Error::missing("containers", format!("/dev/kmsg: {why}"));
        fs::File::open("/dev/kmsg").map_err(refused)?;
        let cgroups = Cgroups::new(folder.path())?;
        image::write(folder.path())?;
        let boot = folder.write("boot-id", &boot_id(1))?;
        let libraries = libraries()?;
        let namespaces = Namespaces::new(folder.path(), &boot, &libraries)?;
        let node = Self {
            processes: Processes::default(),
            relays: Vec::new(),
            namespaces,
            cgroups,
            programs: programs.clone(),
            servers: Vec::new(),
            name: name.to_owned(),
            boots: 1,
            folder,
        };
        Ok(node)
    }

    /// Where kubelets look for CNI plugins.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// Where containerd looks for configurations of networks.
    #[must_use]
    pub fn networks(&self) -> PathBuf {
        self.folder.path().join("net.d")
    }

    /// What `/var/lib` is on the node. It outlives a reboot.
    #[must_use]
    pub fn var_lib(&self) -> PathBuf {
        self.folder.path().join("var-lib")
    }

    /// A file that only this node has; its path is the same on the node and here.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        self.folder.write(name, text)
    }

    /// Puts a manifest into the kubelet's folder of static Pods.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn add_static_pod(&self, name: &str, manifest: &str) -> Result<()> {
        let path = self.folder.path().join("manifests").join(name);
        fs::write(&path, manifest).map_err(Error::file(&path))
    }

    /// Removes the manifest of a static Pod.
    ///
    /// # Errors
    /// Fails if there is no such file.
    pub fn remove_static_pod(&self, name: &str) -> Result<()> {
        let path = self.folder.path().join("manifests").join(name);
        fs::remove_file(&path).map_err(Error::file(&path))
    }

    /// The node reaches the server of this URL, which is on the machine's loopback, under the same
    /// URL; also after a reboot.
    ///
    /// # Errors
    /// Fails if its port is taken on the node.
    pub fn reach(&mut self, url: &str) -> Result<()> {
        let relay = LoopbackRelay::new(&self.namespaces.netns(), url)?;
        self.relays.push(relay);
        self.servers.push(url.to_owned());
        Ok(())
    }

    /// Runs a line of shell on the node.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn shell(&self, line: &str) -> Result<Output> {
        self.namespaces.shell(line)
    }

    /// Starts containerd and loads the image [`ContainerNode::IMAGE`]. Each Pod is attached to at most
    /// this number of networks.
    ///
    /// # Errors
    /// Fails if it does not answer.
    pub fn start_containerd(&mut self, networks: usize) -> Result<()> {
        let settings = settings::containerd(self.folder.path(), networks);
        let settings = self.write("containerd.toml", &settings)?;
        let line = [
            self.programs
                .path(Program::Containerd)?
                .display()
                .to_string(),
            format!("--config={}", settings.display()),
        ];
        self.start(CONTAINERD, &line)?;
        self.wait_for_containerd()?;
        let image = self.folder.path().join(image::ARCHIVE);
        self.ctr(&format!("images import {}", image.display()))?;
        Ok(())
    }

    /// Starts the kubelet with the rights of the administrator, and more flags. The node must have
    /// the addresses that the flags name.
    ///
    /// # Errors
    /// Fails if the Node does not get ready.
    pub fn start_kubelet(&mut self, plane: &ControlPlane, flags: &[&str]) -> Result<()> {
        let folder = self.folder.path();
        let settings = settings::kubelet(folder, self.cgroups.name());
        let settings = self.write("kubelet.json", &settings)?;
        let mut line = vec![
            self.programs.path(Program::Kubelet)?.display().to_string(),
            format!("--config={}", settings.display()),
            format!("--kubeconfig={}", plane.kubeconfig().display()),
            format!("--hostname-override={}", self.name),
            "--cert-dir=/var/lib/kubelet/pki".to_owned(),
        ];
        line.extend(flags.iter().map(ToString::to_string));
        self.start(KUBELET, &line)?;
        self.wait_for_kubelet(plane)
    }

    /// Waits until the API server says that the node is ready.
    fn wait_for_kubelet(&self, plane: &ControlPlane) -> Result<()> {
        let path = format!("/api/v1/nodes/{}", self.name);
        wait_until("the Node to be ready", PATIENCE, || {
            let node = match plane.get(&path) {
                Err(Error::Status { status: 404, .. }) => return Ok(None),
                other => other?,
            };
            // What the API server has may be of an earlier boot.
            let boot = &node["status"]["nodeInfo"]["bootID"];
            if boot.as_str() != Some(boot_id(self.boots).trim()) {
                return Ok(None);
            }
            let conditions = node["status"]["conditions"].as_array();
            let is_ready = conditions.is_some_and(|all| {
                all.iter()
                    .any(|one| one["type"] == "Ready" && one["status"] == "True")
            });
            Ok(is_ready.then_some(()))
        })
    }

    /// Starts a process of this name on the node; its output goes into the node's folder `log`.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn start(&mut self, name: &str, line: &[String]) -> Result<()> {
        let log = self.folder.path().join("log").join(name);
        let command = self.namespaces.command(&self.path_variable(), line);
        self.processes.start(name, command, &log)
    }

    /// Ends a process by its name, and only it: what it has started goes on.
    ///
    /// # Errors
    /// Fails if there is no such process.
    pub fn end(&mut self, name: &str, ending: Ending) -> Result<()> {
        self.processes.end(name, ending)
    }

    /// Ends a process, and starts it again as it was started before.
    ///
    /// # Errors
    /// Fails if there is no such process, or if it does not start.
    pub fn restart(&mut self, name: &str, ending: Ending) -> Result<()> {
        self.processes.restart(name, ending)
    }

    /// Kills all processes at once, and boots the node again without any network. Nothing runs on it
    /// then. Files stay as they are, and the kernel's boot time does not change.
    ///
    /// # Errors
    /// Fails if there cannot be namespaces any more.
    pub fn reboot(&mut self) -> Result<()> {
        self.relays.clear();
        self.namespaces.end();
        self.processes = Processes::default();
        self.boots += 1;
        let boot = self.folder.write("boot-id", &boot_id(self.boots))?;
        let libraries = libraries()?;
        self.namespaces = Namespaces::new(self.folder.path(), &boot, &libraries)?;
        for url in std::mem::take(&mut self.servers) {
            self.reach(&url)?;
        }
        Ok(())
    }

    /// What a process has printed so far.
    #[must_use]
    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join("log").join(name)).unwrap_or_default()
    }

    fn wait_for_containerd(&self) -> Result<()> {
        wait_until("containerd", PATIENCE, || {
            Ok(self.ctr("version").is_ok().then_some(()))
        })
    }

    /// `nft` of Debian, by its path on the node.
    #[must_use]
    pub fn nft(&self) -> String {
        self.folder
            .path()
            .join("programs/nft")
            .display()
            .to_string()
    }

    /// Programs that containerd and the kubelet look for by name.
    fn path_variable(&self) -> String {
        let own = self.folder.path().join("programs");
        format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", own.display())
    }
}

/// `/proc/sys/kernel/random/boot_id` after this number of boots.
fn boot_id(boots: u32) -> String {
    format!("00000000-0000-4000-8000-{boots:012}\n")
}

/// The `LD_LIBRARY_PATH` of Debian's programs on the node.
fn libraries() -> Result<String> {
    let (_, of_nft) = nft()?;
    Ok(format!("{}:{of_nft}", library_folders(&RUNC_LIBRARIES)?))
}

fn link_programs(programs: &Programs, folder: &RunFolder) -> Result<()> {
    let runc = debian_file("runc", "usr/sbin/runc")?;
    let (nft, _) = nft()?;
    let shim = programs.path(Program::ContainerdShim)?;
    let all = [
        ("runc", runc.as_path()),
        ("nft", &nft),
        ("containerd-shim-runc-v2", shim),
    ];
    for (name, target) in all {
        let path = folder.path().join("programs").join(name);
        symlink(target, &path).map_err(Error::file(&path))?;
    }
    Ok(())
}
