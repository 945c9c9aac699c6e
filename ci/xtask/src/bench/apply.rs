//! `bench apply`: a whole `cilium-ipam apply` on a real API server, against a raw loop of the same
//! PATCHes: the fastest of several, over HTTP/1.1 and HTTP/2 with 16 to 64 of them in flight.
//!
//! Both write the same number of Nodes of the same shape. The Nodes are created before each run and
//! deleted after it, so no run finds a server that another has warmed or filled. They alternate in
//! going first.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use testbed::{ControlPlane, Program, build};
use xtask::line::Line;
use xtask::pools::Pools;
use xtask::tool::Tool;
use xtask::{cluster, fleet};

use crate::pairs::{PAIRS, Pairs};
use crate::process::{finished, timer};
use crate::raw::{self, Peer};
use crate::samples::Samples;

/// The size of the documented figure.
pub const NODES: usize = 2_000;
const RATIO_LIMIT: f64 = 0.95;
/// Prefix of the tool's line for a Node that the server has accepted.
const WRITTEN: &str = "written Node/";

#[derive(Default)]
struct Measured {
    whole: Pairs,
    writes: Pairs,
    /// From its start to the first Node that is written, in milliseconds.
    first: Samples,
    rss: Samples,
}

/// What one run of the tool gave: Nodes per second.
struct Applied {
    whole: f64,
    writes: f64,
    first_ms: f64,
    rss: f64,
}

pub fn run(tool: &Path, nodes: usize) -> Result<()> {
    let tool = Tool::new(tool)?;
    let programs = build(&[Program::KubeApiserver, Program::Etcd, Program::RawLoop])?;
    let plane = cluster::start_with(&programs, cluster::options())?;
    let pools = Pools::racks()?;
    let raw = |peer: Peer, nodes: usize| -> Result<f64> {
        fleet::create_nodes(&plane, 0..nodes)?;
        let rate = peer.rate(&programs, &plane, &raw::patches(&plane)?)?;
        plane.delete("/api/v1/nodes")?;
        Ok(rate)
    };
    let ours = || -> Result<Applied> {
        fleet::create_nodes(&plane, 0..nodes)?;
        let applied = run_tool(&tool, &plane, &pools, nodes)?;
        plane.delete("/api/v1/nodes")?;
        Ok(applied)
    };
    let peer = fastest(nodes, raw)?;
    let mut measured = Measured::default();
    for round in 0..PAIRS {
        eprintln!(
            "bench apply: pair {} of {PAIRS}, twice {nodes} Nodes",
            round + 1
        );
        let (applied, limit) = if round % 2 == 0 {
            let limit = raw(peer, nodes)?;
            (ours()?, limit)
        } else {
            (ours()?, raw(peer, nodes)?)
        };
        measured.whole.add(applied.whole, limit);
        measured.writes.add(applied.writes, limit);
        measured.first.add(applied.first_ms);
        measured.rss.add(applied.rss);
    }
    report(&measured, nodes, peer);
    Ok(())
}

/// The raw loop that the server serves best, by a third of the Nodes each; twice, because the first
/// run of all finds a cold server.
fn fastest(nodes: usize, raw: impl Fn(Peer, usize) -> Result<f64>) -> Result<Peer> {
    let mut best = (0.0, Peer::ALL[0]);
    let mut rates = Peer::ALL.map(|peer| (peer, Samples::default()));
    for _ in 0..2 {
        for (peer, rate) in &mut rates {
            rate.add(raw(*peer, nodes / 3)?);
        }
    }
    for (peer, rate) in &rates {
        println!("raw PATCH loop {peer}, nodes/s: {}", rate.spread());
        if rate.max() > best.0 {
            best = (rate.max(), *peer);
        }
    }
    Ok(best.1)
}

/// With the tool's own choice of how many writes are in flight.
fn run_tool(tool: &Tool, plane: &ControlPlane, pools: &Pools, nodes: usize) -> Result<Applied> {
    let [apply, approve, kubeconfig] = ["apply", "--auto-approve", "--kubeconfig"].map(OsStr::new);
    let server = plane.kubeconfig().as_os_str();
    let words = tool.words(&[apply, pools.path(), approve, kubeconfig, server]);
    let began = Instant::now();
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
    let [first, .., last] = writes[..] else {
        bail!("{} of {nodes} Nodes were written", writes.len());
    };
    ensure!(
        writes.len() == nodes,
        "{} of {nodes} Nodes were written",
        writes.len()
    );
    Ok(Applied {
        whole: rate(nodes, run.milliseconds / 1e3),
        writes: rate(nodes - 1, last.duration_since(first).as_secs_f64()),
        first_ms: first.duration_since(began).as_secs_f64() * 1e3,
        rss: run.peak_rss_mib,
    })
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

fn report(measured: &Measured, nodes: usize, peer: Peer) {
    let Measured {
        whole,
        writes,
        first,
        rss,
    } = measured;
    println!("raw PATCH loop {peer}, nodes/s: {}", whole.theirs.spread());
    println!(
        "apply, from the first write to the last, nodes/s: {}",
        writes.ours.spread()
    );
    println!("… against the raw loop: {}", writes.spread());
    println!(
        "apply, whole process with planning, nodes/s: {}",
        whole.ours.spread()
    );
    println!("apply, start to first write, ms: {}", first.spread());
    let line = Line::new("apply").with("nodes", nodes).with("peer", peer);
    whole
        .at_least(line, "ratio", RATIO_LIMIT)
        .measured("writes_ratio", writes.ratio())
        .measured("raw_per_s", whole.theirs.median())
        .measured("apply_per_s", whole.ours.median())
        .measured("writes_per_s", writes.ours.median())
        .measured("first_write_ms", first.median())
        .measured("peak_rss_mib", rss.max())
        .print();
}
