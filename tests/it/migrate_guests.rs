//! Two nodes with the real cilium-agent, in QEMU guests: their Pods talk while a node gets another
//! block, and while the cluster changes its IPAM mode.

use serde_json::json;
use testbed::agent_nodes::AgentNode;
use testbed::{Pings, install_cilium};

use super::cilium_guests::{Ground, GroundOptions, NODES, installation, operator};
use super::support::pin;

/// Ten packets are a second.
const HARMLESS: u32 = 10;

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
    install_cilium(plane, &installation(ipam, &[])).unwrap();
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
    let ground = Ground::start(&GroundOptions::default());
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
    let ground = Ground::start(&GroundOptions::default());
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
    let ground = Ground::start(&GroundOptions::default());
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
        assert!(fresh.starts_with(block), "{fresh} outside {block}");
    }
}
