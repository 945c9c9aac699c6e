//! `prove restarts`: kube-apiserver and etcd end and come back while appliers write. Those either get over it, or list
//! exactly what they have not done, and the next one does it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testbed::{ControlPlane, Ending};
use xtask::fleet;
use xtask::line::Line;
use xtask::tool::Tool;

use crate::applier::{Applier, BEATEN, DONE, Ended, Manner, PARTLY, UNREACHABLE};
use crate::claims;
use crate::directories::Space;
use crate::holdings::Holdings;
use crate::prefix::Prefix;
use crate::trial::{Convergence, Trial, start_all};

/// With few writes at a time they take seconds.
pub const NODES: usize = 300;
const APPLIERS: usize = 2;
const PARALLELISM: usize = 2;
/// How much of them is written when the restart begins.
const SHARE: usize = 10;
const WRITE_LIMIT: Duration = Duration::from_secs(60);
/// An apply that has the cluster to itself needs one run. A second one may be forgiven after a restart.
const RUNS: usize = 3;

/// What is restarted.
#[derive(Clone, Copy, Debug)]
enum Restart {
    Apiserver(Ending),
    Etcd(Ending),
}

/// When it begins.
#[derive(Clone, Copy, Debug)]
enum When {
    /// There are claims, and perhaps no writes yet.
    Claimed,
    /// A part is written.
    Written,
}

const ROUNDS: [(Restart, When); 5] = [
    (Restart::Apiserver(Ending::Terminated), When::Written),
    (Restart::Apiserver(Ending::Killed), When::Written),
    (Restart::Apiserver(Ending::Killed), When::Claimed),
    (Restart::Etcd(Ending::Terminated), When::Written),
    (Restart::Etcd(Ending::Killed), When::Written),
];

#[derive(Default)]
struct Counts {
    /// Restarts in the middle of an apply.
    restarts: usize,
    appliers: usize,
    /// Appliers that did everything all the same.
    survived: usize,
    /// Of applies until all nodes had a block.
    most_runs: usize,
    /// What appliers said they had written, and the Nodes do not show.
    untrue: usize,
}

/// Runs it and prints its line.
pub fn run(tool: &Tool, nodes: usize) -> Result<()> {
    let mut trial = Trial::start(tool)?;
    let pools = Space::WHOLE.plain()?;
    let mut counts = Counts::default();
    for (restart, when) in ROUNDS {
        trial.plane.delete(xtask::node::NODES)?;
        fleet::create_nodes(&trial.plane, 0..nodes)?;
        let manner = Manner { parallelism: PARALLELISM, ..trial.manner() };
        // Alike, so that neither is in the other's way, and each may end with 0.
        let mut appliers = start_all(&manner, [&pools; APPLIERS])?;
        when.wait(&trial.plane, nodes)?;
        counts.restarts += usize::from(is_any_running(&mut appliers)?);
        restart.run(&mut trial.plane)?;
        let mut codes = Vec::new();
        for applier in appliers {
            let ended = applier.wait()?.expect(&[DONE, BEATEN, PARTLY, UNREACHABLE])?;
            codes.push(ended.code().unwrap_or_default());
            if ended.code() != Some(DONE) {
                eprintln!("{}", ended.end_of_talk());
            }
            counts.add(&ended, &trial.look()?)?;
        }
        let runs = trial.converge(&pools, RUNS)?;
        counts.most_runs = counts.most_runs.max(runs);
        eprintln!("prove restarts: {restart:?} when {when:?}: exit codes {codes:?}, then {runs} more");
    }
    report(&trial, &counts, nodes)
}

impl Restart {
    fn run(self, plane: &mut ControlPlane) -> Result<()> {
        match self {
            Self::Apiserver(ending) => plane.restart_apiserver(ending)?,
            Self::Etcd(ending) => plane.restart_etcd(ending)?,
        }
        Ok(())
    }
}

impl When {
    fn wait(self, plane: &ControlPlane, nodes: usize) -> Result<()> {
        let start = Instant::now();
        while !self.is_reached(plane, nodes)? {
            ensure!(start.elapsed() < WRITE_LIMIT, "no applier came as far as {self:?}");
        }
        Ok(())
    }

    fn is_reached(self, plane: &ControlPlane, nodes: usize) -> Result<bool> {
        let holdings = Holdings::read(plane.client())?;
        Ok(match self {
            // Those of earlier rounds may be there still.
            Self::Claimed => !claims::unwritten(plane.client(), &holdings)?.is_empty(),
            Self::Written => nodes - holdings.without_block().count() >= nodes / SHARE,
        })
    }
}

fn is_any_running(appliers: &mut [Applier]) -> Result<bool> {
    let mut any = false;
    for applier in appliers {
        any |= applier.is_running()?;
    }
    Ok(any)
}

impl Counts {
    /// Nodes are not deleted here, so what was written must be there still, and no change is listed twice.
    fn add(&mut self, ended: &Ended, holdings: &Holdings) -> Result<()> {
        self.appliers += 1;
        self.survived += usize::from(ended.code() == Some(DONE));
        let mut listed = BTreeSet::new();
        for list in ["applied", "not_applied", "unknown"] {
            for change in ended.reported(list) {
                ensure!(listed.insert(change.node.clone()), "{} is listed twice", change.node);
            }
        }
        for change in ended.applied() {
            let shown: Vec<&Prefix> = holdings.blocks_of(&change.node).collect();
            let wanted = change.blocks.iter().map(|block| Prefix::parse(block)).collect::<Result<Vec<_>>>()?;
            if !wanted.iter().all(|block| shown.contains(&block)) {
                eprintln!("not so: {} shows {}", change.node, change.blocks.join(" "));
                self.untrue += 1;
            }
        }
        Ok(())
    }
}

fn report(trial: &Trial<'_>, counts: &Counts, nodes: usize) -> Result<()> {
    let Counts { restarts, appliers, survived, most_runs, untrue } = counts;
    Line::new("restarts")
        .required("restarts", *restarts, ROUNDS.len())
        .with("nodes", nodes)
        .with("appliers", appliers)
        .with("survived", survived)
        .with("runs_until_convergence", most_runs)
        .required("untrue", *untrue, 0)
        .required("duplicates", trial.duplicates(), 0)
        .required("converged", trial.convergence(), Convergence::Yes)
        .conclude()
}
