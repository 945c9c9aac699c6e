//! A node with a real kubelet and a real container runtime: containerd, with `runc` of Debian, in
//! namespaces of its own on this machine.
//!
//! All of it ends with the process that holds the namespaces, also if the test is killed. It knows
//! nothing of the cluster except its kubeconfig, and nothing of the CNI plugins that a test puts
//! into [`ContainerNode::plugins`].

mod cgroups;
mod image;
mod namespaces;
mod processes;
mod settings;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::control_plane::ControlPlane;
use crate::debian::{debian_file, library_folders};
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

/// What Debian's `runc` and `nft` load.
const LIBRARIES: [(&str, &str); 6] = [
    ("libseccomp2", "libseccomp.so.2"),
    ("libnftables1", "libnftables.so.1"),
    ("libnftnl11", "libnftnl.so.11"),
    ("libmnl0", "libmnl.so.0"),
    ("libjansson4", "libjansson.so.4"),
    ("libxtables12", "libxtables.so.12"),
];

const SOCKET: &str = "/run/containerd/containerd.sock";
/// Containerd's own namespace of what kubelets request.
const CONTAINERD_NAMESPACE: &str = "k8s.io";

/// A node. Dropping it ends everything on it.
#[derive(Debug)]
pub struct ContainerNode {
    // Dropped in this order.
    processes: Processes,
    relays: Vec<LoopbackRelay>,
    namespaces: Namespaces,
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
        let cgroups = Cgroups::new(folder.path())?;
        image::write(folder.path())?;
        let boot = folder.write("boot-id", &boot_id(1))?;
        let libraries = library_folders(&LIBRARIES)?;
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

    /// Takes it away again.
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

    /// The node's network.
    #[must_use]
    pub fn netns(&self) -> PathBuf {
        self.namespaces.netns()
    }

    /// Runs a line of shell on the node.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn shell(&self, line: &str) -> Result<Output> {
        self.namespaces.shell(line)
    }

    /// Starts containerd and loads the image [`ContainerNode::IMAGE`].
    ///
    /// # Errors
    /// Fails if it does not answer.
    pub fn start_containerd(&mut self) -> Result<()> {
        let settings = settings::containerd(self.folder.path());
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
    ///
    /// # Errors
    /// Fails if it does not get ready.
    pub fn wait_for_kubelet(&self, plane: &ControlPlane) -> Result<()> {
        let path = format!("/api/v1/nodes/{}", self.name);
        wait_until("the Node to be ready", PATIENCE, || {
            let node = match plane.get(&path) {
                Err(Error::Status { status: 404, .. }) => return Ok(None),
                other => other?,
            };
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

    /// Ends the whole node as a power cut does, and boots it again with the same disk and without any
    /// network. Nothing runs on it then.
    ///
    /// # Errors
    /// Fails if there cannot be namespaces any more.
    pub fn reboot(&mut self) -> Result<()> {
        self.relays.clear();
        self.namespaces.end();
        self.processes = Processes::default();
        self.boots += 1;
        let boot = self.folder.write("boot-id", &boot_id(self.boots))?;
        let libraries = library_folders(&LIBRARIES)?;
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

    /// Waits until containerd answers.
    ///
    /// # Errors
    /// Fails if it does not.
    pub fn wait_for_containerd(&self) -> Result<()> {
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

    /// Runs containerd's command line; what it prints.
    ///
    /// # Errors
    /// Fails if it does.
    pub fn ctr(&self, words: &str) -> Result<String> {
        let ctr = self.programs.path(Program::Ctr)?.display();
        let line = format!("{ctr} --address {SOCKET} --namespace {CONTAINERD_NAMESPACE} {words}");
        let output = self.shell(&line)?;
        if output.code == 0 {
            return Ok(output.stdout);
        }
        Err(Error::Failed {
            program: format!("ctr {words}"),
            stderr: output.stderr,
        })
    }

    /// Runs a line of shell in the container of a running Pod.
    ///
    /// # Errors
    /// Fails if the Pod has no container, or if it cannot be started.
    pub fn exec(&self, pod: &str, line: &str) -> Result<Output> {
        let container = self.container(pod)?;
        let ctr = self.programs.path(Program::Ctr)?.display();
        // Quotes in the line are the container's.
        let quoted = line.replace('\'', r"'\''");
        let exec = format!("tasks exec --exec-id {container}-exec {container} sh -c '{quoted}'");
        self.shell(&format!(
            "{ctr} --address {SOCKET} --namespace {CONTAINERD_NAMESPACE} {exec}"
        ))
    }

    /// The id of the sandbox of a Pod, the newest if there are several.
    ///
    /// # Errors
    /// Fails if the Pod has none.
    pub fn sandbox(&self, pod: &str) -> Result<String> {
        self.newest(pod, "sandbox")
    }

    /// The id of the container of a Pod.
    fn container(&self, pod: &str) -> Result<String> {
        self.newest(pod, "container")
    }

    /// Of a kind that containerd labels.
    fn newest(&self, pod: &str, kind: &str) -> Result<String> {
        let filter = format!(
            r#"labels."io.cri-containerd.kind"=={kind},labels."io.kubernetes.pod.name"=={pod}"#
        );
        let listed = self.ctr(&format!("containers list --quiet '{filter}'"))?;
        let mut newest = None;
        for id in listed.lines() {
            let info = self.ctr(&format!("containers info {id}"))?;
            let info: serde_json::Value = serde_json::from_str(&info)
                .map_err(|why| Error::unreadable(format!("container {id}"), why))?;
            let created = info["CreatedAt"].as_str().unwrap_or_default().to_owned();
            newest = newest.max(Some((created, id.to_owned())));
        }
        let missing = || Error::unreadable(format!("the {kind} of {pod}"), "there is none");
        newest.map(|(_, id)| id).ok_or_else(missing)
    }

    /// The process of a Pod's container, by its number on the node.
    ///
    /// # Errors
    /// Fails if the Pod's container does not run.
    pub fn pid(&self, pod: &str) -> Result<u32> {
        let container = self.container(pod)?;
        let listed = self.ctr("tasks list")?;
        let is_it = |line: &&str| line.starts_with(&container);
        let line = listed.lines().find(is_it);
        let pid = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        pid.ok_or_else(|| Error::unreadable(format!("the tasks of {pod}"), listed))
    }

    /// Programs that containerd and the kubelet look for by name.
    fn path_variable(&self) -> String {
        let own = self.folder.path().join("programs");
        format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", own.display())
    }
}

/// `/proc/sys/kernel/random/boot_id` after so many boots.
fn boot_id(boots: u32) -> String {
    format!("00000000-0000-4000-8000-{boots:012}\n")
}

fn link_programs(programs: &Programs, folder: &RunFolder) -> Result<()> {
    let runc = debian_file("runc", "usr/sbin/runc")?;
    let nft = debian_file("nftables", "usr/sbin/nft")?;
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
