//! Services move from MetalLB's real controller to the real operator of Cilium, by the commands of the
//! guide: every address stays, and the time that a Service is without one is measured from the events
//! of the API server.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{CiliumVersion, MetalLb, Operator, Options, Program, wait_until};

use super::lb::{SERVICES, operator};
use super::server::{Server, kubernetes};
use super::support::{args, ran, repository};

const VERSION: CiliumVersion = CiliumVersion::V1_19;

/// The Service whose creation ends the measurement.
const END: &str = "end-of-measurement";
/// For MetalLB to serve all Services on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Debug, Default, PartialEq)]
struct Measured {
    /// Services that have another address afterwards, or none.
    changed: usize,
    /// Services that were without their address for some time.
    interrupted: usize,
    longest: Duration,
}

fn ips(service: &Value) -> Vec<String> {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
    let ingress = ingress.into_iter().flatten();
    ingress
        .map(|ingress| ingress["ip"].as_str().unwrap().to_owned())
        .collect()
}

fn held(server: &Server) -> BTreeMap<String, Vec<String>> {
    let services = server.plane.list(SERVICES).unwrap();
    let of_type = services
        .iter()
        .filter(|service| service["spec"]["type"] == "LoadBalancer");
    of_type
        .map(|service| {
            let name = service["metadata"]["name"].as_str().unwrap().to_owned();
            (name, ips(service))
        })
        .collect()
}

/// The workloads of MetalLB's manifest. No kubelet runs them.
fn install_metallb(server: &Server) {
    for (plural, kind, name) in [
        ("deployments", "Deployment", "controller"),
        ("daemonsets", "DaemonSet", "speaker"),
    ] {
        let labels = json!({"app": "metallb", "component": name});
        let container = json!({"name": name, "image": format!("quay.io/metallb/{name}:v0.15.2")});
        let object = json!({"apiVersion": "apps/v1", "kind": kind,
            "metadata": {"name": name, "labels": labels},
            "spec": {"selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}});
        let path = format!("/apis/apps/v1/namespaces/{}/{plural}", MetalLb::NAMESPACE);
        server.plane.create(&path, &object).unwrap();
    }
}

/// Two pools of MetalLB that it announces on the local network, and Services of both.
fn served_by_metallb(server: &Server, services: usize) -> MetalLb {
    let metallb = MetalLb::start(&server.programs, &server.plane).unwrap();
    install_metallb(server);
    let group = format!("/apis/metallb.io/v1beta1/namespaces/{}", MetalLb::NAMESPACE);
    let announced = json!({"apiVersion": "metallb.io/v1beta1", "kind": "L2Advertisement", "metadata": {"name": "lan"}});
    server
        .plane
        .create(&format!("{group}/l2advertisements"), &announced)
        .unwrap();
    let path = format!("{group}/ipaddresspools");
    for (name, range) in [("first", "192.168.8.0/22"), ("second", "192.168.20.0/22")] {
        let pool = json!({"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": {"name": name},
            "spec": {"addresses": [range]}});
        server.plane.create(&path, &pool).unwrap();
    }
    let service = |number: usize| {
        let pool = ["first", "second"][number % 2];
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{number:03}"),
            "annotations": {"metallb.io/address-pool": pool}},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}})
    };
    let all: Vec<Value> = (0..services).map(service).collect();
    server.plane.create_many(SERVICES, &all, 8).unwrap();
    wait_until("MetalLB to give addresses", PATIENCE, || {
        let held = held(server);
        let is_served = held.len() == services && held.values().all(|held| held.len() == 1);
        Ok(is_served.then_some(()))
    })
    .unwrap();
    metallb
}

