//! `bench join`: how long a new node waits for its block while `cilium-ipam watch` runs, against
//! one raw PATCH; the cost of an event in a cluster of a tenth of the size; and the time from a
//! saved file to its effect.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;
use testbed::ControlPlane;
use xtask::line::Line;
use xtask::pools::{Pools, pool};
use xtask::running::Running;
use xtask::tool::Tool;
use xtask::{cluster, fleet, node};

use crate::samples::Samples;

/// The size of the documented figure.
pub const NODES: usize = 5_000;
const RATIO_LIMIT: f64 = 2.0;
const REPLAN_LIMIT_MS: f64 = 200.0;
/// Nodes that join, one after the other.
const JOINS: usize = 40;
/// Saved files.
const SAVES: usize = 9;

#[derive(Default)]
struct Measured {
    patch: Samples,
    join: Samples,
    replan: Samples,
    save: Samples,
    cpu_ms_per_join: f64,
    cpu_ms_per_heartbeat: f64,
    peak_rss_mib: f64,
}

pub fn run(tool: &Path, nodes: usize) -> Result<()> {
    let tool = Tool::new(tool)?;
    let few = measure(&tool, nodes / 10)?;
    let many = measure(&tool, nodes)?;
    println!("raw PATCH of a Node, ms: {}", many.patch.spread());
    println!(
        "block of a node that joins, from the answer to its creation to its block, ms: {}",
        many.join.spread()
    );
    println!(
        "a file, from its saving to the plan that it gives, ms: {}",
        many.replan.spread()
    );
    println!(
        "a file, from its saving to the block that it gives, ms: {}",
        many.save.spread()
    );
    Line::new("join")
        .with("nodes", nodes)
        .at_most(
            "ratio",
            many.join.median() / many.patch.median(),
            "limit",
            RATIO_LIMIT,
        )
        .measured("patch_ms", many.patch.median())
        .at_most(
            "replan_ms",
            many.replan.median(),
            "replan_limit",
            REPLAN_LIMIT_MS,
        )
        .measured("file_ms", many.save.median())
        .measured("cpu_ms_per_join", many.cpu_ms_per_join)
        .measured("cpu_ms_per_join_in_a_tenth", few.cpu_ms_per_join)
        .measured("cpu_ms_per_heartbeat", many.cpu_ms_per_heartbeat)
        .measured("cpu_ms_per_heartbeat_in_a_tenth", few.cpu_ms_per_heartbeat)
        .measured("peak_rss_mib", many.peak_rss_mib)
        .print();
    Ok(())
}

fn measure(tool: &Tool, nodes: usize) -> Result<Measured> {
    let plane = cluster::start()?;
    let pools = Pools::racks()?;
    eprintln!("bench join: creating {nodes} Nodes and as many CiliumNodes");
    fleet::create_cilium_nodes(&plane, 0..nodes)?;
    fleet::create_nodes(&plane, 0..nodes)?;
    let watching = Running::start(
        tool,
        &[OsStr::new("watch"), pools.path()],
        plane.kubeconfig(),
    )?;
    for _ in 0..nodes {
        watching.until("written", None)?;
    }
    let mut measured = Measured::default();
    joins(&plane, &watching, nodes + 2 * JOINS)?;
    let before = watching.cpu_ms()?;
    for index in nodes..nodes + JOINS {
        plane.create(node::NODES, &node::node(index))?;
        // It is there, and seen, from the server's answer on at the latest.
        let began = Instant::now();
        let written = watching.until("written", Some(&node::name(index)))?;
        measured
            .join
            .add(written.saturating_duration_since(began).as_secs_f64() * 1e3);
    }
    measured.cpu_ms_per_join = per(watching.cpu_ms()? - before, JOINS);
    raw_patches(&plane, nodes + JOINS, &mut measured)?;
    let before = watching.cpu_ms()?;
    fleet::heartbeat(&plane, 0..nodes / 2, 1)?;
    joins(&plane, &watching, nodes + 3 * JOINS)?;
    measured.cpu_ms_per_heartbeat = per(watching.cpu_ms()? - before, nodes / 2);
    saves(&plane, &pools, &watching, nodes + 4 * JOINS, &mut measured)?;
    measured.peak_rss_mib = watching.peak_rss_mib()?;
    Ok(measured)
}

/// A new Node: when it has its block, all earlier events are done.
fn joins(plane: &ControlPlane, watching: &Running, index: usize) -> Result<()> {
    plane.create(node::NODES, &node::node(index))?;
    watching.until("written", Some(&node::name(index)))?;
    Ok(())
}

/// The same writes on Nodes of no pool, which have no other writer.
fn raw_patches(plane: &ControlPlane, first: usize, measured: &mut Measured) -> Result<()> {
    for index in first..first + JOINS {
        let mut object = node::node(index);
        object["metadata"]["labels"]["rack"] = json!("none");
        plane.create(node::NODES, &object)?;
        let block = format!("192.168.{}.0/26", index % 256);
        let began = Instant::now();
        plane.patch(
            &node::path(index),
            &json!({"spec": {"podCIDR": block, "podCIDRs": [block]}}),
        )?;
        measured.patch.add(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}

/// Nodes that wait for a pool, and the file that adds it.
fn saves(
    plane: &ControlPlane,
    pools: &Pools,
    watching: &Running,
    first: usize,
    measured: &mut Measured,
) -> Result<()> {
    for save in 0..SAVES {
        let index = first + save;
        let mut object = node::node(index);
        object["metadata"]["labels"]["rack"] = json!(format!("new-{save}"));
        plane.create(node::NODES, &object)?;
        watching.until("seen", None)?;
        let selector = format!("nodeSelector: {{matchLabels: {{rack: new-{save}}}}}");
        let document = pool(
            &format!("new-{save}"),
            &format!("cidrs: [10.192.{save}.0/24], blockSize: 26, {selector}"),
        );
        let began = Instant::now();
        std::fs::write(
            Path::new(pools.path()).join(format!("new-{save}.yaml")),
            document,
        )?;
        watching.until("in-force", None)?;
        let planned = watching.until("seen", None)?;
        measured
            .replan
            .add(planned.duration_since(began).as_secs_f64() * 1e3);
        let written = watching.until("written", Some(&node::name(index)))?;
        measured
            .save
            .add(written.duration_since(began).as_secs_f64() * 1e3);
    }
    ensure!(measured.save.median() > 0.0, "nothing was saved");
    Ok(())
}

fn per(total: f64, count: usize) -> f64 {
    total / f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
