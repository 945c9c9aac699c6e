//! `bench join`: how long new nodes wait for their blocks while `cilium-ipam watch` runs, alone and
//! in a rush; the cost of a join in a cluster of a tenth of the size; and the time from a saved file to
//! its effect.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

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
const JOIN_LIMIT_MS: f64 = 500.0;
const RUSH_LIMIT_MS: f64 = 2_000.0;
const REPLAN_LIMIT_MS: f64 = 500.0;
/// Nodes that join alone.
const JOINS: usize = 40;
/// Time from one to the next, and before a saved file: longer than events wait to be planned together.
const APART: Duration = Duration::from_secs(1);
/// Nodes of the rush, and the time from one to the next: 33 each second for five minutes.
const RUSH: usize = 9_900;
const IN_RUSH: Duration = Duration::from_micros(30_303);
/// Saved files.
const SAVES: usize = 9;

#[derive(Default)]
struct Measured {
    patch: Samples,
    join: Samples,
    rush: Samples,
    replan: Samples,
    save: Samples,
    cpu_ms_per_join: f64,
    /// Of one processor, during the rush.
    rush_share: f64,
    cpu_ms_per_heartbeat: f64,
    peak_rss_mib: f64,
}

pub fn run(tool: &Path, nodes: usize) -> Result<()> {
    let tool = Tool::new(tool)?;
    let few = measure(&tool, nodes / 10, 0)?;
    let many = measure(&tool, nodes, RUSH)?;
    println!("raw PATCH of a Node, ms: {}", many.patch.spread());
    println!(
        "block of a node that joins, from the answer to its creation to its block, ms: {}",
        many.join.spread()
    );
    println!(
        "the same, 33 nodes a second for five minutes, ms: {}",
        many.rush.spread()
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
        .at_most("join_ms", many.join.median(), "limit", JOIN_LIMIT_MS)
        .measured("rush_p50_ms", many.rush.median())
        .at_most(
            "rush_p99_ms",
            many.rush.percentile(99),
            "rush_limit",
            RUSH_LIMIT_MS,
        )
        .measured("rush_cpu_share", many.rush_share)
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

fn measure(tool: &Tool, nodes: usize, rush: usize) -> Result<Measured> {
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
        std::thread::sleep(APART);
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
    in_a_rush(&plane, &watching, (nodes + 5 * JOINS, rush), &mut measured)?;
    measured.peak_rss_mib = watching.peak_rss_mib()?;
    Ok(measured)
}

fn in_a_rush(
    plane: &ControlPlane,
    watching: &Running,
    (first, count): (usize, usize),
    measured: &mut Measured,
) -> Result<()> {
    let (before, began) = (watching.cpu_ms()?, Instant::now());
    let mut created: BTreeMap<String, Instant> = BTreeMap::new();
    for index in first..first + count {
        let due = began + IN_RUSH * u32::try_from(created.len())?;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        plane.create(node::NODES, &node::node(index))?;
        created.insert(node::name(index), Instant::now());
    }
    while !created.is_empty() {
        let (name, written) = watching.next_of("written")?;
        let Some(at) = created.remove(&name) else {
            continue;
        };
        let waited = written.saturating_duration_since(at);
        measured.rush.add(waited.as_secs_f64() * 1e3);
    }
    let elapsed_ms = began.elapsed().as_secs_f64() * 1e3;
    measured.rush_share = (watching.cpu_ms()? - before) / elapsed_ms;
    Ok(())
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
        std::thread::sleep(APART);
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
