//! `prove restarts`: kube-apiserver and etcd end and come back while appliers write, twice on an
//! older snapshot. The appliers either recover, or list exactly what they have not applied, and
//! the next one applies it.
//!
//! An apply has no memory, so blocks that a snapshot lacks are lost to it. `prove restore` shows
//! that `watch` remembers them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::{ControlPlane, Ending, Program, Programs, Revision, Snapshot, build};
use xtask::line::Line;
use xtask::tool::Tool;
use xtask::{cluster, fleet};

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
/// Where Kubernetes keeps Nodes in etcd.
const NODE_KEYS: &str = "/registry/minions/";
const WRITE_LIMIT: Duration = Duration::from_secs(60);
/// An apply that has the cluster to itself needs one run. A second one may be forgiven after a
/// restart.
const RUNS: usize = 3;

/// What is restarted.
#[derive(Clone, Copy, Debug)]
enum Restart {
    Apiserver(Ending),
    Etcd(Ending),
    /// Both, on a snapshot of a while ago.
    Restore(Revision),
}

/// When it begins.
#[derive(Clone, Copy, Debug)]
enum When {
    /// There are claims, and perhaps no writes yet.
    Claimed,
    /// A part is written.
    Written,
}

const ROUNDS: [(Restart, When); 7] = [
    (Restart::Apiserver(Ending::Terminated), When::Written),
    (Restart::Apiserver(Ending::Killed), When::Written),
    (Restart::Apiserver(Ending::Killed), When::Claimed),
    (Restart::Etcd(Ending::Terminated), When::Written),
    (Restart::Etcd(Ending::Killed), When::Written),
    (Restart::Restore(Revision::AsSaved), When::Written),
    (Restart::Restore(Revision::Bumped), When::Written),
];

#[derive(Default)]
struct Counts {
    /// Restarts in the middle of an apply.
    restarts: usize,
    /// Rounds in which writes were lost with what came after a snapshot.
    rolled_back: usize,
    appliers: usize,
    /// Appliers that did everything all the same.
    survived: usize,
    /// Of applies until all nodes had a block.
    most_runs: usize,
    /// What appliers said they had written, and the Nodes do not show.
    untrue: usize,
}

pub fn run(tool: &Tool, nodes: usize) -> Result<()> {
    let programs = build(&[
        Program::KubeApiserver,
        Program::Etcd,
        Program::Etcdctl,
        Program::Etcdutl,
    ])?;
    let mut trial = Trial::start_with(tool, &programs, cluster::options())?;
    let pools = Space::WHOLE.plain()?;
    let mut counts = Counts::default();
    for (restart, when) in ROUNDS {
        trial.plane.delete(xtask::node::NODES)?;
        fleet::create_nodes(&trial.plane, 0..nodes)?;
        let manner = Manner {
            parallelism: PARALLELISM,
            ..trial.manner()
        };
        // Alike, so that neither is in the other's way, and each may end with 0.
        let mut appliers = start_all(&manner, [&pools; APPLIERS])?;
        when.wait(&trial.plane, nodes)?;
        let snapshot = restart.snapshot(&trial.plane, &programs, nodes)?;
        counts.restarts += usize::from(is_any_running(&mut appliers)?);
        let before = trial.look()?;
        // Appliers write until the very end, so only etcd knows what a restore loses.
        let forgotten = match restart.run(&mut trial.plane, &programs, snapshot.as_ref())? {
            Some(lost) => lost,
            None => before.lost_in(&trial.look()?),
        };
        counts.rolled_back += usize::from(!forgotten.is_empty());
        let mut codes = Vec::new();
        for applier in appliers {
            let ended = applier
                .wait()?
                .expect(&[DONE, BEATEN, PARTLY, UNREACHABLE])?;
            codes.push(ended.code().unwrap_or_default());
            if ended.code() != Some(DONE) {
                eprintln!("{}", ended.end_of_talk());
            }
            counts.add(&ended, &trial.look()?, &forgotten)?;
        }
        let runs = trial.converge(&pools, RUNS)?;
        counts.most_runs = counts.most_runs.max(runs);
        eprintln!(
            "prove restarts: {restart:?} when {when:?}: {} forgotten, exit codes {codes:?}, then {runs} more",
            forgotten.len()
        );
    }
    report(&trial, &counts, nodes)
}

