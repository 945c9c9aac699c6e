//! Nodes of one flat pool move to a pool for each rack, and back, on a real control plane with real
//! controllers: with kills, refusing budgets and failing gates.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use testbed::{
    AnnotateK8sNode, CiliumVersion, Client, Ending, KubeletKind, PlayedIpam, RackCluster,
    RackOptions,
};

use super::support::{Folder, Ran, TextAssertions, args, policy, pool, program};

const RACKS: [(&str, &str); 3] = [
    ("r0", "10.10.64.0/18"),
    ("r1", "10.10.128.0/18"),
    ("r2", "10.10.192.0/18"),
];

/// Fields of a Node that belong to people: they must never change.
fn kept(node: &Value) -> Value {
    let is_ours = |key: &str| {
        key.starts_with("cilium-ipam.io/")
            || key.contains("cilium.io/")
            || key.starts_with("io.cilium")
            || key.starts_with("node.alpha.kubernetes.io/")
            || key.starts_with("volumes.kubernetes.io/")
    };
    let annotations: BTreeMap<&String, &Value> = node["metadata"]["annotations"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !is_ours(key))
        .collect();
    let taints: Vec<&Value> = node["spec"]["taints"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|taint| {
            !taint["key"]
                .as_str()
                .unwrap()
                .starts_with("node.kubernetes.io/")
        })
        .collect();
    json!([
        node["metadata"]["labels"],
        annotations,
        taints,
        node["spec"]["providerID"]
    ])
}

/// Looks at the cluster all the time, and notes what it must never show.
struct Watching {
    ends: Arc<AtomicBool>,
    faults: Arc<Mutex<Vec<String>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watching {
    fn start(client: Client, before: BTreeMap<String, Value>) -> Watching {
        let (ends, faults) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Mutex::new(Vec::new())),
        );
        let (stop, noted) = (ends.clone(), faults.clone());
        let thread = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let found = look(&client, &before);
                noted.lock().unwrap().extend(found);
            }
        });
        Watching {
            ends,
            faults,
            thread: Some(thread),
        }
    }

    fn faults(mut self) -> Vec<String> {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        let mut faults = std::mem::take(&mut *self.faults.lock().unwrap());
        faults.sort();
        faults.dedup();
        faults
    }
}

fn look(client: &Client, before: &BTreeMap<String, Value>) -> Vec<String> {
    let mut faults = Vec::new();
    for node in client.list("/api/v1/nodes").unwrap() {
        let name = node["metadata"]["name"].as_str().unwrap();
        if kept(&node) != before[name] {
            faults.push(format!("{name} became {}", kept(&node)));
        }
    }
    let budgets = client.list("/apis/policy/v1/poddisruptionbudgets").unwrap();
    for budget in budgets {
        let status = &budget["status"];
        let (healthy, desired) = (&status["currentHealthy"], &status["desiredHealthy"]);
        if healthy.as_i64() < desired.as_i64() {
            faults.push(format!("budget {}: {status}", budget["metadata"]["name"]));
        }
    }
    faults
}

struct Ground {
    cluster: RackCluster,
    folder: Folder,
    before: BTreeMap<String, Value>,
}

impl Ground {
    fn start(options: &RackOptions, further: &str) -> Ground {
        let cluster = RackCluster::start(options).unwrap();
        let folder = Folder::new(&[]);
        let pools = RACKS.map(|(rack, cidr)| {
            let spec = format!(
                "{{cidrs: [{cidr}], blockSize: 24, nodeSelector: {{matchLabels: {{rack: {rack}}}}}}}"
            );
            pool(rack, &spec)
        });
        let policy = policy(&format!("{{limits: {{failureDomain: rack}}{further}}}"));
        folder.write(
            "pools/all.yaml",
            [pools.join("---\n"), policy].join("---\n"),
        );
        let mut ground = Ground {
            cluster,
            folder,
            before: BTreeMap::new(),
        };
        ground.adorn();
        ground.show_controller_manager();
        ground
    }

    /// The process runs beside the cluster. Its Pod tells that it gives Nodes no blocks.
    fn show_controller_manager(&self) {
        let command = ["kube-controller-manager", "--allocate-node-cidrs=false"];
        let pod = json!({
            "metadata": {"name": "kube-controller-manager", "labels": {"component": "kube-controller-manager"}},
            "spec": {"schedulerName": "none", "containers": [{"name": "c", "image": "c", "command": command}]},
        });
        let pods = "/api/v1/namespaces/kube-system/pods";
        self.cluster.plane.create(pods, &pod).unwrap();
    }

