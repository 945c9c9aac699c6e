//! The real cilium-agent, in a QEMU guest of its own kernel, against a control plane on
//! this machine's loopback: which pod CIDR does it use?
//!
//! The scripts in `ci/agent-vm` make the guest and boot it; this module chooses what to run and
//! reads the results. It requires Debian's apt, but neither root nor KVM. It knows nothing of pools
//! or plans: the caller writes the Node before, and reads the CiliumNode after.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::control_plane::ControlPlane;
use crate::error::{Error, Result};
use crate::folder::RunFolder;
use crate::golang::source_folder;
use crate::oracle::AnnotateK8sNode;
use crate::process::Server;
use crate::programs::{CiliumVersion, Program, Programs};
use crate::relay::Relay;
use crate::routers;
use crate::vm::{HOST, HOST_IN_GUEST, cache, lock, read, script, scripts};

/// The agent compiles its datapath from here, in the guest.
const MODULE: &str = "github.com/cilium/cilium";
/// Where `boot.sh` puts it.
const AGENT_LOG: &str = "agent.log";
/// The agent alone is ready 12 to 40 s after its start on two shared cores.
const USUAL_LIMIT: Duration = Duration::from_secs(180);
/// For the guest's own boot, its last questions and its end; 10 s on a free machine.
const BOOT_ALLOWANCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What every run has in common: pod CIDRs come from the Node, and as little datapath as
/// the agent lets itself be started with.
const FLAGS: [&str; 18] = [
    "--ipam=kubernetes",
    "--k8s-require-ipv4-pod-cidr=true",
    "--enable-ipv4=true",
    "--enable-ipv6=false",
    "--cluster-name=default",
    "--cluster-id=0",
    "--routing-mode=native",
    "--ipv4-native-routing-cidr=10.0.0.0/8",
    "--enable-ipv4-masquerade=false",
    "--auto-direct-node-routes=false",
    "--devices=eth0",
    "--identity-allocation-mode=crd",
    "--enable-hubble=false",
    "--enable-health-checking=false",
    "--enable-endpoint-health-checking=false",
    "--kube-proxy-replacement=false",
    "--enable-l7-proxy=false",
    "--enable-k8s-networkpolicy=false",
];
/// Newer releases do not know these any more, and end on a flag that they do not know.
const FLAGS_OF_1_15: [&str; 5] = [
    "--enable-wireguard=false",
    "--enable-node-port=false",
    "--enable-unreachable-routes=false",
    "--enable-l2-neigh-discovery=false",
    "--enable-bandwidth-manager=false",
];

/// A guest that is ready to be booted with one release of the agent.
#[derive(Debug)]
pub struct AgentVm {
    version: CiliumVersion,
    /// Names the agent's disk in the cache.
    disk: String,
    cache: PathBuf,
}

/// What one boot of the guest does.
#[derive(Debug, Clone)]
pub struct AgentRun {
    /// The agent's Node. Its addresses should include an `InternalIP`.
    pub node: String,
    /// The agent's option of that name.
    pub annotate_k8s_node: AnnotateK8sNode,
    /// How long the agent may take from its start until it is ready.
    pub limit: Duration,
    /// More flags for the agent. They override the default flags.
    pub flags: Vec<String>,
    /// Whether a router stands beside the guest.
    pub router: RouterBeside,
}

/// A router beside the guest, at 192.0.2.254 on a second NIC of the guest, which has 192.0.2.1. It
/// is of AS 65000 and peers with AS 65001.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterBeside {
    /// A router runs beside the guest.
    Frr,
    /// The guest has no router.
    None,
}

impl AgentRun {
    /// A run as `node`, with the usual limit and no flags of its own.
    #[must_use]
    pub fn new(node: &str, annotate_k8s_node: AnnotateK8sNode) -> Self {
        Self {
            node: node.to_owned(),
            annotate_k8s_node,
            limit: USUAL_LIMIT,
            flags: Vec::new(),
            router: RouterBeside::None,
        }
    }
}

/// How far the agent came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentOutcome {
    /// It is healthy, and its start is over.
    Ready,
    /// It still ran when the limit was reached: it waits for something.
    Waiting,
    /// It ended by itself, with this status.
    Exited(String),
}

