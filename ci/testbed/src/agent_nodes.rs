//! Two nodes: guests with the real cilium-agent that stay up, on one wire, so that Pods of one can
//! reach Pods of the other. Pods are network namespaces that Cilium's own CNI plugin attaches.
//!
//! It knows nothing about pools, plans or migrations: the caller starts and stops the agents, and
//! adds and removes Pods, as a kubelet would.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::agent_vm::AgentVm;
use crate::clang::Clang;
use crate::control_plane::ControlPlane;
use crate::error::{Error, Result};
use crate::folder::RunFolder;
use crate::guest::{Answer, Shell};
use crate::ping::Pings;
use crate::process::Server;
use crate::vm::{HOST, HOST_IN_GUEST, read, scripts};
use crate::wait::PATIENCE;

/// Settings of every agent, as in `cilium-config`: Pods reach each other by routes on the wire, and
/// features that neither addresses nor routes require are off.
pub const SETTINGS: [(&str, &str); 13] = [
    ("routing-mode", "native"),
    ("ipv4-native-routing-cidr", "10.0.0.0/8"),
    ("enable-ipv4-masquerade", "false"),
    ("auto-direct-node-routes", "true"),
    ("devices", "eth1"),
    ("enable-hubble", "false"),
    ("enable-health-checking", "false"),
    ("enable-endpoint-health-checking", "false"),
    ("kube-proxy-replacement", "false"),
    ("enable-l7-proxy", "false"),
    ("enable-k8s-networkpolicy", "false"),
    ("enable-ipv4", "true"),
    ("enable-ipv6", "false"),
];
const TOOL: &str = "/agent/node";
/// The line that `node.sh` writes to the agent's log before it starts the agent.
const START_MARK: &str = "node: the agent starts";
/// Log message of an agent that has started.
const STARTED: &str = "Daemon initialization completed";
/// Number of the last log lines that show why an agent has ended.
const LOG_TAIL: usize = 20;

/// Both nodes of a wire. Dropping this value stops the guests.
#[derive(Debug)]
pub struct AgentNodes {
    /// The first has 192.0.2.1 on the wire, the second 192.0.2.2.
    pub nodes: [AgentNode; 2],
    _clang: Clang,
}

/// A node of the wire.
#[derive(Debug)]
pub struct AgentNode {
    name: String,
    address: String,
    // Dropped in this order.
    shell: Shell,
    folder: RunFolder,
}

/// A Pod as its container runtime knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodName<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name. It is the name of the network namespace, too.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

impl AgentNodes {
    /// Boots the guests, and waits until both take commands. No agent runs yet.
    ///
    /// # Errors
    /// Fails if a guest does not come up.
    pub fn start(vm: &AgentVm, plane: &ControlPlane, names: [&str; 2]) -> Result<Self> {
        let clang = Clang::start(&vm.cache().join("guest"))?;
        let folders = [RunFolder::new()?, RunFolder::new()?];
        let [first, second] = &folders;
        let paths = [[first, second], [second, first]].map(|pair| pair.map(RunFolder::path));
        let shells = [
            boot(vm, &Input::new(plane, &clang, names[0], 1)?, paths[0])?,
            boot(vm, &Input::new(plane, &clang, names[1], 2)?, paths[1])?,
        ];
        let mut parts = shells.into_iter().zip(folders).zip(names).enumerate();
        let mut node = || {
            let (index, ((shell, folder), name)) = parts.next()?;
            Some(AgentNode {
                name: name.to_owned(),
                address: address(index + 1),
                shell,
                folder,
            })
        };
        let (Some(first), Some(second)) = (node(), node()) else {
            return Err(Error::unreadable("the guests", "they are not two"));
        };
        first.shell.await_ready()?;
        second.shell.await_ready()?;
        Ok(Self {
            nodes: [first, second],
            _clang: clang,
        })
    }
}

fn address(number: usize) -> String {
    format!("192.0.2.{number}")
}

