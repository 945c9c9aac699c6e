//! `prove rival`: kube-controller-manager gives blocks to the same nodes and the tool cannot know of it. Nodes register all
//! the time, and each of them ends with what exactly one of the two has written.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde_json::Value;
use testbed::{ControlPlane, ControllerManager, Program, build, wait_until};
use xtask::fleet;
use xtask::line::Line;
use xtask::pools::Pools;
use xtask::tool::Tool;

use crate::applier::{BEATEN, DONE, PARTLY};
use crate::directories::Space;
use crate::prefix::Prefix;
use crate::trial::{Convergence, Trial, start_all};

/// Ten gusts.
pub const NODES: usize = 800;
const APPLIERS: usize = 3;
/// So many nodes register at once. It is more than the rival may write at once, so neither of the two gets everything.
const GUST: usize = 80;
const RIVAL_RANGE: &str = "10.192.0.0/10";
const RIVAL_FLAGS: [&str; 6] = [
    "--controllers=node-ipam-controller",
    "--allocate-node-cidrs=true",
    "--cluster-cidr=10.192.0.0/10",
    "--node-cidr-mask-size=26",
    "--kube-api-qps=60",
    "--kube-api-burst=30",
];
/// The names that they write under.
const OUR_NAME: &str = "cilium-ipam";
const RIVAL_NAME: &str = "kube-controller-manager";
/// The rival works off its queue.
const REST_LIMIT: Duration = Duration::from_secs(120);
/// It may still be faster with a node that the last apply has planned for.
const RUNS: usize = 5;

/// How the applies went that ran beside it.
#[derive(Default)]
struct Contest {
    runs: usize,
    /// Changes that somebody else was faster with.
    lost: usize,
}

/// Who gave how many nodes their blocks.
#[derive(Default)]
struct Won {
    ours: usize,
    rivals: usize,
    /// Nodes with more than one block, with one of neither, or written by both.
    disputed: usize,
}

/// Runs it and prints its line.
pub fn run(tool: &Tool, nodes: usize) -> Result<()> {
    let programs = build(&[Program::KubeApiserver, Program::Etcd, Program::KubeControllerManager])?;
    let mut trial = Trial::start_with(tool, &programs, xtask::cluster::options())?;
    let rival = ControllerManager::start(&programs, &trial.plane, &RIVAL_FLAGS)?;
    let pools = Space::WHOLE.plain()?;
    let contest = contest(&trial, &pools, nodes)?;
    trial.converge(&pools, RUNS)?;
    wait_for_rest(&trial.plane)?;
    drop(rival);
    trial.look()?;
    let won = count(&trial.plane.list(xtask::node::NODES)?)?;
    report(&trial, &contest, &won, nodes)
}

/// Several appliers at once, over and over, until no further node comes.
fn contest(trial: &Trial<'_>, pools: &Pools, nodes: usize) -> Result<Contest> {
    let coming = AtomicBool::new(true);
    thread::scope(|scope| {
        let registrations = scope.spawn(|| {
            let result = register(&trial.plane, nodes);
            coming.store(false, Ordering::Release);
            result
        });
        let mut contest = Contest::default();
        while coming.load(Ordering::Acquire) {
            for applier in start_all(&trial.manner(), [pools; APPLIERS])? {
                let ended = applier.wait()?.expect(&[DONE, BEATEN, PARTLY])?;
                contest.runs += 1;
                contest.lost += ended.reported("not_applied").len();
            }
        }
        registrations.join().map_err(|_| anyhow!("the thread of registrations panicked"))??;
        Ok(contest)
    })
}

fn register(plane: &ControlPlane, nodes: usize) -> Result<()> {
    for first in (0..nodes).step_by(GUST) {
        fleet::create_nodes(plane, first..nodes.min(first + GUST))?;
        wait_for_rest(plane)?;
    }
    Ok(())
}

fn wait_for_rest(plane: &ControlPlane) -> Result<()> {
    Ok(wait_until("every node to have a block", REST_LIMIT, || {
        let nodes = plane.list(xtask::node::NODES)?;
        Ok(nodes.iter().all(|node| node["spec"]["podCIDRs"].is_array()).then_some(()))
    })?)
}

fn count(nodes: &[Value]) -> Result<Won> {
    let ours = (Prefix::parse(&Space::WHOLE.cidr())?, OUR_NAME);
    let rivals = (Prefix::parse(RIVAL_RANGE)?, RIVAL_NAME);
    let mut won = Won::default();
    for node in nodes {
        if is_won_by(node, &ours)? {
            won.ours += 1;
        } else if is_won_by(node, &rivals)? {
            won.rivals += 1;
        } else {
            eprintln!("disputed: {}: {}", node["metadata"]["name"], node["spec"]);
            won.disputed += 1;
        }
    }
    Ok(won)
}

/// Whether the only block of the node lies in this range, and nobody but this one has ever written the field.
fn is_won_by(node: &Value, (range, name): &(Prefix, &str)) -> Result<bool> {
    let [Value::String(block)] = node["spec"]["podCIDRs"].as_array().map_or(&[][..], Vec::as_slice) else {
        return Ok(false);
    };
    let managers: BTreeSet<&str> = node["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| !entry["fieldsV1"]["f:spec"]["f:podCIDRs"].is_null())
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    Ok(range.contains(&Prefix::parse(block)?) && managers == BTreeSet::from([*name]))
}

fn report(trial: &Trial<'_>, contest: &Contest, won: &Won, nodes: usize) -> Result<()> {
    let Contest { runs, lost } = contest;
    let Won { ours, rivals, disputed } = won;
    Line::new("rival")
        .with("nodes", nodes)
        .with("runs", runs)
        .with("lost_races", lost)
        // Unless both win some, there was no contest.
        .required_least("ours", *ours, 1)
        .required_least("rivals", *rivals, 1)
        .required("disputed", *disputed, 0)
        .required("duplicates", trial.duplicates(), 0)
        .required("converged", trial.convergence(), Convergence::Yes)
        .conclude()
}