/// What came out of one run.
#[derive(Debug, Clone)]
pub struct AgentReport {
    /// How far the agent came. Nothing below is known unless it was ready.
    pub outcome: AgentOutcome,
    /// The ranges that the agent says it allocates pods from.
    pub pod_cidrs_used: Vec<String>,
    /// Addresses that it gave out when asked as a CNI plugin asks; three per family.
    pub pod_ips: Vec<String>,
    /// What the router beside the guest last held, as FRR's `show bgp ipv4 unicast json` prints it.
    pub route_dump: Option<String>,
    /// What the guest said on its console.
    pub console: String,
    /// The agent's own log.
    pub log: String,
}

impl AgentVm {
    /// Makes the guest with the agent of `version`, or finds it made. The first time it
    /// fetches QEMU and the guest's programs.
    ///
    /// # Errors
    /// Fails if [`Program::CiliumAgent`] of that version was not built, or a script fails.
    pub fn prepare(programs: &Programs, version: CiliumVersion) -> Result<Self> {
        Self::with_programs(programs, version, version.release().to_owned(), &[])
    }

    /// Makes the guest of [`AgentNodes`](crate::agent_nodes::AgentNodes), which has Cilium's CNI
    /// plugin and perhaps another program beside the agent.
    ///
    /// # Errors
    /// Fails if [`Program::CiliumAgent`] or [`Program::CiliumCni`] of that version was not built,
    /// or a script fails.
    pub fn prepare_node(
        programs: &Programs,
        version: CiliumVersion,
        other: Option<&Path>,
    ) -> Result<Self> {
        let name = other.and_then(|path| path.file_name()?.to_str());
        let disk = format!("{}-{}", version.release(), name.unwrap_or("node"));
        let plugin = programs.path(Program::CiliumCni(version))?;
        let more: Vec<&Path> = [plugin].into_iter().chain(other).collect();
        Self::with_programs(programs, version, disk, &more)
    }

    fn with_programs(
        programs: &Programs,
        version: CiliumVersion,
        disk: String,
        more: &[&Path],
    ) -> Result<Self> {
        let agent = programs.path(Program::CiliumAgent(version))?;
        let datapath = source_folder(MODULE, version.release())?.join("bpf");
        let cache = cache();
        let _lock = lock(&cache)?;
        let start = Instant::now();
        script("prep.sh", &[&cache])?;
        let image: [&Path; 4] = [&cache, Path::new(&disk), agent, &datapath];
        script("mkimg.sh", &[&image, more].concat())?;
        let seconds = start.elapsed().as_secs();
        eprintln!("testbed: the guest of cilium-agent {disk} was there after {seconds} s");
        Ok(Self {
            version,
            disk,
            cache,
        })
    }

    /// Where disks are kept.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// What `boot-node.sh` calls the agent's disk.
    pub(crate) fn disk(&self) -> String {
        self.disk.clone()
    }

    /// Boots the guest, waits until its agent is ready or the limit is reached, and ends it.
    ///
    /// # Errors
    /// Fails if the guest does not come up, or does not end in time.
    pub fn run(&self, plane: &ControlPlane, run: &AgentRun) -> Result<AgentReport> {
        self.start(plane, run)?.wait()
    }

    /// Boots the guest and returns at once, so that the caller can change the cluster
    /// while the agent runs.
    ///
    /// # Errors
    /// Fails if the guest's input cannot be written.
    pub fn start(&self, plane: &ControlPlane, run: &AgentRun) -> Result<RunningAgent> {
        let folder = RunFolder::new()?;
        if run.router == RouterBeside::Frr {
            routers::prepare()?;
        }
        self.write_input(folder.path(), plane, run)?;
        let arguments = [&self.cache, Path::new(&self.disk), folder.path()]
            .map(|argument: &Path| argument.display().to_string());
        let boot = scripts().join("boot.sh");
        let (guest, relay) = match run.router {
            RouterBeside::None => (
                Server::start("guest", &boot, &arguments, folder.path())?,
                None,
            ),
            RouterBeside::Frr => {
                let relay = Relay::start(&folder.path().join("api.sock"), plane.server_url())?;
                fs::write(folder.path().join("api.port"), relay.port())
                    .map_err(Error::file(folder.path()))?;
                let (script, cache) = routers::beside();
                let own = [
                    cache.display().to_string(),
                    folder.path().display().to_string(),
                    boot.display().to_string(),
                ];
                let arguments: Vec<String> = own.into_iter().chain(arguments).collect();
                (
                    Server::start("guest", &script, &arguments, folder.path())?,
                    Some(relay),
                )
            }
        };
        Ok(RunningAgent {
            guest,
            limit: run.limit + BOOT_ALLOWANCE,
            folder,
            _relay: relay,
        })
    }