impl Restart {
    /// One of now, and then more is written, if it restores one.
    fn snapshot(
        self,
        plane: &ControlPlane,
        programs: &Programs,
        nodes: usize,
    ) -> Result<Option<Snapshot>> {
        let Self::Restore(_) = self else {
            return Ok(None);
        };
        let snapshot = plane.save_snapshot(programs)?;
        let written = || {
            Ok::<_, anyhow::Error>(nodes - Holdings::read(plane.client())?.without_block().count())
        };
        let saved = written()?;
        wait_for("more writes", || Ok(written()? > saved))?;
        Ok(Some(snapshot))
    }

    /// Restarts it. Returns the nodes whose last writes a restore loses.
    fn run(
        self,
        plane: &mut ControlPlane,
        programs: &Programs,
        snapshot: Option<&Snapshot>,
    ) -> Result<Option<BTreeSet<String>>> {
        match self {
            Self::Apiserver(ending) => plane.restart_apiserver(ending)?,
            Self::Etcd(ending) => plane.restart_etcd(ending)?,
            Self::Restore(revision) => {
                let snapshot = snapshot.context("no snapshot")?;
                let keys = plane.restore(programs, snapshot, revision, || ())?;
                let nodes = keys.iter().filter_map(|key| key.strip_prefix(NODE_KEYS));
                return Ok(Some(nodes.map(str::to_owned).collect()));
            }
        }
        Ok(None)
    }
}

impl When {
    fn wait(self, plane: &ControlPlane, nodes: usize) -> Result<()> {
        wait_for(&format!("{self:?}"), || self.is_reached(plane, nodes))
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

fn wait_for(what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !is_so()? {
        ensure!(
            start.elapsed() < WRITE_LIMIT,
            "no applier reached this: {what}"
        );
    }
    Ok(())
}

fn is_any_running(appliers: &mut [Applier]) -> Result<bool> {
    let mut any = false;
    for applier in appliers {
        any |= applier.is_running()?;
    }
    Ok(any)
}

impl Counts {
    /// Nodes are not deleted here. So every written block must still exist, except those that a
    /// snapshot lacks, and no change is listed twice.
    fn add(
        &mut self,
        ended: &Ended,
        holdings: &Holdings,
        forgotten: &BTreeSet<String>,
    ) -> Result<()> {
        self.appliers += 1;
        self.survived += usize::from(ended.code() == Some(DONE));
        let mut listed = BTreeSet::new();
        for list in ["applied", "not_applied", "unknown"] {
            for change in ended.reported(list) {
                ensure!(
                    listed.insert(change.node.clone()),
                    "{} is listed twice",
                    change.node
                );
            }
        }
        for change in ended
            .applied()
            .iter()
            .filter(|change| !forgotten.contains(&change.node))
        {
            let shown: Vec<&Prefix> = holdings.blocks_of(&change.node).collect();
            let wanted = change
                .blocks
                .iter()
                .map(|block| Prefix::parse(block))
                .collect::<Result<Vec<_>>>()?;
            if !wanted.iter().all(|block| shown.contains(&block)) {
                eprintln!("not so: {} shows {}", change.node, change.blocks.join(" "));
                self.untrue += 1;
            }
        }
        Ok(())
    }
}

fn report(trial: &Trial<'_>, counts: &Counts, nodes: usize) -> Result<()> {
    let Counts {
        restarts,
        rolled_back,
        appliers,
        survived,
        most_runs,
        untrue,
    } = counts;
    Line::new("restarts")
        .required("restarts", *restarts, ROUNDS.len())
        .required(
            "rolled_back",
            *rolled_back,
            ROUNDS
                .iter()
                .filter(|(restart, _)| matches!(restart, Restart::Restore(_)))
                .count(),
        )
        .with("nodes", nodes)
        .with("appliers", appliers)
        .with("survived", survived)
        .with("runs_until_convergence", most_runs)
        .required("untrue", *untrue, 0)
        .required("duplicates", trial.duplicates(), 0)
        .required("converged", trial.convergence(), Convergence::Yes)
        .conclude()
}
