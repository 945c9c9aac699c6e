//! `prove faulty`: a large file with very many faults appears in the directory of `watch` again and
//! again while nodes join. They get their blocks as fast as without it; the same run measures both.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::Random;
use xtask::line::Line;
use xtask::pools::{Pools, pool};
use xtask::running::Running;
use xtask::tool::Tool;
use xtask::{fleet, node};

use crate::trial::Trial;

/// Nodes at the start.
pub const NODES: usize = 200;
/// Nodes that join with the file present, and as many without.
const JOINS: usize = 40;
/// Size of the file, in bytes.
const SIZE: usize = 512 * 1024;
/// Longest pause between the file and the node, so that the node meets any part of the work.
const PAUSE_MS: usize = 1_000;
/// How much longer a node may wait than the slowest one without the file, in milliseconds. Reading
/// takes the time of another thread, and machines have few.
const SLACK_MS: f64 = 1_000.0;
const AT_MOST: Duration = Duration::from_secs(120);

pub fn run(tool: &Tool, nodes: usize, seed: u64) -> Result<()> {
    let mut trial = Trial::start(tool)?;
    let pools = Pools::racks()?;
    fleet::create_nodes(&trial.plane, 0..nodes)?;
    let watch = [OsStr::new("watch"), pools.path()];
    let running = Running::start(tool, &watch, trial.plane.kubeconfig())?;
    for _ in 0..nodes {
        running.until("written", None)?;
    }
    let mut random = Random::new(seed);
    let without = (0..JOINS)
        .map(|join| waited(&trial, nodes + join))
        .collect::<Result<Vec<f64>>>()?;
    let mut with = Vec::new();
    for join in 0..JOINS {
        let file = Path::new(pools.path()).join("faulty.yaml");
        std::fs::write(file, faults(join)).context("the file cannot be written")?;
        std::thread::sleep(Duration::from_millis(random.below(PAUSE_MS) as u64));
        with.push(waited(&trial, nodes + JOINS + join)?);
    }
    running.until("invalid", None)?;
    let told = 1 + running
        .said()
        .filter(|line| line["event"] == "invalid")
        .count();
    trial.look()?;
    let (usual, slowest) = (slowest(&without), slowest(&with));
    Line::new("faulty")
        .with("nodes", nodes)
        .with("seed", seed)
        .with("joins", JOINS)
        .with("file_kib", SIZE >> 10)
        .with("told", told)
        .measured("median_without_ms", median(&without))
        .measured("median_with_ms", median(&with))
        .measured("slowest_without_ms", usual)
        .measured("slowest_with_ms", slowest)
        .with("slack_ms", SLACK_MS)
        .required(
            "in_time",
            if slowest <= usual + SLACK_MS {
                "yes"
            } else {
                "no"
            },
            "yes",
        )
        .required("duplicates", trial.duplicates(), 0)
        .conclude()
}

/// From a node's creation to its block, in milliseconds, as the server shows both.
fn waited(trial: &Trial<'_>, index: usize) -> Result<f64> {
    trial.plane.create(node::NODES, &node::node(index))?;
    let began = Instant::now();
    while trial.plane.get(&node::path(index))?["spec"]["podCIDR"].is_null() {
        ensure!(
            began.elapsed() < AT_MOST,
            "node {} has no block",
            node::name(index)
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// A pool with as many faults in one line as fit; each turn has another file.
fn faults(turn: usize) -> String {
    pool(
        &format!("faulty-{turn}"),
        &format!(
            "cidrs: [172.30.0.0/24], blockSize: 26, reserved: [{}]",
            "é, ".repeat(SIZE / 4)
        ),
    )
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn slowest(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}
