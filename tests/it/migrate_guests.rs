//! Two nodes with the real cilium-agent, in QEMU guests: their Pods talk while a node gets another
//! block, and while the cluster changes its IPAM mode.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::agent_nodes::{AgentNode, AgentNodes, SETTINGS};
use testbed::agent_vm::AgentVm;
use testbed::{
    AgentKubelets, AnnotateK8sNode, CiliumInstallation, CiliumVersion, Operator, Options, Pings,
    Program, install_cilium, wait_until,
};

use super::server::{Server, node};
use super::support::{pin, pool};

const VERSION: CiliumVersion = CiliumVersion::V1_19;
const NODES: [&str; 2] = ["n1", "n2"];
const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
/// A guest's agent compiles, loads and starts with an emulated processor.
const LIMIT: Duration = Duration::from_secs(600);
/// Ten packets are a second.
const HARMLESS: u32 = 10;

/// The cluster of both guests. Their agents run, in ipam `cluster-pool`.
struct Ground {
    // Dropped in this order.
    _kubelets: AgentKubelets,
    nodes: Arc<AgentNodes>,
    operator: RefCell<Option<Operator>>,
    server: Server,
}

fn installation(ipam: &str) -> CiliumInstallation {
    let supply = [
        ("cluster-pool-ipv4-cidr", "10.20.0.0/16"),
        ("cluster-pool-ipv4-mask-size", "24"),
    ];
    let own = SETTINGS.into_iter().chain(supply);
    let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
    CiliumInstallation {
        version: VERSION.release().to_owned(),
        ipam: ipam.to_owned(),
        annotate_k8s_node: Some(AnnotateK8sNode::Off),
        config: own.collect(),
    }
}

