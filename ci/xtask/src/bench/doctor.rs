//! `bench doctor`: a whole `cilium-ipam doctor` on a real API server, from the start of the process
//! to its end, against the raw paged LIST of the same objects. Every node has its block in
//! Node.spec, in the annotation and in its CiliumNode, and announces it by BGP. Then the memory of
//! `capacity --listen` in the same cluster.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::json;
use testbed::{ControlPlane, PATIENCE, wait_until};
use xtask::line::Line;
use xtask::parallel::for_each;
use xtask::running::{Running, http_get};
use xtask::tool::Tool;
use xtask::{cluster, fleet, node};

use crate::pairs::Pairs;
use crate::process::timed;
use crate::raw;
use crate::samples::Samples;
use ipam_cilium::observed::ObservedKind;

/// The size of the documented figure.
pub const NODES: usize = 5_000;
const RATIO_LIMIT: f64 = 0.6;
const RSS_LIMIT_MIB: f64 = 40.0;
/// Of `capacity --listen`.
const OBSERVER_RSS_LIMIT_MIB: f64 = 80.0;
const CONNECTIONS: usize = 16;

pub fn run(tool: &Path, nodes: usize) -> Result<()> {
    let tool = Tool::new(tool)?;
    let plane = cluster::start()?;
    eprintln!(
        "bench doctor: creating {nodes} Nodes with a block in each of their fields, and as many CiliumNodes"
    );
    fleet::create_cilium_nodes(&plane, 0..nodes)?;
    fleet::create_nodes(&plane, 0..nodes)?;
    let indices: Vec<usize> = (0..nodes).collect();
    for_each(&indices, CONNECTIONS, |&index| hold(&plane, index))?;
    announce(&plane)?;
    measure(&tool, &plane, nodes)?;
    observe(&tool, &plane, nodes)
}

/// Counts all nodes, and then hears of a heartbeat of each.
fn observe(tool: &Tool, plane: &ControlPlane, nodes: usize) -> Result<()> {
    let arguments = ["capacity", "--listen", "127.0.0.1:0"].map(OsStr::new);
    let observer = Running::start(tool, &arguments, plane.kubeconfig())?;
    let address = observer.address()?;
    let expected = format!("\ncilium_ipam_nodes {nodes}.0\n");
    wait_until("all nodes to be counted", PATIENCE, || {
        let metrics = http_get(&address, "/metrics").unwrap_or_default();
        Ok(metrics.contains(&expected).then_some(()))
    })?;
    fleet::heartbeat(plane, 0..nodes, 1)?;
    let rss = observer.peak_rss_mib()?;
    Line::new("capacity --listen")
        .with("nodes", nodes)
        .at_most("peak_rss_mib", rss, "rss_limit_mib", OBSERVER_RSS_LIMIT_MIB)
        .print();
    Ok(())
}

/// Writes a block into each of the fields that can hold one.
fn hold(plane: &ControlPlane, index: usize) -> Result<(), testbed::Error> {
    let block = format!("10.{}.{}.0/24", 32 + index / 256, index % 256);
    let annotations = json!({"network.cilium.io/ipv4-pod-cidr": block});
    let fields = json!({"metadata": {"annotations": annotations}, "spec": {"podCIDR": block, "podCIDRs": [block]}});
    plane.patch(&node::path(index), &fields)?;
    plane
        .patch(
            &node::cilium_node_path(index),
            &json!({"spec": {"ipam": {"podCIDRs": [block]}}}),
        )
        .map(drop)
}

/// Every node announces its block.
fn announce(plane: &ControlPlane) -> Result<(), testbed::Error> {
    let config = json!({"data": {"enable-bgp-control-plane": "true"}});
    plane.patch(
        "/api/v1/namespaces/kube-system/configmaps/cilium-config",
        &config,
    )?;
    let peer = json!({"name": "tor", "peerASN": 65000, "peerAddress": "192.0.2.254", "peerConfigRef": {"name": "all"}});
    let family = json!({"afi": "ipv4", "safi": "unicast", "advertisements": {"matchLabels": {"for": "all"}}});
    for (plural, kind, spec) in [
        (
            "ciliumbgpclusterconfigs",
            "CiliumBGPClusterConfig",
            json!({"bgpInstances": [{"name": "one", "localASN": 65001, "peers": [peer]}]}),
        ),
        (
            "ciliumbgppeerconfigs",
            "CiliumBGPPeerConfig",
            json!({"families": [family]}),
        ),
        (
            "ciliumbgpadvertisements",
            "CiliumBGPAdvertisement",
            json!({"advertisements": [{"advertisementType": "PodCIDR"}]}),
        ),
    ] {
        let metadata = json!({"name": "all", "labels": {"for": "all"}});
        let object =
            json!({"apiVersion": "cilium.io/v2", "kind": kind, "metadata": metadata, "spec": spec});
        plane.create(&format!("/apis/cilium.io/v2/{plural}"), &object)?;
    }
    Ok(())
}

fn measure(tool: &Tool, plane: &ControlPlane, nodes: usize) -> Result<()> {
    let [doctor, kubeconfig, output, json] =
        ["doctor", "--kubeconfig", "--output", "json"].map(OsStr::new);
    let arguments = [
        doctor,
        kubeconfig,
        plane.kubeconfig().as_os_str(),
        output,
        json,
    ];
    let report = tool.json(&arguments)?;
    let announced = format!("announced for {nodes} of {nodes} nodes");
    let is_judged = report["cluster"].as_array().is_some_and(|about| {
        about
            .iter()
            .any(|one| one["evidence"] == announced.as_str())
    });
    ensure!(
        is_judged && report["summary"]["error"] == 0,
        "not what is to be measured: {}",
        report["cluster"]
    );
    let kinds: Vec<ObservedKind> = ObservedKind::OF_PLANS
        .into_iter()
        .chain(ObservedKind::OF_EXAMINATIONS)
        .collect();
    raw::list_kinds(plane.client(), &kinds)?;
    let mut rss = Samples::default();
    let pairs = Pairs::measure(
        || {
            let run = timed(&tool.words(&arguments))?;
            rss.add(run.peak_rss_mib);
            Ok(run.milliseconds)
        },
        || Ok(raw::list_kinds(plane.client(), &kinds)?.milliseconds),
    )?;
    println!("raw LIST, warm connection, ms: {}", pairs.theirs.spread());
    println!(
        "doctor --output json, whole process, ms: {}",
        pairs.ours.spread()
    );
    let line = Line::new("doctor").with("nodes", nodes);
    pairs
        .at_most(line, "ratio", RATIO_LIMIT)
        .measured("raw_list_ms", pairs.theirs.median())
        .measured("doctor_ms", pairs.ours.median())
        .at_most("peak_rss_mib", rss.max(), "rss_limit_mib", RSS_LIMIT_MIB)
        .print();
    Ok(())
}