/// How long each Service was without the address that it had.
fn gaps(server: &Server, from: &str, before: &BTreeMap<String, Vec<String>>) -> Vec<Duration> {
    let mut open: BTreeMap<String, Instant> = BTreeMap::new();
    let mut gaps: BTreeMap<String, Duration> = BTreeMap::new();
    let client = server.plane.client();
    client
        .watch(SERVICES, from, |event| {
            let service = &event["object"];
            let name = service["metadata"]["name"].as_str().unwrap().to_owned();
            if name == END {
                return ControlFlow::Break(());
            }
            match (before.get(&name) == Some(&ips(service)), open.remove(&name)) {
                (true, Some(since)) => {
                    let gap = gaps.entry(name).or_default();
                    *gap = (*gap).max(since.elapsed());
                }
                (true, None) => {}
                (false, since) => {
                    open.insert(name, since.unwrap_or_else(Instant::now));
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    for (name, since) in open {
        gaps.insert(name, since.elapsed());
    }
    gaps.into_values().collect()
}

/// What runs while the guide is followed, and what its commands start and stop.
struct Move<'s> {
    server: &'s Server,
    services: usize,
    operator: Option<Operator>,
    metallb: Option<MetalLb>,
}

impl Move<'_> {
    /// Runs a command as the guide prints it.
    fn follow(&mut self, command: &str) {
        let words = args(command);
        match words[..] {
            ["cilium-ipam", "show", "lb"] => self.await_cilium(),
            ["cilium-ipam", "apply"] => self.cilium_ipam(&["apply", "--auto-approve"]),
            ["cilium-ipam", ..] => self.cilium_ipam(&words[1..]),
            ["kubectl", ..] => self.kubectl(&words[1..]),
            _ => panic!("{command}"),
        }
        match words[..] {
            [
                ..,
                "scale",
                "deployment",
                "cilium-operator",
                "--replicas",
                "0",
            ] => {
                self.operator = None;
            }
            [
                ..,
                "scale",
                "deployment",
                "cilium-operator",
                "--replicas",
                _,
            ] => {
                self.operator = Some(operator(self.server, VERSION));
            }
            [.., "scale", "deployment", "controller", "--replicas", "0"] => self.metallb = None,
            _ => {}
        }
    }

    fn cilium_ipam(&self, words: &[&str]) {
        self.server.run(words).expect(0);
    }

    fn kubectl(&self, words: &[&str]) {
        let mut kubectl = self.server.plane.kubectl(&self.server.programs).unwrap();
        let kubectl = kubectl.current_dir(self.server.folder.path()).args(words);
        ran(kubectl.output().unwrap()).expect(0);
    }

    /// Cilium writes no condition where nothing is to change, but it counts the addresses.
    fn await_cilium(&self) {
        wait_until("Cilium to serve them all", PATIENCE, || {
            let shown = self.server.json("show lb -o json");
            let pools = shown["pools"].as_array().unwrap();
            let used = |pool: &Value| pool["used"].as_str()?.parse::<usize>().ok();
            Ok((pools.iter().filter_map(used).sum::<usize>() == self.services).then_some(()))
        })
        .unwrap();
    }
}

/// The commands of the steps of the guide.
fn commands() -> Vec<String> {
    let page = repository().join("docs/src/how-to/from-metallb.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, steps) = page.split_once("\n## Steps\n").unwrap();
    let (steps, _) = steps.split_once("\n## ").unwrap();
    let lines = steps.lines().map(str::trim_start);
    let commands = lines.filter_map(|line| line.strip_prefix("$ "));
    commands.map(str::to_owned).collect()
}

/// Follows the guide, command by command.
fn moved(services: usize) -> Measured {
    let server = Server::start(
        &kubernetes(VERSION.release(), None),
        Some(VERSION.release()),
        Options::default(),
        &[Program::MetalLbController, Program::CiliumOperator(VERSION)],
    );
    let mut following = Move {
        server: &server,
        services,
        operator: Some(operator(&server, VERSION)),
        metallb: Some(served_by_metallb(&server, services)),
    };
    let before = held(&server);
    let list = server.plane.get(SERVICES).unwrap();
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let measured = std::thread::scope(|scope| {
        let measuring = scope.spawn(|| gaps(&server, from, &before));
        commands()
            .iter()
            .for_each(|command| following.follow(command));
        assert!(following.operator.is_some() && following.metallb.is_none());
        let end = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": END}, "spec": {"ports": [{"port": 80}]}});
        server.plane.create(SERVICES, &end).unwrap();
        measuring.join().unwrap()
    });
    let after = held(&server);
    let changed = before
        .iter()
        .filter(|(name, held)| after.get(*name) != Some(held));
    Measured {
        changed: changed.count(),
        interrupted: measured.len(),
        longest: measured.into_iter().max().unwrap_or_default(),
    }
}

#[test]
fn thirty_services_move_from_metallb_without_a_gap() {
    assert_eq!(moved(30), Measured::default());
}

#[test]
#[ignore = "slow: 500 Services on a real API server"]
fn five_hundred_services_move_from_metallb_without_a_gap() {
    let measured = moved(500);
    println!("500 Services: {measured:?}");
    assert_eq!(measured, Measured::default());
}
