//! A cluster of two QEMU guests with the real cilium-agent, in ipam `cluster-pool`.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::agent_nodes::{AgentNode, AgentNodes, SETTINGS};
use testbed::agent_vm::AgentVm;
use testbed::{
    AgentKubelets, AnnotateK8sNode, CiliumInstallation, CiliumVersion, Operator, Options, Program,
    wait_until,
};

use super::server::{Server, node};
use super::support::pool;

pub const VERSION: CiliumVersion = CiliumVersion::V1_19;
pub const NODES: [&str; 2] = ["n1", "n2"];
pub const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
/// A guest's agent compiles, loads and starts with an emulated processor.
const LIMIT: Duration = Duration::from_secs(600);

/// The cluster of both guests. Their agents run, in ipam `cluster-pool`.
pub struct Ground {
    // Dropped in this order.
    _kubelets: AgentKubelets,
    pub nodes: Arc<AgentNodes>,
    pub operator: RefCell<Option<Operator>>,
    pub server: Server,
}

/// What differs from the usual settings of the guests' agents, and a further program in the guests.
#[derive(Default)]
pub struct GroundOptions<'o> {
    pub settings: &'o [(&'o str, &'o str)],
    pub program: Option<&'o Path>,
}

pub fn installation(ipam: &str, settings: &[(&str, &str)]) -> CiliumInstallation {
    let supply = [
        ("cluster-pool-ipv4-cidr", "10.20.0.0/16"),
        ("cluster-pool-ipv4-mask-size", "24"),
    ];
    let own = SETTINGS.into_iter().chain(supply);
    let own = own.chain(settings.iter().copied());
    let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
    CiliumInstallation {
        version: VERSION.release().to_owned(),
        ipam: ipam.to_owned(),
        annotate_k8s_node: Some(AnnotateK8sNode::Off),
        config: own.collect(),
    }
}

pub fn operator(server: &Server, ipam: &str) -> Operator {
    let ipam = format!("--ipam={ipam}");
    let flags: &[&str] = match ipam.as_str() {
        "--ipam=cluster-pool" => &[
            &ipam,
            "--enable-ipv6=false",
            "--cluster-pool-ipv4-cidr=10.20.0.0/16",
            "--cluster-pool-ipv4-mask-size=24",
        ],
        _ => &[&ipam, "--enable-ipv6=false"],
    };
    Operator::start(&server.programs, &server.plane, VERSION, flags).unwrap()
}

impl Ground {
    pub fn start(options: &GroundOptions<'_>) -> Ground {
        let programs = [
            Program::CiliumOperator(VERSION),
            Program::CiliumAgent(VERSION),
            Program::CiliumCni(VERSION),
            Program::NodeSettingsOracle,
        ];
        let server = Server::start(
            &installation("cluster-pool", options.settings),
            None,
            Options::default(),
            &programs,
        );
        let vm = AgentVm::prepare_node(&server.programs, VERSION, options.program).unwrap();
        let operator = operator(&server, "cluster-pool");
        let hostname = |name| node(name, json!({"kubernetes.io/hostname": name}));
        server.nodes(NODES.map(hostname));
        let nodes = AgentNodes::start(&vm, &server.plane, NODES).unwrap();
        for node in &nodes.nodes {
            let addresses = json!([{"type": "InternalIP", "address": node.address()}]);
            let ready = json!([{"type": "Ready", "status": "True"}]);
            let status = json!({"status": {"addresses": addresses, "conditions": ready}});
            let path = format!("/api/v1/nodes/{}/status", node.name());
            server.plane.patch(&path, &status).unwrap();
        }
        let nodes = Arc::new(nodes);
        let ground = Ground {
            _kubelets: AgentKubelets::start(&nodes, &server.plane, &server.programs),
            nodes,
            operator: RefCell::new(Some(operator)),
            server,
        };
        let pool = pool("all", "{cidrs: [10.20.0.0/16], blockSize: 24}");
        ground.server.folder.write("pools/all.yaml", pool);
        for name in NODES {
            ground.await_agent(name);
        }
        ground
    }

    pub fn node(&self, name: &str) -> &AgentNode {
        let mut nodes = self.nodes.nodes.iter();
        nodes.find(|node| node.name() == name).unwrap()
    }

    /// Waits until the agent is ready, and its endpoints have their programs.
    pub fn await_agent(&self, name: &str) {
        let path =
            format!("/api/v1/namespaces/kube-system/pods?fieldSelector=spec.nodeName%3D{name}");
        wait_until(&format!("the agent of {name}"), LIMIT, || {
            let pods = self.server.plane.list(&path)?;
            Ok(pods.iter().any(is_ready).then_some(()))
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", self.log(name)));
        self.node(name).await_endpoints().unwrap();
    }

    fn log(&self, name: &str) -> String {
        let log = self.node(name).agent_log();
        let lines: Vec<&str> = log.lines().rev().take(60).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Creates a Pod on a node, and waits for its address.
    pub fn pod(&self, name: &str, node: &str) -> String {
        let container = json!([{"name": "main", "image": "none"}]);
        let spec =
            json!({"nodeName": node, "containers": container, "terminationGracePeriodSeconds": 5});
        // A drain refuses Pods that nothing would create again.
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "talk", "uid": "talk", "controller": true});
        let metadata = json!({"name": name, "ownerReferences": [owner]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        self.server.plane.create(PODS, &pod).unwrap();
        wait_until(&format!("the address of {name}"), LIMIT, || {
            let pod = self.server.plane.get(&format!("{PODS}/{name}"))?;
            Ok(pod["status"]["podIP"].as_str().map(str::to_owned))
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", self.log(node)))
    }

    pub fn pod_cidrs(&self, name: &str) -> Value {
        let cilium_node = self.server.plane.get(&format!("{CILIUM_NODES}/{name}"));
        cilium_node.unwrap()["spec"]["ipam"]["podCIDRs"].clone()
    }
}

fn is_ready(pod: &Value) -> bool {
    pod["metadata"].get("deletionTimestamp").is_none()
        && pod["status"]["conditions"][0]["status"] == "True"
}