/// Number and files of a guest.
struct Input {
    number: usize,
    /// Files by their names.
    files: [(&'static str, String); 4],
}

impl Input {
    fn new(plane: &ControlPlane, clang: &Clang, name: &str, number: usize) -> Result<Self> {
        let kubeconfig = read(plane.kubeconfig())?.replace(HOST, HOST_IN_GUEST);
        let files = [
            ("kubeconfig", kubeconfig),
            ("node", name.to_owned()),
            ("address", format!("{}/24", address(number))),
            ("compiler", clang.port().to_string()),
        ];
        Ok(Self { number, files })
    }
}

/// Boots one guest; `paths` are its folder and the other's.
fn boot(vm: &AgentVm, input: &Input, paths: [&Path; 2]) -> Result<Shell> {
    let [own, peer] = paths;
    let folder = own.join("input");
    fs::create_dir(&folder).map_err(Error::file(&folder))?;
    for (file, text) in &input.files {
        let path = folder.join(file);
        fs::write(&path, text).map_err(Error::file(&path))?;
    }
    let mac = format!("52:54:00:00:00:{:02x}", input.number);
    let [cache, own_text, peer_text] =
        [vm.cache(), own, peer].map(|path| path.display().to_string());
    let arguments = [cache, vm.disk(), own_text, peer_text, mac];
    let qemu = Server::start("guest", &scripts().join("boot-node.sh"), &arguments, own)?;
    Shell::connect(qemu, &own.join("orders.sock"))
}

impl AgentNode {
    /// The Node that its agent takes itself for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address on the wire.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Runs a line of shell in the guest.
    ///
    /// # Errors
    /// Fails if the guest does not answer in time, or ends.
    pub fn run(&self, command: &str) -> Result<Answer> {
        self.shell.run_within(PATIENCE, command)
    }

    /// Starts the agent with these settings, the entries of its `cilium-config`.
    ///
    /// # Errors
    /// Fails if the guest does not answer.
    pub fn start_agent(&self, settings: &BTreeMap<String, String>) -> Result<()> {
        let words: Vec<String> = settings
            .iter()
            .map(|(key, value)| format!("'{key}={value}'"))
            .collect();
        self.order("start", &words.join(" ")).map(drop)
    }

    /// Whether the agent is healthy, and its start is over.
    ///
    /// # Errors
    /// Fails if it has ended; with its log.
    pub fn agent_is_ready(&self) -> Result<bool> {
        // The log comes without a program in the guest, whose processor is slow.
        let log = self.agent_log();
        let this_start = log.rsplit_once(START_MARK).map_or("", |(_, rest)| rest);
        // Health alone comes too early.
        if this_start.contains(STARTED) {
            return Ok(self.run(&format!("{TOOL} api healthz -f"))?.code == 0);
        }
        match self.run(&format!("{TOOL} runs"))?.code {
            0 => Ok(false),
            _ => Err(Error::Failed {
                program: format!("the agent of {}", self.name),
                stderr: self.agent_log_tail(),
            }),
        }
    }

    /// Ends the agent, as a kubelet ends a Pod. The datapath stays.
    ///
    /// # Errors
    /// Fails if the guest does not answer.
    pub fn stop_agent(&self) -> Result<()> {
        self.order("stop", "").map(drop)
    }

    /// Waits until the programs of all endpoints are loaded.
    ///
    /// # Errors
    /// Fails if they are not in time; with the agent's log.
    pub fn await_endpoints(&self) -> Result<()> {
        // The guest counts seconds by its own, slow, processor.
        let seconds = PATIENCE.as_secs() / 2;
        match self.order("settle", &seconds.to_string()) {
            Err(Error::Failed { .. }) => Err(Error::Failed {
                program: format!("the endpoints of {}", self.name),
                stderr: self.agent_log_tail(),
            }),
            other => other.map(drop),
        }
    }

    /// Asks the agent's own API, by GET.
    ///
    /// # Errors
    /// Fails if there is no answer of JSON.
    pub fn agent_api(&self, path: &str) -> Result<Value> {
        let answer = self.order("api", path)?;
        serde_json::from_str(&answer)
            .map_err(|why| Error::unreadable(format!("the agent's {path}"), why))
    }

    /// Gives a Pod its network; returns its address.
    ///
    /// # Errors
    /// Fails if the CNI plugin does.
    pub fn add_pod(&self, pod: PodName<'_>) -> Result<String> {
        let answer = self.order("add", &pod.words())?;
        let result: Value = serde_json::from_str(&answer)
            .map_err(|why| Error::unreadable("the CNI plugin's answer", why))?;
        let address = result["ips"][0]["address"].as_str().unwrap_or_default();
        match address.split_once('/') {
            Some((address, _)) => Ok(address.to_owned()),
            None => Err(Error::unreadable("the CNI plugin's answer", answer)),
        }
    }

    /// Takes its network from a Pod.
    ///
    /// # Errors
    /// Fails if the CNI plugin does.
    pub fn delete_pod(&self, pod: PodName<'_>) -> Result<()> {
        self.order("del", &pod.words()).map(drop)
    }

    /// Starts a ping from a Pod, ten packets a second, which goes on until [`Self::end_ping`].
    ///
    /// # Errors
    /// Fails if the guest does not answer.
    pub fn start_ping(&self, pod: &str, address: &str) -> Result<()> {
        self.order("ping", &format!("{pod} {pod}-{address} {address}"))
            .map(drop)
    }

    /// Ends it, and gives what it saw.
    ///
    /// # Errors
    /// Fails if the guest does not answer, or the ping's output is not understood.
    pub fn end_ping(&self, pod: &str, address: &str) -> Result<Pings> {
        Pings::read(&self.order("pong", &format!("{pod}-{address}"))?)
    }

    /// The agent's log, of all its starts.
    #[must_use]
    pub fn agent_log(&self) -> String {
        read(&self.folder.path().join("agent.log")).unwrap_or_default()
    }

    fn agent_log_tail(&self) -> String {
        let log = self.agent_log();
        let lines: Vec<&str> = log.lines().rev().take(LOG_TAIL).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// A verb of `node.sh`, which must succeed; gives its output.
    fn order(&self, verb: &str, arguments: &str) -> Result<String> {
        let answer = self.run(&format!("{TOOL} {verb} {arguments}"))?;
        if answer.code == 0 {
            return Ok(answer.stdout);
        }
        Err(Error::Failed {
            program: format!("`{verb} {arguments}` on {}", self.name),
            stderr: format!("{}{}", answer.stdout, answer.stderr),
        })
    }
}

impl PodName<'_> {
    fn words(&self) -> String {
        let Self {
            namespace,
            name,
            uid,
        } = self;
        format!("{name} {namespace} {uid}")
    }
}
