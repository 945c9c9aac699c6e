//! `prove rival`: kube-controller-manager gives blocks of the same range to the same nodes, and the
//! Policy says wrongly that it does not. Nodes register all the time, and each of them ends with what
//! exactly one of the two has written.
//!
//! The rival keeps no claims, so a block that both give at the same moment is held twice, whatever
//! the tool does. The tool promises this, and the proof requires it: it never gives a block that a
//! Node showed before, never gives one twice by itself, and names each that is held twice.

use std::collections::{BTreeMap, BTreeSet};
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

use crate::applier::{BEATEN, DONE, Ended, PARTLY};
use crate::directories::Space;
use crate::holdings::Holdings;
use crate::prefix::Prefix;
use crate::trial::{Convergence, Trial, start_all};

/// Ten gusts.
pub const NODES: usize = 800;
const APPLIERS: usize = 3;
/// Nodes that register at once. The rival may not write that many at once or during an apply on a
/// busy machine, so neither of the two gets all.
const GUST: usize = 80;
/// The rival has our range and our block size.
const RIVAL_FLAGS: [&str; 6] = [
    "--controllers=node-ipam-controller",
    "--allocate-node-cidrs=true",
    "--cluster-cidr=10.0.0.0/10",
    "--node-cidr-mask-size=26",
    "--kube-api-qps=20",
    "--kube-api-burst=10",
];
/// The field managers of the two.
const OUR_NAME: &str = "cilium-ipam";
const RIVAL_NAME: &str = "kube-controller-manager";
/// How a plan names a block that two nodes hold.
const HELD_TWICE: &str = "duplicate-block";
/// Time for the rival to empty its queue.
const REST_LIMIT: Duration = Duration::from_secs(120);
/// Several runs: the rival may still win a node of the last apply.
const RUNS: usize = 5;

/// How the applies went that ran beside it.
#[derive(Default)]
struct Contest {
    runs: usize,
    /// Changes that lost a race.
    lost: usize,
    /// Blocks that an apply gave although another Node showed them before it started.
    against_sight: usize,
}

/// The number of nodes that each of the two gave a block.
#[derive(Default)]
struct Won {
    ours: usize,
    rivals: usize,
    /// Nodes with more than one block, with one of neither, or written by both.
    disputed: usize,
    /// Pairs of nodes that share a block, both of which we gave.
    twice_by_us: usize,
    /// Pairs of nodes that share a block otherwise.
    crossed: usize,
}

pub fn run(tool: &Tool, nodes: usize) -> Result<()> {
    let programs = build(&[
        Program::KubeApiserver,
        Program::Etcd,
        Program::KubeControllerManager,
    ])?;
    let mut trial = Trial::start_with(tool, &programs, xtask::cluster::options())?;
    let rival = ControllerManager::start(&programs, &trial.plane, &RIVAL_FLAGS)?;
    let pools = Space::WHOLE.beside_controller_manager()?;
    let contest = contest(&trial, &pools, nodes)?;
    trial.converge(&pools, RUNS)?;
    wait_for_rest(&trial.plane)?;
    drop(rival);
    let won = count(&trial.plane.list(xtask::node::NODES)?)?;
    let named = trial.manner().findings(&pools, HELD_TWICE)?;
    report(&trial, &contest, &won, nodes, named)
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
            let before = Holdings::read(trial.plane.client())?;
            for applier in start_all(&trial.manner(), [pools; APPLIERS])? {
                let ended = applier.wait()?.expect(&[DONE, BEATEN, PARTLY])?;
                contest.runs += 1;
                contest.lost += ended.reported("not_applied").len();
                contest.against_sight += against_sight(&ended, &before)?;
            }
        }
        registrations
            .join()
            .map_err(|_| anyhow!("the thread of registrations panicked"))??;
        Ok(contest)
    })
}

/// How many blocks an apply gave that another node showed before.
fn against_sight(ended: &Ended, before: &Holdings) -> Result<usize> {
    let mut found = 0;
    for change in ended.applied() {
        for block in &change.blocks {
            for holder in before
                .holders(&Prefix::parse(block)?)
                .filter(|holder| *holder != change.node)
            {
                eprintln!(
                    "against sight: {} got {block}, which {holder} showed before",
                    change.node
                );
                found += 1;
            }
        }
    }
    Ok(found)
}

fn register(plane: &ControlPlane, nodes: usize) -> Result<()> {
    for first in (0..nodes).step_by(GUST) {
        fleet::create_nodes(plane, first..nodes.min(first + GUST))?;
        wait_for_rest(plane)?;
    }
    Ok(())
}

fn wait_for_rest(plane: &ControlPlane) -> Result<()> {
    Ok(wait_until(
        "every node to have a block",
        REST_LIMIT,
        || {
            let nodes = plane.list(xtask::node::NODES)?;
            Ok(nodes
                .iter()
                .all(|node| node["spec"]["podCIDRs"].is_array())
                .then_some(()))
        },
    )?)
}

fn count(nodes: &[Value]) -> Result<Won> {
    let mut won = Won::default();
    let mut givers: BTreeMap<Prefix, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        match giver(node) {
            Some((OUR_NAME, block)) => {
                won.ours += 1;
                givers
                    .entry(Prefix::parse(block)?)
                    .or_default()
                    .push(OUR_NAME);
            }
            Some((RIVAL_NAME, block)) => {
                won.rivals += 1;
                givers
                    .entry(Prefix::parse(block)?)
                    .or_default()
                    .push(RIVAL_NAME);
            }
            _ => {
                eprintln!("disputed: {}: {}", node["metadata"]["name"], node["spec"]);
                won.disputed += 1;
            }
        }
    }
    // All blocks are as large, so two of them are the same or have nothing in common.
    for givers in givers.values() {
        let (all, ours) = (
            pairs(givers.len()),
            pairs(givers.iter().filter(|name| **name == OUR_NAME).count()),
        );
        won.twice_by_us += ours;
        won.crossed += all - ours;
    }
    Ok(won)
}

fn pairs(of: usize) -> usize {
    of * of.saturating_sub(1) / 2
}

/// The only block of the node, and the only one who has ever written the field.
fn giver(node: &Value) -> Option<(&str, &str)> {
    let [Value::String(block)] = node["spec"]["podCIDRs"].as_array()?.as_slice() else {
        return None;
    };
    let managers: BTreeSet<&str> = node["metadata"]["managedFields"]
        .as_array()?
        .iter()
        .filter(|entry| !entry["fieldsV1"]["f:spec"]["f:podCIDRs"].is_null())
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    let mut managers = managers.into_iter();
    Some((managers.next()?, block.as_str())).filter(|_| managers.next().is_none())
}

fn report(
    trial: &Trial<'_>,
    contest: &Contest,
    won: &Won,
    nodes: usize,
    named: usize,
) -> Result<()> {
    let Contest {
        runs,
        lost,
        against_sight,
    } = contest;
    let Won {
        ours,
        rivals,
        disputed,
        twice_by_us,
        crossed,
    } = won;
    Line::new("rival")
        .with("nodes", nodes)
        .with("runs", runs)
        .with("lost_races", lost)
        // Unless both win some, there was no contest.
        .required_least("ours", *ours, 1)
        .required_least("rivals", *rivals, 1)
        .required("disputed", *disputed, 0)
        .required("against_sight", *against_sight, 0)
        .required("twice_by_us", *twice_by_us, 0)
        .with("given_by_both_at_once", crossed)
        .required("named", named, *crossed)
        .required("converged", trial.convergence(), Convergence::Yes)
        .conclude()
}
