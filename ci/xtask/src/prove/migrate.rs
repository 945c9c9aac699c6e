//! `prove migrate`: nodes move from one flat pool to a pool for each rack while the tool is killed
//! again and again, on a real control plane with Pods and budgets.
//!
//! The agents are played; `testbed::RackCluster` says by which facts.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testbed::{Block, Client, FlatBlocks, RackCluster, RackOptions, Random};
use xtask::line::Line;
use xtask::tool::Tool;

/// Enough for several waves. 1,000 nodes in 40 racks take half an hour.
pub const NODES: usize = 24;
const PODS_PER_NODE: usize = 2;
/// Steps that a node's move prints at least. The kills are spread over it, so that each of them
/// finds a migration that is not over.
const STEPS_PER_NODE: usize = 5;
/// Steps that a program prints before it goes on where another one was killed.
const FIRST_STEPS: usize = 3;
/// A kill comes at most this long after a step.
const LONGEST_DELAY: Duration = Duration::from_millis(50);
/// The Nodes' blocks at first, and the space of the racks.
const FLAT: &str = "10.64.0.0/12";
const BUDGETS: &str = "/apis/policy/v1/poddisruptionbudgets";
/// The exit code of a migration that is over.
const DONE: i32 = 0;
/// The exit code after a lost race: a request of a killed program may arrive late.
const LOST: i32 = 6;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Kills that hit a running migration.
    #[arg(long, value_name = "N", default_value_t = 12)]
    times: usize,
    /// Racks, and pools.
    #[arg(long, value_name = "N", default_value_t = 3)]
    racks: usize,
}

#[derive(Default)]
struct Counts {
    kills: usize,
    runs: usize,
}

pub fn run(tool: &Tool, nodes: usize, seed: u64, arguments: &Arguments) -> Result<()> {
    let Arguments { times, racks } = *arguments;
    eprintln!("prove migrate: --seed {seed}");
    let options = RackOptions {
        nodes,
        racks,
        pods_per_node: PODS_PER_NODE,
        disruptions: (nodes / racks).max(1) * PODS_PER_NODE / 2,
        flat: FlatBlocks {
            range: FLAT.to_owned(),
            size: 24,
        },
        ..RackOptions::default()
    };
    let cluster = RackCluster::start(&options)?;
    let folder = tempfile::tempdir()?;
    fs::write(
        folder.path().join("pools.yaml"),
        pools(racks, nodes.div_ceil(racks)),
    )?;
    let start = Instant::now();
    let budgets = BudgetWatch::start(Client::of_kubeconfig(cluster.plane.kubeconfig())?);
    let counts = migrate(tool, &cluster, folder.path(), nodes, seed, times)?;
    let took = start.elapsed();
    cluster.wait_ready()?;
    let status = last_status(tool, &cluster)?;
    Line::new("migrate")
        .with("nodes", nodes)
        .with("racks", racks)
        .with("seconds", took.as_secs())
        .with("runs", counts.runs)
        .required_least("kills", counts.kills, times)
        .required("duplicates", cluster.agents.faults().len(), 0)
        .required("budget_violations", budgets.violations(), 0)
        .required("outside_their_rack", outside(&cluster)?, 0)
        .required(
            "agents_restarted_more_than_once",
            restarted_again(&cluster),
            0,
        )
        .required("left_cordoned", left_cordoned(&cluster)?, 0)
        .required("state", status, "done".to_owned())
        .conclude()
}

/// A pool for each rack, each a power of two of blocks, behind the flat blocks.
fn pools(racks: usize, nodes: usize) -> String {
    let size = nodes.next_power_of_two() * 2;
    let bits = size.trailing_zeros();
    let policy = "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: {limits: {failureDomain: rack}, migration: {maxUnavailable: 10}}\n";
    let pools = (0..racks).map(|rack| {
        let first = (0x0A48_0000_u32) + u32::try_from(rack * size * 256).unwrap_or(0);
        let [a, b, c, d] = first.to_be_bytes();
        let prefix = 24 - bits;
        format!(
            "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPPool\nmetadata: {{name: r{rack}}}\nspec: {{cidrs: [{a}.{b}.{c}.{d}/{prefix}], blockSize: 24, nodeSelector: {{matchLabels: {{rack: r{rack}}}}}}}\n"
        )
    });
    let documents: Vec<String> = pools.chain([policy.to_owned()]).collect();
    documents.join("---\n")
}

