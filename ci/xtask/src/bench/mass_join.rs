//! `bench newcomers`: nodes that are created all at once while the operator runs, against
//! kube-controller-manager's node-ipam-controller with its client limits lifted. By turns on one
//! API server, each in a process of its own that has found an empty cluster.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testbed::{ControlPlane, ControllerManager, Program, Programs, build};
use xtask::line::Line;
use xtask::running::Running;
use xtask::tool::Tool;
use xtask::{cluster, fleet, node, objects};

use crate::samples::Samples;

/// The size of the documented figure.
pub const NODES: usize = 2_000;
const ROUNDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(300);
/// How often to check whether all nodes have their block.
const LOOK: Duration = Duration::from_millis(20);
const RANGE: &str = "10.16.0.0/12";
const BLOCK_SIZE: u8 = 24;

/// Client limits lifted, and more workers than the default would be of no use: it has a fixed
/// number.
const FLAGS: [&str; 6] = [
    "--controllers=node-ipam-controller",
    "--allocate-node-cidrs=true",
    "--cluster-cidr=10.16.0.0/12",
    "--node-cidr-mask-size=24",
    "--kube-api-qps=5000",
    "--kube-api-burst=10000",
];

#[derive(Default)]
struct Measured {
    seconds: Samples,
    rss: Samples,
}

pub fn run(tool: &Path, nodes: usize) -> Result<()> {
    let tool = Tool::new(tool)?;
    let programs = build(&[
        Program::KubeApiserver,
        Program::Etcd,
        Program::KubeControllerManager,
    ])?;
    let plane = cluster::start_with(&programs, cluster::options())?;
    objects::install_definitions(&tool, &plane)?;
    plane.create(
        objects::IP_POOLS,
        &objects::pool("all", &[RANGE], BLOCK_SIZE),
    )?;
    let (mut ours, mut theirs) = (Measured::default(), Measured::default());
    for round in 0..ROUNDS {
        eprintln!(
            "bench newcomers: round {} of {ROUNDS}, twice {nodes} Nodes",
            round + 1
        );
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                with_operator(&tool, &plane, nodes, &mut ours)?;
            } else {
                with_controller_manager(&programs, &plane, nodes, &mut theirs)?;
            }
            plane.delete(node::NODES)?;
        }
    }
    println!(
        "operator, from the first creation to the last block, s: {}",
        ours.seconds.spread()
    );
    println!(
        "node-ipam-controller, the same, s: {}",
        theirs.seconds.spread()
    );
    Line::new("newcomers")
        .with("nodes", nodes)
        .at_most(
            "ratio",
            ours.seconds.median() / theirs.seconds.median(),
            "limit",
            1.0,
        )
        .measured("operator_s", ours.seconds.median())
        .measured("node_ipam_s", theirs.seconds.median())
        .at_most(
            "operator_peak_rss_mib",
            ours.rss.max(),
            "node_ipam_peak_rss_mib",
            theirs.rss.max(),
        )
        .print();
    Ok(())
}

fn with_operator(
    tool: &Tool,
    plane: &ControlPlane,
    nodes: usize,
    measured: &mut Measured,
) -> Result<()> {
    let operator = Running::operator(tool, plane.kubeconfig())?;
    operator.until("seen", None)?;
    measured.seconds.add(created_and_served(plane, nodes)?);
    measured.rss.add(operator.peak_rss_mib()?);
    Ok(())
}

fn with_controller_manager(
    programs: &Programs,
    plane: &ControlPlane,
    nodes: usize,
    measured: &mut Measured,
) -> Result<()> {
    let manager = ControllerManager::start(programs, plane, &FLAGS)?;
    // It is healthy before its informers have seen anything: one node shows that it works.
    fleet::create_node(plane, nodes)?;
    while served(plane)? == 0 {
        std::thread::sleep(LOOK);
    }
    plane.delete(&node::path(nodes))?;
    measured.seconds.add(created_and_served(plane, nodes)?);
    measured.rss.add(manager.peak_rss_mib()?);
    Ok(())
}

/// Seconds from the first creation until every node has a block, all of them different.
fn created_and_served(plane: &ControlPlane, nodes: usize) -> Result<f64> {
    let began = Instant::now();
    let all: Vec<_> = (0..nodes).map(node::node).collect();
    plane.create_many(node::NODES, &all, 32)?;
    eprintln!(
        "bench newcomers: created in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    // The newest one first: whole lists would be most of the server's work.
    let newest = node::path(nodes - 1);
    while plane.get(&newest)?["spec"]["podCIDR"].is_null() || served(plane)? < nodes {
        ensure!(
            began.elapsed() < LIMIT,
            "not all have a block after {} s",
            LIMIT.as_secs()
        );
        std::thread::sleep(LOOK);
    }
    Ok(began.elapsed().as_secs_f64())
}

fn served(plane: &ControlPlane) -> Result<usize> {
    let nodes = plane.list(&format!("{}?resourceVersion=0", node::NODES))?;
    let blocks: Vec<&str> = nodes
        .iter()
        .filter_map(|node| node["spec"]["podCIDR"].as_str())
        .collect();
    let different: std::collections::BTreeSet<&&str> = blocks.iter().collect();
    ensure!(different.len() == blocks.len(), "a block was given twice");
    Ok(blocks.len())
}