    /// Gives nodes what people give them.
    fn adorn(&mut self) {
        let plane = &self.cluster.plane;
        for (index, node) in plane.list("/api/v1/nodes").unwrap().iter().enumerate() {
            let name = node["metadata"]["name"].as_str().unwrap();
            let mut taints = node["spec"]["taints"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            if index % 4 == 0 {
                taints.push(json!({"key": "team", "value": "db", "effect": "PreferNoSchedule"}));
            }
            let patch = json!({
                "metadata": {
                    "labels": {"owner": format!("team-{index}")},
                    "annotations": {"note": format!("machine {index}")},
                },
                "spec": {"taints": taints},
            });
            plane
                .patch(&format!("/api/v1/nodes/{name}"), &patch)
                .unwrap();
        }
        let nodes = plane.list("/api/v1/nodes").unwrap();
        self.before = nodes
            .iter()
            .map(|node| {
                (
                    node["metadata"]["name"].as_str().unwrap().to_owned(),
                    kept(node),
                )
            })
            .collect();
    }

    fn watching(&self) -> Watching {
        let client = Client::of_kubeconfig(self.cluster.plane.kubeconfig()).unwrap();
        Watching::start(client, self.before.clone())
    }

    fn arguments<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let kubeconfig = self.cluster.plane.kubeconfig().to_str().unwrap();
        [arguments, &["--kubeconfig", kubeconfig, "--no-input"]].concat()
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.folder.run(&self.arguments(arguments))
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = program(self.folder.path(), &self.arguments(arguments));
        command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Kills the program after this many lines of progress. Its exit code, if it ended before.
    fn run_killed(&self, arguments: &[&str], lines: usize) -> Option<i32> {
        let mut child = self.spawn(arguments);
        let mut reader = BufReader::new(child.stderr.take().unwrap()).lines();
        for _ in 0..lines {
            if reader.next().is_none() {
                return Some(child.wait().unwrap().code().unwrap());
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        None
    }

    fn has_begun(&self) -> bool {
        let maps = "/api/v1/namespaces/kube-system/configmaps";
        let maps = self.cluster.plane.list(maps).unwrap();
        maps.iter()
            .any(|map| map["metadata"]["name"] == "cilium-ipam-migration")
    }

    fn blocks(&self) -> BTreeMap<String, String> {
        let uses = self.cluster.agents.blocks();
        uses.into_iter()
            .map(|(node, block)| (node, block.to_string()))
            .collect()
    }

    /// Every agent uses a block of its rack, and nothing is left of the migration.
    fn expect_in_racks(&self) {
        let blocks = self.blocks();
        let nodes = self.cluster.plane.list("/api/v1/nodes").unwrap();
        for node in &nodes {
            let name = node["metadata"]["name"].as_str().unwrap();
            let rack = node["metadata"]["labels"]["rack"].as_str().unwrap();
            let index: u8 = rack.trim_start_matches('r').parse().unwrap();
            let third: u8 = blocks[name].split('.').nth(2).unwrap().parse().unwrap();
            let first = 64 * (index + 1);
            assert!(
                (first..=first + 63).contains(&third),
                "{name} in {rack} has {}: {:?}",
                blocks[name],
                self.cluster.agents.uses()
            );
        }
        self.expect_clean();
        let plan = self.run(&["plan", "-o", "json"]).expect(0).json();
        assert_eq!(plan["misplaced"], json!([]));
        assert_eq!(plan["changes"], json!([]));
    }

    fn expect_clean(&self) {
        for node in self.cluster.plane.list("/api/v1/nodes").unwrap() {
            let annotations = &node["metadata"]["annotations"];
            assert_eq!(annotations["cilium-ipam.io/migration"], Value::Null);
            assert!(
                node["spec"]["unschedulable"].is_null(),
                "{}",
                node["metadata"]["name"]
            );
        }
        assert_eq!(self.cluster.agents.faults(), []);
    }
}

fn kubernetes() -> PlayedIpam {
    PlayedIpam::Kubernetes(AnnotateK8sNode::Off)
}

const APPLY: [&str; 3] = ["migrate", "apply", "--auto-approve"];
const PARALLEL: &str = ", migration: {maxUnavailable: 2}";

fn moves_to_racks_and_back(options: &RackOptions, policy: &str, more: &[&str]) {
    let ground = Ground::start(options, policy);
    let before = ground.blocks();
    let watching = ground.watching();
    let plan = ground
        .run(&["migrate", "plan", "-o", "json"])
        .expect(0)
        .json();
    assert_eq!(plan["moves"].as_array().unwrap().len(), options.nodes);
    assert_eq!(plan["waves"].as_array().unwrap().len(), options.racks);
    let applied = ground.run(&[&APPLY, more].concat()).expect(0);
    eprintln!("{}", applied.all());
    ground.cluster.wait_ready().unwrap();
    ground.expect_in_racks();
    let undo = ["migrate", "undo", "--auto-approve"];
    ground.run(&undo).expect(0);
    ground.cluster.wait_ready().unwrap();
    assert_eq!(ground.blocks(), before);
    ground.expect_clean();
    assert_eq!(watching.faults(), Vec::<String>::new());
}

#[test]
fn twelve_nodes_move_by_a_setting_and_back() {
    moves_to_racks_and_back(&RackOptions::default(), PARALLEL, &[]);
}

fn cluster_pool(version: CiliumVersion) -> RackOptions {
    RackOptions {
        ipam: PlayedIpam::ClusterPool,
        version,
        ..RackOptions::default()
    }
}

#[test]
fn twelve_nodes_of_cluster_pool_move_and_back() {
    moves_to_racks_and_back(&cluster_pool(CiliumVersion::V1_19), PARALLEL, &[]);
}

#[test]
#[ignore = "slow: a second operator; cargo xtask test --agent runs it"]
fn twelve_nodes_of_the_older_operator_move_and_back() {
    moves_to_racks_and_back(&cluster_pool(CiliumVersion::V1_15), PARALLEL, &[]);
}

#[test]
fn nodes_with_real_kubelets_are_created_again_and_back() {
    let options = RackOptions {
        nodes: 6,
        kubelets: KubeletKind::Hollow,
        ..RackOptions::default()
    };
    let more = args("--method recreate-node --kubelet-restart not-awaited");
    moves_to_racks_and_back(&options, "", &more);
}

#[test]
fn a_person_restarts_the_kubelets_of_nodes_that_are_created_again() {
    let options = RackOptions {
        nodes: 3,
        kubelets: KubeletKind::Hollow,
        ..RackOptions::default()
    };
    let mut ground = Ground::start(&options, "");
    let more = ["--method", "recreate-node"];
    let mut ran = ground.run(&[&APPLY[..], &more].concat());
    for name in ["worker-0", "worker-1", "worker-2"] {
        let text = ran.expect(7).all();
        text.assert_has("restart kubelet");
        text.assert_has(name);
        let kubelets = ground.cluster.hollow().unwrap();
        kubelets.restart(name, Ending::Terminated).unwrap();
        ran = ground.run(&["migrate", "resume", "--kubelet-restarted", name]);
    }
    ran.expect(0);
    ground.cluster.wait_ready().unwrap();
    ground.expect_in_racks();
}

const MOST_KILLS: usize = 60;

fn survives_kills(ipam: PlayedIpam, step: usize) {
    let options = RackOptions {
        nodes: 6,
        ipam,
        ..RackOptions::default()
    };
    let ground = Ground::start(&options, "");
    let watching = ground.watching();
    let (mut ended, mut kills) = (None, 0);
    // A request of a killed program may still arrive, so the next one gives up once.
    while matches!(ended, None | Some(6)) {
        let begin: [&str; 3] = ["migrate", "apply", "--auto-approve"];
        let resume: [&str; 2] = ["migrate", "resume"];
        let verb = if ground.has_begun() {
            &resume[..]
        } else {
            &begin[..]
        };
        // On a slow machine some lives are too short for a step, so the last one is not killed.
        let lines = match (ground.has_begun(), kills) {
            (_, MOST_KILLS..) => usize::MAX,
            (true, _) => step + 2 + kills % 5,
            (false, _) => 12 + step,
        };
        ended = ground.run_killed(&[verb, &["--no-lock"]].concat(), lines);
        kills += 1;
    }
    assert_eq!(ended, Some(0));
    assert!(kills > 5, "{kills} kills");
    ground.cluster.wait_ready().unwrap();
    ground.expect_in_racks();
    assert_eq!(watching.faults(), Vec::<String>::new());
}

#[test]
fn a_kill_after_any_step_changes_nothing_at_the_end() {
    survives_kills(kubernetes(), 2);
}

#[test]
#[ignore = "slow: dozens of kills; cargo xtask test --agent runs it"]
fn a_kill_after_any_step_in_cluster_pool_changes_nothing_at_the_end() {
    survives_kills(PlayedIpam::ClusterPool, 3);
}

#[test]
fn a_budget_that_never_gives_way_undoes_its_wave_and_spares_the_next() {
    let ground = Ground::start(&RackOptions::default(), PARALLEL);
    let plane = &ground.cluster.plane;
    let before = ground.blocks();
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/app-r1";
    let wanted = plane.get(path).unwrap()["spec"]["minAvailable"].clone();
    plane
        .patch(path, &json!({"spec": {"minAvailable": "100%"}}))
        .unwrap();
    super::operator::until("the budget allows nothing", || {
        plane.get(path).unwrap()["status"]["disruptionsAllowed"] == 0
    });
    let ran = ground.run(&[&APPLY[..], &["--drain-timeout", "40s"]].concat());
    let text = ran.expect(7).all();
    text.assert_has("app-r1");
    ground.expect_clean();
    let nodes = plane.list("/api/v1/nodes").unwrap();
    let after = ground.blocks();
    for node in &nodes {
        let name = node["metadata"]["name"].as_str().unwrap();
        let is_moved = node["metadata"]["labels"]["rack"] == "r0";
        assert_eq!(before[name] != after[name], is_moved, "{name}");
    }
    let status = ground
        .run(&["migrate", "status", "-o", "json"])
        .expect(0)
        .json();
    assert_eq!(status["migration"]["state"], "stopped");
    plane
        .patch(path, &json!({"spec": {"minAvailable": wanted}}))
        .unwrap();
    ground.run(&["migrate", "resume"]).expect(0);
    ground.cluster.wait_ready().unwrap();
    ground.expect_in_racks();
}

#[test]
fn pods_that_would_be_lost_keep_their_node_until_a_person_agrees() {
    let options = RackOptions {
        nodes: 3,
        ..RackOptions::default()
    };
    let ground = Ground::start(&options, "");
    let pod = json!({
        "metadata": {"name": "alone"},
        "spec": {"nodeName": "worker-1", "containers": [{"name": "c", "image": "c"}]},
    });
    ground
        .cluster
        .plane
        .create("/api/v1/namespaces/default/pods", &pod)
        .unwrap();
    let plan = ground
        .run(&["migrate", "plan", "-o", "json"])
        .expect(0)
        .json();
    assert_eq!(plan["moves"].as_array().unwrap().len(), 2);
    let left = &plan["left_out"][0];
    assert_eq!(left["node"], "worker-1");
    assert!(left["why"].as_str().unwrap().contains("default/alone"));
    ground.run(&[&APPLY[..], &["--force"]].concat()).expect(0);
    ground.cluster.wait_ready().unwrap();
    ground.expect_in_racks();
}

#[test]
fn a_rival_that_takes_the_block_stops_its_node_only() {
    let options = RackOptions {
        nodes: 3,
        ..RackOptions::default()
    };
    let ground = Ground::start(&options, "");
    ground
        .run(&["migrate", "plan", "--out", "moves.json"])
        .expect(0);
    let saved: Value = serde_json::from_str(&ground.folder.read("moves.json")).unwrap();
    let wanted = saved["moves"][1]["to"][0].as_str().unwrap().to_owned();
    let rival =
        json!({"metadata": {"name": "rival"}, "spec": {"podCIDR": wanted, "podCIDRs": [wanted]}});
    ground
        .cluster
        .plane
        .create("/api/v1/nodes", &rival)
        .unwrap();
    let text = ground
        .run(&args(
            "migrate apply moves.json --trust-plan-file --auto-approve",
        ))
        .expect(4)
        .all();
    text.assert_has("worker-1");
    assert_eq!(ground.cluster.agents.faults(), []);
}
