//! A real API server on which blocks move between Nodes and CiliumNodes while they are read: each
//! observation shows every block.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use testbed::{CiliumInstallation, Client, Options};
use tokio::runtime::Runtime;

use super::server::Server;
use super::support::api_server;
use ipam_cluster::live::{LiveCluster, SentRequest};
use ipam_cluster::{Extent, observe};

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
const ANNOTATION: &str = "network.cilium.io/ipv4-pod-cidr";
/// More than one page of a short list has.
const NODES: usize = 240;
/// Nodes whose block moves.
const MOVING: usize = 6;
const OBSERVATIONS: usize = 20;

fn name(index: usize) -> String {
    format!("n{index:03}")
}

fn block(index: usize) -> String {
    format!("10.9.{index}.0/24")
}

fn cilium_node(index: usize) -> Value {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name(index)},
        "spec": {"ipam": {"podCIDRs": [block(index)]}}})
}

fn annotate(client: &Client, index: usize, block: Value) {
    let annotations = json!({"metadata": {"annotations": {ANNOTATION: block}}});
    client
        .patch(&format!("/api/v1/nodes/{}", name(index)), &annotations)
        .unwrap();
}

fn show(client: &Client, index: usize, blocks: Value) {
    let path = format!("{CILIUM_NODES}/{}", name(index));
    client
        .patch(&path, &json!({"spec": {"ipam": {"podCIDRs": blocks}}}))
        .unwrap();
}

/// The block is in one of both at each moment. Every other node loses its CiliumNode meanwhile.
fn move_there_and_back(client: &Client, index: usize) {
    annotate(client, index, json!(block(index)));
    let path = format!("{CILIUM_NODES}/{}", name(index));
    if index.is_multiple_of(2) {
        client.delete(&path).unwrap();
        client.create(CILIUM_NODES, &cilium_node(index)).unwrap();
    } else {
        show(client, index, json!([]));
        show(client, index, json!([block(index)]));
    }
    annotate(client, index, Value::Null);
}

static LISTS_OF_CILIUM_NODES: AtomicUsize = AtomicUsize::new(0);

fn count(request: &SentRequest<'_>) {
    if request.path == CILIUM_NODES {
        LISTS_OF_CILIUM_NODES.fetch_add(1, Ordering::Relaxed);
    }
}

fn shown(runtime: &Runtime, cluster: &LiveCluster) -> BTreeSet<String> {
    let observed = runtime.block_on(observe(cluster, Extent::Plan)).unwrap();
    let blocks = observed.shown_blocks().map(|(_, block)| block.to_string());
    blocks.collect()
}

/// Ends the moves, also when the test fails.
struct Done<'d>(&'d AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_block_that_moves_is_always_seen() {
    let installation = CiliumInstallation::default();
    let crds = Some(installation.version.as_str());
    let server = Server::start(&installation, crds, Options::default(), &[]);
    server.nodes((0..NODES).map(|index| json!({"metadata": {"name": name(index)}})));
    let all: Vec<Value> = (0..NODES).map(cilium_node).collect();
    server.plane.create_many(CILIUM_NODES, &all, 8).unwrap();
    let expected: BTreeSet<String> = (0..NODES).map(block).collect();
    let runtime = Runtime::new().unwrap();
    let connection = api_server(server.plane.kubeconfig(), Duration::from_secs(30));
    let cluster = runtime.block_on(LiveCluster::connect(connection)).unwrap();
    let cluster = cluster.reporting(count);
    assert_eq!(shown(&runtime, &cluster), expected);
    // Some, their names, and all. Pages would be two.
    assert_eq!(LISTS_OF_CILIUM_NODES.load(Ordering::Relaxed), 3);

    let is_done = AtomicBool::new(false);
    let moves = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for index in (0..MOVING).cycle() {
                move_there_and_back(server.plane.client(), index);
                moves.fetch_add(1, Ordering::Relaxed);
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let _done = Done(&is_done);
        for _ in 0..OBSERVATIONS {
            assert_eq!(shown(&runtime, &cluster), expected);
        }
    });
    assert!(moves.load(Ordering::Relaxed) > MOVING);
}