    /// What `boot.sh` hands to the guest.
    fn write_input(&self, folder: &Path, plane: &ControlPlane, run: &AgentRun) -> Result<()> {
        let input = folder.join("input");
        fs::create_dir(&input).map_err(Error::file(&input))?;
        let kubeconfig = read(plane.kubeconfig())?.replace(HOST, HOST_IN_GUEST);
        let AgentRun { node, limit, .. } = run;
        let flags = self.flags(run).join("\n");
        let router = match run.router {
            RouterBeside::Frr => Some(("router", "192.0.2.1/24\n".to_owned())),
            RouterBeside::None => None,
        };
        for (name, text) in [
            ("kubeconfig", kubeconfig),
            ("node", node.clone()),
            ("limit", limit.as_secs().to_string()),
            ("flags", format!("{flags}\n")),
        ]
        .into_iter()
        .chain(router)
        {
            let path = input.join(name);
            fs::write(&path, text).map_err(Error::file(&path))?;
        }
        Ok(())
    }

    fn flags(&self, run: &AgentRun) -> Vec<String> {
        let of_version = match self.version {
            CiliumVersion::V1_15 => FLAGS_OF_1_15.as_slice(),
            _ => &[],
        };
        let mut flags: Vec<_> = FLAGS
            .iter()
            .chain(of_version)
            .map(|&flag| flag.to_owned())
            .collect();
        let annotate = run.annotate_k8s_node.as_str();
        flags.push(format!("--annotate-k8s-node={annotate}"));
        flags.extend(run.flags.iter().cloned());
        flags
    }
}

/// A guest that was booted. Dropping it ends it.
#[derive(Debug)]
pub struct RunningAgent {
    // Dropped in this order.
    guest: Server,
    limit: Duration,
    folder: RunFolder,
    _relay: Option<Relay>,
}

impl RunningAgent {
    /// The agent's log so far; empty until it has started.
    #[must_use]
    pub fn log(&self) -> String {
        read(&self.folder.path().join(AGENT_LOG)).unwrap_or_default()
    }

    /// Waits until the guest has powered itself off.
    ///
    /// # Errors
    /// Fails if the guest did not come up, or does not end in time.
    pub fn wait(mut self) -> Result<AgentReport> {
        let start = Instant::now();
        while self.guest.check_running().is_ok() {
            if start.elapsed() > self.limit {
                return Err(Error::Timeout {
                    what: "the guest to power off".to_owned(),
                    waited: self.limit,
                    detail: format!("; its console:\n{}", read(self.guest.log())?),
                });
            }
            std::thread::sleep(LOOK_EVERY);
        }
        read_report(self.folder.path(), read(self.guest.log())?)
    }
}

