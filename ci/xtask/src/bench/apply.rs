//! `bench apply`: a whole `cilium-ipam apply` on a real API server, against a raw loop of the same
//! PATCHes.
//!
//! Both write the same number of Nodes of the same shape. The Nodes are created before each run and
//! deleted after it, so no run finds a server that another has warmed or filled. They alternate in
//! going first.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use testbed::ControlPlane;
use xtask::line::Line;
use xtask::pools::Pools;
use xtask::tool::Tool;
use xtask::{cluster, fleet};

use crate::process::{finished, timer};
use crate::raw;
use crate::samples::Samples;

/// The size of the documented figure.
pub const NODES: usize = 5_000;
const RATIO_LIMIT: f64 = 0.8;
const ROUNDS: usize = 3;
/// The tool's default.
const CONNECTIONS: usize = 16;
/// Prefix of the tool's line for a Node that the server has accepted.
const WRITTEN: &str = "written Node/";

#[derive(Default)]
struct Measured {
    raw: Samples,
    whole: Samples,
    writes: Samples,
    rss: Samples,
}

pub fn run(tool: &Path, nodes: usize) -> Result<()> {
    let tool = Tool::new(tool)?;
    let plane = cluster::start()?;
    let pools = Pools::racks()?;
    let mut measured = Measured::default();
    for round in 0..ROUNDS {
        eprintln!(
            "bench apply: round {} of {ROUNDS}, twice {nodes} Nodes",
            round + 1
        );
        for turn in 0..2 {
            fleet::create_nodes(&plane, 0..nodes)?;
            if (round + turn) % 2 == 0 {
                measured.raw.add(raw_loop(&plane)?);
            } else {
                run_tool(&tool, &plane, &pools, nodes, &mut measured)?;
            }
            plane.delete("/api/v1/nodes")?;
        }
    }
    report(&measured, nodes);
    Ok(())
}

fn raw_loop(plane: &ControlPlane) -> Result<f64> {
    let patches = raw::patches(plane)?;
    raw::patch_all(plane.client(), &patches, CONNECTIONS)
}

fn run_tool(
    tool: &Tool,
    plane: &ControlPlane,
    pools: &Pools,
    nodes: usize,
    measured: &mut Measured,
) -> Result<()> {
    let connections = CONNECTIONS.to_string();
    let [apply, approve, parallelism, kubeconfig] =
        ["apply", "--auto-approve", "--parallelism", "--kubeconfig"].map(OsStr::new);
    let server = plane.kubeconfig().as_os_str();
    let words = tool.words(&[
        apply,
        pools.path(),
        approve,
        parallelism,
        OsStr::new(&connections),
        kubeconfig,
        server,
    ]);
    let mut child = timer(&words)?.spawn().context("the timer does not start")?;
    let talk = child.stderr.take().context("no standard error")?;
    let (writes, text) = watch(BufReader::new(talk))?;
    let mut stdout = Vec::new();
    child
        .stdout
        .take()
        .context("no standard output")?
        .read_to_end(&mut stdout)?;
    child.wait()?;
    let run = finished(&stdout, text.as_bytes())?;
    ensure!(
        writes.len() == nodes,
        "{} of {nodes} Nodes were written",
        writes.len()
    );
    measured.whole.add(rate(nodes, run.milliseconds / 1e3));
    measured.rss.add(run.peak_rss_mib);
    if let [first, .., last] = writes[..] {
        measured
            .writes
            .add(rate(nodes - 1, last.duration_since(first).as_secs_f64()));
    }
    Ok(())
}

/// The time of each Node's write, and the rest of the output.
fn watch(talk: impl BufRead) -> Result<(Vec<Instant>, String)> {
    let (mut writes, mut text) = (Vec::new(), String::new());
    for line in talk.lines() {
        let line = line?;
        if line.starts_with(WRITTEN) {
            writes.push(Instant::now());
        } else {
            text = text + &line + "\n";
        }
    }
    Ok((writes, text))
}

fn rate(nodes: usize, seconds: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    let nodes = nodes as f64;
    nodes / seconds
}

fn report(measured: &Measured, nodes: usize) {
    let Measured {
        raw,
        whole,
        writes,
        rss,
    } = measured;
    println!("raw PATCH loop, nodes/s: {}", raw.spread());
    println!(
        "apply, from the first write to the last, nodes/s: {}",
        writes.spread()
    );
    println!(
        "apply, whole process with planning, nodes/s: {}",
        whole.spread()
    );
    Line::new("apply")
        .with("nodes", nodes)
        .with("connections", CONNECTIONS)
        .at_least("ratio", whole.median() / raw.median(), "limit", RATIO_LIMIT)
        .measured("writes_ratio", writes.median() / raw.median())
        .measured("raw_per_s", raw.median())
        .measured("apply_per_s", whole.median())
        .measured("writes_per_s", writes.median())
        .measured("peak_rss_mib", rss.max())
        .print();
}
