//! A node that is a network namespace, with Pods that are others, and CNI's own command line on it.
//! All of it ends with the process that holds it, also if the test is killed. The machine sees
//! neither its links nor its mounts.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::{CniPlugin, Program, Programs, build, debian_file};

use crate::neutron::support::Plugin;
use crate::support::{Ran, node_program};

/// Names in the configurations of the tests.
const PLUGINS: [CniPlugin; 4] = [
    CniPlugin::Ptp,
    CniPlugin::Macvlan,
    CniPlugin::Bridge,
    CniPlugin::HostDevice,
];

/// Reports when it is ready, and waits until its standard input is closed. `cnitool` keeps its
/// results in `/var/lib`.
const HOLDER: &str =
    "ip link set lo up && mount --no-mtab -t tmpfs none /var/lib && echo ready && exec cat";

/// A node. Dropping it removes everything on it.
pub struct Node {
    holder: Child,
    lifeline: Option<ChildStdin>,
    folder: TempDir,
    ping: PathBuf,
    programs: Programs,
}

impl Node {
    /// Without any network.
    pub fn new() -> testbed::Result<Node> {
        let ping = debian_file("busybox-static", "bin/busybox")?;
        let mut wanted = vec![Program::Cnitool];
        wanted.extend(PLUGINS.map(Program::CniPlugin));
        let programs = build(&wanted)?;
        let mut holder = Command::new("unshare");
        holder.args([
            "--net",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            HOLDER,
        ]);
        holder.stdin(Stdio::piped()).stdout(Stdio::piped());
        let missing = |why: &str| {
            let needs =
                "it needs root, and `unshare`, `nsenter` and `ip` of util-linux and iproute2";
            testbed::Error::missing("namespaces", format!("{needs}: {why}"))
        };
        let mut holder = holder.spawn().map_err(|why| missing(&why.to_string()))?;
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let lifeline = holder.stdin.take();
        let node = Node {
            holder,
            lifeline,
            folder: TempDir::new().unwrap(),
            ping,
            programs,
        };
        if line != "ready\n" {
            return Err(missing("`unshare --net --mount` is refused"));
        }
        for folder in ["bin", "pods", "net.d"] {
            fs::create_dir(node.folder.path().join(folder)).unwrap();
        }
        node.relay();
        for name in ["cni-vm-nic", "cni-unnumbered-ptp"] {
            let plugin = node.folder.path().join("bin").join(name);
            std::os::unix::fs::symlink(node_program(name), plugin).unwrap();
        }
        Ok(node)
    }

    /// The plugin under the name that configurations give it. It is run in the machine's network,
    /// where Neutron is: it asks for addresses and touches no links.
    fn relay(&self) {
        let script = format!(
            "#!/bin/sh\nexec nsenter --net=/proc/{}/ns/net {}\n",
            std::process::id(),
            node_program("cni-ipam-neutron").display()
        );
        let path = self.folder.path().join("bin/ipam-neutron");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A program on the node, or in the network of a Pod.
    fn command(&self, pod: Option<&str>, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", self.holder.id()))
            .args(["--net", "--mount", "--"]);
        if let Some(pod) = pod {
            command
                .arg("nsenter")
                .arg(format!("--net={}", self.netns(pod).display()))
                .arg("--");
        }
        command
            .arg(program)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::null());
        command
    }

    /// `ip` on the node, or in the network of a Pod, with words between spaces; what it prints.
    #[track_caller]
    pub fn ip(&self, pod: Option<&str>, words: &str) -> String {
        ran(self.command(pod, Path::new("ip")).args(words.split(' ')))
            .expect(0)
            .stdout
    }

    /// A line of shell on the node, or in the network of a Pod.
    pub fn shell(&self, pod: Option<&str>, line: &str) -> Ran {
        ran(self.command(pod, Path::new("sh")).args(["-c", line]))
    }

    /// What is written about a link of the node.
    #[track_caller]
    pub fn set_alias(&self, link: &str, alias: &str) {
        ran(self
            .command(None, Path::new("ip"))
            .args(["link", "set", link, "alias", alias]))
        .expect(0);
    }

    /// The names of the links of the node, or of a Pod.
    #[track_caller]
    pub fn links(&self, pod: Option<&str>) -> Vec<String> {
        let listed: Value = serde_json::from_str(&self.ip(pod, "-json link show")).unwrap();
        let name = |link: &Value| link["ifname"].as_str().unwrap().to_owned();
        let mut names: Vec<String> = listed.as_array().unwrap().iter().map(name).collect();
        names.sort();
        names
    }

    /// Whether an address answers the node, or a Pod. New IPv6 addresses are silent for a second or
    /// two.
    pub fn reaches(&self, pod: Option<&str>, address: &str) -> bool {
        (0..5).any(|_| self.pings(pod, address))
    }

