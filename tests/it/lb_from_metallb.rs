//! Services move from MetalLB's real controller to the real operator of Cilium: every address stays,
//! and the time that a Service is without one is measured from the events of the API server.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{CiliumVersion, MetalLb, Options, Program, wait_until};

use super::lb::{SERVICES, operator};
use super::server::{Server, kubernetes};

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

/// Two pools of MetalLB, and Services of both.
fn served_by_metallb(server: &Server, services: usize) -> MetalLb {
    let metallb = MetalLb::start(&server.programs, &server.plane).unwrap();
    let path = format!(
        "/apis/metallb.io/v1beta1/namespaces/{}/ipaddresspools",
        MetalLb::NAMESPACE
    );
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

/// The operator of Cilium starts when all pools and pins are written.
fn moved(services: usize) -> Measured {
    let version = CiliumVersion::V1_19;
    let server = Server::start(
        &kubernetes(version.release(), None),
        Some(version.release()),
        Options::default(),
        &[Program::MetalLbController, Program::CiliumOperator(version)],
    );
    let metallb = served_by_metallb(&server, services);
    let before = held(&server);
    let list = server.plane.get(SERVICES).unwrap();
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let measured = std::thread::scope(|scope| {
        let measuring = scope.spawn(|| gaps(&server, from, &before));
        server.run(&["import", "--from", "metallb"]).expect(0);
        server
            .run(&["apply", "--auto-approve", "--waive", "lost-addresses=999"])
            .expect(0);
        let _operator = operator(&server, version);
        wait_until("Cilium to serve them all", PATIENCE, || {
            let shown = server.json("show lb -o json");
            // Cilium writes no condition where nothing is to change, but it counts the addresses.
            let pools = shown["pools"].as_array().unwrap();
            let used = |pool: &Value| pool["used"].as_str()?.parse::<usize>().ok();
            Ok((pools.iter().filter_map(used).sum::<usize>() == services).then_some(()))
        })
        .unwrap();
        drop(metallb);
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