fn command(tool: &Tool, cluster: &RackCluster, arguments: &[&str]) -> Command {
    let mut command = tool.command();
    command
        .args(arguments)
        .arg("--kubeconfig")
        .arg(cluster.plane.kubeconfig())
        .arg("--no-input")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Applies, kills and resumes until all nodes are moved.
fn migrate(
    tool: &Tool,
    cluster: &RackCluster,
    folder: &std::path::Path,
    nodes: usize,
    seed: u64,
    times: usize,
) -> Result<Counts> {
    let directory = folder.to_str().context("the folder's name is no text")?;
    let mut random = Random::new(seed);
    let mut counts = Counts::default();
    // The Lease of a killed program would keep the next one waiting; the records exclude it too.
    let apply = ["migrate", "apply", directory, "--auto-approve", "--no-lock"];
    let resume = ["migrate", "resume", directory, "--no-lock"];
    let most_steps = (nodes * STEPS_PER_NODE / times.max(1)).max(1);
    loop {
        let is_begun = has_begun(cluster)?;
        let arguments: &[&str] = if is_begun { &resume } else { &apply };
        let mut child = command(tool, cluster, arguments)
            .stderr(Stdio::piped())
            .spawn()?;
        counts.runs += 1;
        let steps = match counts.kills < times {
            true => FIRST_STEPS + random.below(most_steps),
            false => usize::MAX,
        };
        if read_steps(&mut child, steps)? == steps {
            let micros = random.below(usize::try_from(LONGEST_DELAY.as_micros())?);
            // The moment of the kill is what varies, so it waits for no event.
            thread::sleep(Duration::from_micros(u64::try_from(micros)?));
            child.kill()?;
            child.wait()?;
            counts.kills += 1;
            continue;
        }
        let status = child.wait()?;
        if status.code() == Some(LOST) {
            continue;
        }
        ensure!(
            status.code() == Some(DONE),
            "`migrate` ended with {status}: {}",
            talk(tool, cluster)?
        );
        return Ok(counts);
    }
}

/// Reads this many steps of nodes, or all.
fn read_steps(child: &mut Child, most: usize) -> Result<usize> {
    let progress = child.stderr.as_mut().context("its stderr is not read")?;
    Ok(steps_in(BufReader::new(progress), most))
}

/// Only lines of a node are steps. The schedule, which has many more lines, comes before them.
fn steps_in(progress: impl BufRead, most: usize) -> usize {
    let lines = progress.lines().map_while(|line| line.ok());
    let steps = lines.filter(|line| line.starts_with("worker-"));
    steps.take(most).count()
}

fn talk(tool: &Tool, cluster: &RackCluster) -> Result<String> {
    let mut status = command(tool, cluster, &["migrate", "status"]);
    let output = status.stdout(Stdio::piped()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn has_begun(cluster: &RackCluster) -> Result<bool> {
    let path = "/api/v1/namespaces/kube-system/configmaps";
    let maps = cluster.plane.list(path)?;
    let is_it = |map: &Value| map["metadata"]["name"] == "cilium-ipam-migration";
    Ok(maps.iter().any(is_it))
}

fn last_status(tool: &Tool, cluster: &RackCluster) -> Result<String> {
    let mut status = command(tool, cluster, &["migrate", "status", "-o", "json"]);
    let output = status.stdout(Stdio::piped()).output()?;
    let status: Value = serde_json::from_slice(&output.stdout)?;
    Ok(status["migration"]["state"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// Whether fewer Pods are healthy than the budget wants.
fn is_violated(budget: &Value) -> bool {
    let number = |key: &str| budget["status"][key].as_i64();
    number("currentHealthy") < number("desiredHealthy")
}

/// Counts the states of budgets that the server stores and that are violated.
#[derive(Default)]
struct BudgetWatch {
    violations: AtomicUsize,
    is_over: AtomicBool,
}

impl BudgetWatch {
    /// Its thread ends with its watch, at the latest when the API server does.
    fn start(client: Client) -> Arc<BudgetWatch> {
        let watch = Arc::new(BudgetWatch::default());
        let watching = watch.clone();
        thread::spawn(move || {
            while !watching.is_over.load(Ordering::Relaxed) {
                // A watch that ends early begins again with a list.
                let _ = watching.follow(&client);
            }
        });
        watch
    }

    fn follow(&self, client: &Client) -> testbed::Result<()> {
        let list = client.get(BUDGETS)?;
        let items = list["items"].as_array().into_iter().flatten();
        items.for_each(|budget| self.count(budget));
        let from = list["metadata"]["resourceVersion"].as_str();
        client.watch(BUDGETS, from.unwrap_or_default(), |event| {
            self.count(&event["object"]);
            match event["type"] == "ERROR" || self.is_over.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
    }

    fn count(&self, budget: &Value) {
        let violated = usize::from(is_violated(budget));
        self.violations.fetch_add(violated, Ordering::Relaxed);
    }

    fn violations(&self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.violations.load(Ordering::Relaxed)
    }
}

fn outside(cluster: &RackCluster) -> Result<usize> {
    let flat: Block = "10.64.0.0/13".parse().map_err(anyhow::Error::msg)?;
    let blocks: BTreeMap<String, Block> = cluster.agents.blocks();
    Ok(blocks
        .values()
        .filter(|block| flat.overlaps(**block))
        .count())
}

/// Each move restarts an agent once: two lives each.
fn restarted_again(cluster: &RackCluster) -> usize {
    let mut lives: BTreeMap<String, usize> = BTreeMap::new();
    for used in cluster.agents.uses() {
        *lives.entry(used.node).or_default() += 1;
    }
    lives.values().filter(|count| **count != 2).count()
}

fn left_cordoned(cluster: &RackCluster) -> Result<usize> {
    let nodes = cluster.plane.list("/api/v1/nodes")?;
    let is_left = |node: &&Value| {
        let mark = &node["metadata"]["annotations"]["cilium-ipam.io/migration"];
        !node["spec"]["unschedulable"].is_null() || !mark.is_null()
    };
    Ok(nodes.iter().filter(is_left).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_falls_between_steps_and_not_into_the_schedule() {
        let progress = "Move 2 nodes, in 2 waves\n  wave 1: worker-1\n\nworker-1: cordoned\nworker-1: drained\nwaiting for the lock\nworker-2: cordoned\n";
        assert_eq!(steps_in(progress.as_bytes(), 9), 3);
        assert_eq!(steps_in(progress.as_bytes(), 2), 2);
        // Without a node's line there was no step, so a kill would not count.
        let schedule = progress.split_inclusive("\n\n").next();
        assert_eq!(steps_in(schedule.unwrap_or_default().as_bytes(), 9), 0);
    }
}