    /// Whether it answers at once.
    pub fn pings(&self, pod: Option<&str>, address: &str) -> bool {
        ran(self
            .command(pod, &self.ping)
            .args(["ping", "-c", "1", "-W", "1", address]))
        .code
            == 0
    }

    /// The path of a Pod's network.
    pub fn netns(&self, pod: &str) -> PathBuf {
        self.folder.path().join("pods").join(pod)
    }

    /// A Pod without any link but `lo`.
    #[track_caller]
    pub fn add_pod(&self, pod: &str) {
        let netns = self.netns(pod);
        fs::write(&netns, "").unwrap();
        let mut unshare = self.command(None, Path::new("unshare"));
        ran(unshare
            .arg(format!("--net={}", netns.display()))
            .args(["ip", "link", "set", "lo", "up"]))
        .expect(0);
    }

    /// The Pod's network goes, as at a reboot, without a call of the plugin.
    #[track_caller]
    pub fn remove_pod(&self, pod: &str) {
        let netns = self.netns(pod);
        ran(self.command(None, Path::new("umount")).arg(&netns)).expect(0);
        fs::remove_file(netns).unwrap();
    }

    /// A network of the node: this main plugin, with the addresses of ours.
    pub fn network(&self, name: &str, main: &Value, addresses: &Plugin) {
        self.network_of("1.1.0", name, main, addresses);
    }

    /// The same of a version of the specification.
    pub fn network_of(&self, version: &str, name: &str, main: &Value, addresses: &Plugin) {
        let mut plugin = main.clone();
        plugin["ipam"] = addresses.configuration["ipam"].clone();
        let list = json!({"cniVersion": version, "name": name, "plugins": [plugin]});
        fs::write(
            self.folder.path().join(format!("net.d/{name}.conflist")),
            list.to_string(),
        )
        .unwrap();
    }

    /// A network whose plugin is this one, with its whole configuration.
    pub fn network_with(&self, name: &str, plugin: &Value) {
        let list = json!({"cniVersion": plugin["cniVersion"], "name": name, "plugins": [plugin]});
        fs::write(
            self.folder.path().join(format!("net.d/{name}.conflist")),
            list.to_string(),
        )
        .unwrap();
    }

    /// A network with this list of plugins, as a file has it.
    pub fn network_list(&self, name: &str, list: &str) {
        let path = self.folder.path().join(format!("net.d/{name}.conflist"));
        fs::write(path, list).unwrap();
    }

    /// A plugin that was started on the node, with this on standard input and these variables.
    pub fn start(&self, name: &str, input: &str, variables: &[(&str, &str)]) -> Child {
        let mut command = self.command(None, &self.folder.path().join("bin").join(name));
        command
            .envs(variables.iter().copied())
            .env("CNI_PATH", self.cni_path());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child
    }

    /// The node's network.
    pub fn own_netns(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holder.id()))
    }

    /// The network of a Pod, for this process: the node's mounts are its own.
    pub fn netns_from_here(&self, pod: &str) -> PathBuf {
        let netns = self.netns(pod);
        let inside = netns.strip_prefix("/").unwrap();
        PathBuf::from(format!("/proc/{}/root", self.holder.id())).join(inside)
    }

    /// `cnitool` for an interface of a Pod.
    pub fn cnitool(&self, verb: &str, network: &str, pod: &str, interface: &str) -> Ran {
        let mut command = self.command(None, self.programs.path(Program::Cnitool).unwrap());
        command.args([verb, network]).arg(self.netns(pod));
        command
            .env("NETCONFPATH", self.folder.path().join("net.d"))
            .env("CNI_IFNAME", interface);
        ran(command.env("CNI_PATH", self.cni_path()))
    }

    /// A plugin by the name that configurations give it, about no attachment.
    pub fn plugin(&self, name: &str, command: &str, configuration: &Value) -> Ran {
        let input = self.folder.path().join("input.json");
        fs::write(&input, configuration.to_string()).unwrap();
        let cni_path = self.cni_path();
        let program = cni_path
            .split(':')
            .map(|folder| Path::new(folder).join(name))
            .find(|path| path.exists());
        let mut plugin = self.command(None, &program.unwrap());
        plugin.env("CNI_COMMAND", command).env("CNI_PATH", cni_path);
        ran(plugin.stdin(fs::File::open(input).unwrap()))
    }

    fn cni_path(&self) -> String {
        let plugins = PLUGINS.map(|plugin| {
            self.programs
                .path(Program::CniPlugin(plugin))
                .unwrap()
                .parent()
                .unwrap()
        });
        let own = self.folder.path().join("bin");
        let folders = std::iter::once(own.as_path()).chain(plugins);
        folders
            .map(|folder| folder.to_str().unwrap())
            .collect::<Vec<_>>()
            .join(":")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.holder.wait();
    }
}

fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}