fn operator(server: &Server, ipam: &str) -> Operator {
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
    fn start() -> Ground {
        let programs = [
            Program::CiliumOperator(VERSION),
            Program::CiliumAgent(VERSION),
            Program::CiliumCni(VERSION),
            Program::NodeSettingsOracle,
        ];
        let server = Server::start(
            &installation("cluster-pool"),
            None,
            Options::default(),
            &programs,
        );
        let vm = AgentVm::prepare_node(&server.programs, VERSION).unwrap();
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

    fn node(&self, name: &str) -> &AgentNode {
        let mut nodes = self.nodes.nodes.iter();
        nodes.find(|node| node.name() == name).unwrap()
    }

    /// Waits until the agent is ready, and its endpoints have their programs.
    fn await_agent(&self, name: &str) {
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
    fn pod(&self, name: &str, node: &str) -> String {
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

    fn pod_cidrs(&self, name: &str) -> Value {
        let cilium_node = self.server.plane.get(&format!("{CILIUM_NODES}/{name}"));
        cilium_node.unwrap()["spec"]["ipam"]["podCIDRs"].clone()
    }
}

fn is_ready(pod: &Value) -> bool {
    pod["metadata"].get("deletionTimestamp").is_none()
        && pod["status"]["conditions"][0]["status"] == "True"
}

/// A ping that goes on.
struct Talk<'g> {
    node: &'g AgentNode,
    pod: &'g str,
    address: String,
}

impl<'g> Talk<'g> {
    fn start(ground: &'g Ground, node: &str, pod: &'g str, address: &str) -> Talk<'g> {
        let node = ground.node(node);
        node.start_ping(pod, address).unwrap();
        Talk {
            node,
            pod,
            address: address.to_owned(),
        }
    }

    fn end(&self) -> Pings {
        let pings = self.node.end_ping(self.pod, &self.address).unwrap();
        println!("{} → {}: {pings}", self.pod, self.address);
        assert!(pings.answered() > 0, "{pings}");
        pings
    }

    fn end_unharmed(&self) {
        let pings = self.end();
        assert!(pings.longest_loss() <= HARMLESS, "{pings}");
    }
}

/// What is done to the cluster while its Pods talk.
enum Migration<'m> {
    /// The node gets another block.
    Move { node: &'m str, block: &'m str },
    /// No node gets another block, and all agents read theirs from there.
    Mode(&'m str),
}

fn run_steps(ground: &Ground, migration: &Migration<'_>) {
    let server = &ground.server;
    let apply = ["migrate", "apply", "--auto-approve"];
    match migration {
        Migration::Move { node, block } => {
            server.folder.write("pools/pins.yaml", pin(node, block));
            server.run(&apply).expect(0);
        }
        Migration::Mode(ipam) => {
            server
                .run(&[&apply[..], &["--to-ipam", ipam]].concat())
                .expect(0);
            settle(ground, ipam);
        }
    }
}

/// What the tool says at the end: `cilium-config` and the operator follow the agents.
fn settle(ground: &Ground, ipam: &str) {
    let plane = &ground.server.plane;
    install_cilium(plane, &installation(ipam)).unwrap();
    drop(ground.operator.take());
    ground
        .operator
        .replace(Some(operator(&ground.server, ipam)));
    let configs = "/apis/cilium.io/v2/namespaces/kube-system/ciliumnodeconfigs";
    let ours = format!("{configs}?labelSelector=cilium-ipam.io/migration");
    assert_eq!(plane.list(&ours).unwrap().len(), NODES.len());
    plane.delete(&ours).unwrap();
}

#[test]
#[ignore = "slow: boots QEMU guests; cargo xtask test --agent runs it"]
fn two_guests_ping_each_other() {
    let ground = Ground::start();
    let [a, b] = [("a", "n1"), ("b", "n2")].map(|(pod, node)| ground.pod(pod, node));
    let talks = [
        Talk::start(&ground, "n1", "a", &b),
        Talk::start(&ground, "n2", "b", &a),
        Talk::start(&ground, "n1", "a", "10.20.255.1"),
    ];
    ground.nodes.nodes[0].run("sleep 3").unwrap();
    let [forth, back, nowhere] = talks;
    forth.end_unharmed();
    back.end_unharmed();
    let to_nowhere = nowhere.node.end_ping("a", "10.20.255.1").unwrap();
    assert_eq!(to_nowhere.answered(), 0, "{to_nowhere}");
}

#[test]
#[ignore = "slow: boots QEMU guests; cargo xtask test --agent runs it"]
fn a_node_moves_in_cluster_pool() {
    let ground = Ground::start();
    let before = ground.pod("moved", "n2");
    ground.pod("stays", "n1");
    let neighbour = ground.pod("neighbour", "n1");
    let old = Talk::start(&ground, "n1", "stays", &before);
    let unharmed = [
        Talk::start(&ground, "n1", "stays", &neighbour),
        Talk::start(&ground, "n1", "stays", ground.node("n2").address()),
    ];
    run_steps(
        &ground,
        &Migration::Move {
            node: "n2",
            block: "10.20.50.0/24",
        },
    );
    let after = ground.pod("moved", "n2");
    assert!(after.starts_with("10.20.50."), "{after}");
    assert_eq!(ground.pod_cidrs("n2"), json!(["10.20.50.0/24"]));
    let new = Talk::start(&ground, "n1", "stays", &after);
    ground.node("n1").run("sleep 3").unwrap();
    unharmed.iter().for_each(Talk::end_unharmed);
    let [old, new] = [old, new].map(|talk| talk.end());
    let gap = new.first().unwrap() - old.last().unwrap();
    println!("the moved Pod was away for {:.1} s", gap.as_secs_f64());
    assert!(old.longest_loss() > HARMLESS, "{old}");
    assert!(new.longest_loss() <= HARMLESS, "{new}");
}

#[test]
#[ignore = "slow: boots QEMU guests; cargo xtask test --agent runs it"]
fn cluster_pool_to_kubernetes_and_back() {
    let ground = Ground::start();
    let addresses =
        [("a", "n1"), ("b", "n2"), ("c", "n2")].map(|(pod, node)| ground.pod(pod, node));
    let [a, b, c] = &addresses;
    let blocks = NODES.map(|name| ground.pod_cidrs(name));
    for ipam in ["kubernetes", "cluster-pool"] {
        let talks = [
            Talk::start(&ground, "n1", "a", b),
            Talk::start(&ground, "n2", "b", a),
            Talk::start(&ground, "n2", "b", c),
        ];
        run_steps(&ground, &Migration::Mode(ipam));
        for name in NODES {
            ground.await_agent(name);
        }
        talks.iter().for_each(Talk::end_unharmed);
        assert_eq!(NODES.map(|name| ground.pod_cidrs(name)), blocks);
        for (name, block) in NODES.into_iter().zip(&blocks) {
            let config = ground.node(name).agent_api("config").unwrap();
            let used = &config["status"]["addressing"]["ipv4"]["alloc-range"];
            assert_eq!(used, &block[0], "{name}");
            let said = format!("--ipam='{ipam}'");
            assert!(ground.node(name).agent_log().contains(&said), "{name}");
        }
        // A Pod that comes now gets its address from the same block.
        let fresh = ground.pod(&format!("fresh-{ipam}"), "n2");
        let block = blocks[1][0].as_str().unwrap().trim_end_matches("0/24");
        assert!(fresh.starts_with(block), "{fresh} outside of {block}");
    }
}