/// The files that `boot.sh` left, in the format that `guest-init.sh` writes.
fn read_report(folder: &Path, console: String) -> Result<AgentReport> {
    let text = read(&folder.join("report")).unwrap_or_default();
    let all = |key: &str| -> Vec<String> {
        let values = text.lines().filter_map(|line| line.split_once(' '));
        let ours = values.filter(|(found, _)| *found == key);
        ours.map(|(_, value)| value.to_owned()).collect()
    };
    let outcome = match all("outcome").first().map(String::as_str) {
        Some("ready") => AgentOutcome::Ready,
        Some("waiting") => AgentOutcome::Waiting,
        Some(ended) => AgentOutcome::Exited(ended.trim_start_matches("exited ").to_owned()),
        None => {
            let program = "the guest".to_owned();
            return Err(Error::Failed {
                program,
                stderr: console,
            });
        }
    };
    Ok(AgentReport {
        outcome,
        pod_cidrs_used: all("pod-cidr"),
        pod_ips: all("pod-ip"),
        route_dump: fs::read_to_string(folder.join("rib.json")).ok(),
        console,
        log: read(&folder.join(AGENT_LOG))?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::{Options, build, install_crds, wait_until};

    const KEYS: [&str; 2] = [
        "network.cilium.io/ipv4-pod-cidr",
        "io.cilium.network.ipv4-pod-cidr",
    ];

    #[test]
    fn a_report_is_read_key_by_key() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("agent.log"), "up").unwrap();
        let report = |text: &str| {
            fs::write(folder.path().join("report"), text).unwrap();
            read_report(folder.path(), String::new())
        };
        let ready = report("kernel 6.1\noutcome ready\npod-cidr 10.0.0.0/24\npod-ip 10.0.0.7\n");
        let ready = ready.unwrap();
        assert_eq!(ready.outcome, AgentOutcome::Ready);
        assert_eq!(ready.pod_cidrs_used, ["10.0.0.0/24"]);
        assert_eq!(ready.pod_ips, ["10.0.0.7"]);
        let waiting = report("outcome waiting\n").unwrap();
        assert_eq!(waiting.outcome, AgentOutcome::Waiting);
        let ended = report("outcome exited 1\n").unwrap();
        assert_eq!(ended.outcome, AgentOutcome::Exited("1".to_owned()));
        assert!(report("kernel 6.1\n").is_err());
    }

    struct Cluster {
        plane: ControlPlane,
        vm: AgentVm,
    }

    impl Cluster {
        /// With the Node `n1`.
        fn with(node: &Value) -> Self {
            let version = CiliumVersion::V1_15;
            let agent = Program::CiliumAgent(version);
            let programs = build(&[Program::KubeApiserver, Program::Etcd, agent]).unwrap();
            let vm = AgentVm::prepare(&programs, version).unwrap();
            let plane = ControlPlane::start(&programs, Options::default()).unwrap();
            install_crds(&plane, version.release()).unwrap();
            plane.create("/api/v1/nodes", node).unwrap();
            let address = json!([{"type": "InternalIP", "address": "10.0.2.15"}]);
            let status = json!({"status": {"addresses": address}});
            plane.patch("/api/v1/nodes/n1/status", &status).unwrap();
            Self { plane, vm }
        }

        fn start(&self, annotate: AnnotateK8sNode) -> RunningAgent {
            let run = AgentRun::new("n1", annotate);
            self.vm.start(&self.plane, &run).unwrap()
        }

        fn cilium_node(&self) -> Result<Value> {
            self.plane.get("/apis/cilium.io/v2/ciliumnodes/n1")
        }

        /// The agent says `block`, gives out of it, and writes it into its CiliumNode.
        fn assert_uses(&self, block: &str, report: &AgentReport) {
            assert_eq!(report.outcome, AgentOutcome::Ready, "{}", report.console);
            assert_eq!(report.pod_cidrs_used, [block]);
            let start = block.trim_end_matches("0/24");
            assert_eq!(report.pod_ips.len(), 3);
            assert!(
                report.pod_ips.iter().all(|ip| ip.starts_with(start)),
                "{:?}",
                report.pod_ips
            );
            let written = self.cilium_node().unwrap();
            assert_eq!(written["spec"]["ipam"]["podCIDRs"], json!([block]));
        }
    }

    fn annotated(block: &str) -> Value {
        let annotations: BTreeMap<_, _> = KEYS.map(|key| (key, block)).into();
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "n1", "annotations": annotations}})
    }

    fn spec(block: &str) -> Value {
        json!({"spec": {"podCIDR": block, "podCIDRs": [block]}})
    }

    #[test]
    #[ignore = "slow: boots a QEMU guest; cargo xtask test --agent runs it"]
    fn an_agent_that_may_uses_the_annotations() {
        let cluster = Cluster::with(&annotated("10.20.30.0/24"));
        let report = cluster.start(AnnotateK8sNode::On).wait().unwrap();
        cluster.assert_uses("10.20.30.0/24", &report);
    }

    #[test]
    #[ignore = "slow: boots a QEMU guest; cargo xtask test --agent runs it"]
    fn an_agent_uses_the_spec_of_its_node() {
        let mut node = spec("10.88.1.0/24");
        node["metadata"]["name"] = json!("n1");
        let cluster = Cluster::with(&node);
        let report = cluster.start(AnnotateK8sNode::On).wait().unwrap();
        cluster.assert_uses("10.88.1.0/24", &report);
    }

    #[test]
    #[ignore = "slow: boots a QEMU guest; cargo xtask test --agent runs it"]
    fn an_agent_that_may_not_use_annotations_waits_for_the_spec() {
        let cluster = Cluster::with(&annotated("10.20.30.0/24"));
        let agent = cluster.start(AnnotateK8sNode::Off);
        wait_until("the agent to wait", USUAL_LIMIT, || {
            let waits = agent.log().contains("required IPv4 PodCIDR not available");
            Ok(waits.then_some(()))
        })
        .unwrap();
        assert_eq!(cluster.cilium_node().unwrap_err().status(), Some(404));
        let late = spec("10.88.4.0/24");
        cluster.plane.patch("/api/v1/nodes/n1", &late).unwrap();
        let report = agent.wait().unwrap();
        cluster.assert_uses("10.88.4.0/24", &report);
    }
}
