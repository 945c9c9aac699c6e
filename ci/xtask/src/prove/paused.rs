//! `prove paused`: an applier is stopped with SIGSTOP after its claims and before its writes, and
//! resumes after the cluster has changed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testbed::{Program, Random, build, wait_until};
use xtask::line::Line;
use xtask::pools::Pools;
use xtask::tool::Tool;
use xtask::{cluster, fleet};

use crate::applier::{Applier, BEATEN, DONE, Manner, PARTLY};
use crate::claims;
use crate::directories::Space;
use crate::gate::Gate;
use crate::trial::{Convergence, Trial, start_all};

/// More than the writes in flight, so that some of the claims belong to writes that have not begun.
pub const NODES: usize = 60;
/// The tool retries a busy server several times, a second apart.
const REFUSED_LIMIT: Duration = Duration::from_secs(30);
/// Freed blocks are not quarantined here.
const FREED_LIMIT: Duration = Duration::from_secs(15);

/// Events while the applier is stopped.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    /// None: its writes still succeed.
    Nothing,
    /// Other applies plan the same blocks for the same nodes.
    SamePlan,
    /// The same, but half of the resourceVersions have changed before.
    HeartbeatsAndSamePlan,
    /// Other applies give the blocks to other nodes, and other blocks to the existing nodes.
    OtherOrder,
    /// Other applies give the blocks to newer nodes, and none to the existing nodes.
    LaterNodes,
    /// The same, but all resourceVersions have changed before.
    HeartbeatsAndLaterNodes,
    /// The same, but the Nodes are other objects of the same names.
    RecreatedAndLaterNodes,
    /// The same, with some nodes of each kind.
    Everything,
}

const ROUNDS: [Meanwhile; 8] = [
    Meanwhile::Nothing,
    Meanwhile::SamePlan,
    Meanwhile::HeartbeatsAndSamePlan,
    Meanwhile::OtherOrder,
    Meanwhile::LaterNodes,
    Meanwhile::HeartbeatsAndLaterNodes,
    Meanwhile::RecreatedAndLaterNodes,
    Meanwhile::Everything,
];

impl Meanwhile {
    /// Whether all claims are dead then, and other applies want the blocks. These must get them, or
    /// the case tests nothing.
    fn frees(self) -> bool {
        match self {
            Self::HeartbeatsAndLaterNodes | Self::RecreatedAndLaterNodes => true,
            Self::Nothing | Self::SamePlan | Self::HeartbeatsAndSamePlan => false,
            Self::OtherOrder | Self::LaterNodes | Self::Everything => false,
        }
    }
}

/// A proof in progress.
struct Run<'t> {
    trial: Trial<'t>,
    gate: Gate,
    random: Random,
    nodes: usize,
    paused_between: usize,
    claims: usize,
    /// Rounds in which all claims were dead and other nodes got the blocks.
    freed: usize,
}

pub fn run(tool: &Tool, nodes: usize, seed: u64) -> Result<()> {
    eprintln!("prove paused: --seed {seed}");
    let programs = build(&[Program::KubeApiserver, Program::Etcd])?;
    let trial = Trial::start_with(tool, &programs, Gate::options(cluster::options()))?;
    let mut run = Run {
        gate: Gate::new(&trial.plane)?,
        trial,
        random: Random::new(seed),
        nodes,
        paused_between: 0,
        claims: 0,
        freed: 0,
    };
    for (meanwhile, number) in ROUNDS.into_iter().zip(0..) {
        // What one round leaves behind must not decide the next.
        run.round(meanwhile, Space::part(number))?;
    }
    run.report(seed)
}

impl Run<'_> {
    fn round(&mut self, meanwhile: Meanwhile, space: Space) -> Result<()> {
        let plane = &self.trial.plane;
        plane.delete(xtask::node::NODES)?;
        fleet::create_nodes(plane, 0..self.nodes)?;
        let plain = space.plain()?;
        let kubeconfig = Gate::kubeconfig(plane)?;
        self.gate.shut(plane)?;
        let before = Gate::refused(plane)?;
        let mut applier = Manner {
            kubeconfig: &kubeconfig,
            ..self.trial.manner()
        }
        .start(&plain)?;
        self.wait_for_refusal(&mut applier, before)?;
        applier.pause()?;
        let claims = self.look_between()?;
        self.gate.open(&self.trial.plane)?;
        let others = self.meanwhile(meanwhile, space)?;
        self.freed += usize::from(meanwhile.frees() && others > 0);
        applier.resume()?;
        let ended = applier.wait()?.expect(&[DONE, BEATEN, PARTLY])?;
        let seen = self.trial.duplicates();
        self.trial.look()?;
        let found = self.trial.duplicates() - seen;
        let (code, applied) = (ended.code().unwrap_or_default(), ended.applied().len());
        eprintln!(
            "prove paused: {meanwhile:?}: {claims} claims; others applied {others}; then it applied {applied} and ended \
             with {code}; {found} duplicates"
        );
        self.trial.converge(&plain, 1).map(drop)
    }

    /// It claims before it writes: once a write was refused, the claims exist.
    fn wait_for_refusal(&self, applier: &mut Applier, before: u64) -> Result<()> {
        Ok(wait_until("a write to be refused", REFUSED_LIMIT, || {
            let refused = Gate::refused(&self.trial.plane).is_ok_and(|refused| refused > before);
            let running = applier.is_running().unwrap_or_default();
            Ok((refused || !running).then_some(()))
        })?)
    }

    /// The number of the stopped applier's claims, with nothing written.
    fn look_between(&mut self) -> Result<usize> {
        let holdings = self.trial.look()?;
        ensure!(
            holdings.without_block().count() == self.nodes,
            "it has written before it was stopped"
        );
        let claims = claims::unwritten(self.trial.plane.client(), &holdings)?.len();
        self.paused_between += usize::from(claims > 0);
        self.claims += claims;
        Ok(claims)
    }

    /// How many changes others have applied.
    fn meanwhile(&mut self, meanwhile: Meanwhile, space: Space) -> Result<usize> {
        match meanwhile {
            Meanwhile::Nothing => Ok(0),
            Meanwhile::SamePlan => self.others(&space.plain()?),
            Meanwhile::HeartbeatsAndSamePlan => {
                self.heartbeats(self.nodes / 2)?;
                self.others(&space.plain()?)
            }
            Meanwhile::OtherOrder => self.others(&space.pinned((0..self.nodes).rev())?),
            Meanwhile::LaterNodes => self.later_nodes(space),
            Meanwhile::HeartbeatsAndLaterNodes => {
                self.heartbeats(self.nodes)?;
                self.later_nodes_once_freed(space)
            }
            Meanwhile::RecreatedAndLaterNodes => {
                self.recreate(self.nodes)?;
                self.later_nodes_once_freed(space)
            }
            Meanwhile::Everything => {
                self.heartbeats(self.nodes / 2)?;
                self.recreate(self.nodes / 4)?;
                self.later_nodes(space)
            }
        }
    }

    fn heartbeats(&mut self, count: usize) -> Result<()> {
        let nodes = self.some_nodes(count);
        Ok(fleet::heartbeat(
            &self.trial.plane,
            nodes,
            self.random.number(),
        )?)
    }

    fn recreate(&mut self, count: usize) -> Result<()> {
        let nodes = self.some_nodes(count);
        Ok(fleet::recreate_nodes(&self.trial.plane, nodes)?)
    }

    fn later_nodes(&self, space: Space) -> Result<usize> {
        let later = self.nodes..2 * self.nodes;
        fleet::create_nodes(&self.trial.plane, later.clone())?;
        self.others(&space.only_pins(later)?)
    }

    /// An apply has to find the claims dead first, and times are in whole seconds.
    fn later_nodes_once_freed(&self, space: Space) -> Result<usize> {
        let start = Instant::now();
        let mut applied = self.later_nodes(space)?;
        let pools = space.only_pins(self.nodes..2 * self.nodes)?;
        while applied == 0 && start.elapsed() < FREED_LIMIT {
            applied = self.others(&pools)?;
        }
        Ok(applied)
    }

    /// Two other applies run to their end.
    fn others(&self, pools: &Pools) -> Result<usize> {
        let mut applied = 0;
        for applier in start_all(&self.trial.manner(), [pools; 2])? {
            applied += applier
                .wait()?
                .expect(&[DONE, BEATEN, PARTLY])?
                .applied()
                .len();
        }
        Ok(applied)
    }

    fn some_nodes(&mut self, count: usize) -> Vec<usize> {
        self.random
            .some_of(&(0..self.nodes).collect::<Vec<_>>(), count)
    }

    fn report(&self, seed: u64) -> Result<()> {
        Line::new("paused")
            .with("nodes", self.nodes)
            .with("rounds", ROUNDS.len())
            .with("seed", seed)
            .required("paused_between", self.paused_between, ROUNDS.len())
            .with("claims", self.claims)
            .required(
                "freed",
                self.freed,
                ROUNDS
                    .into_iter()
                    .filter(|meanwhile| meanwhile.frees())
                    .count(),
            )
            .required("duplicates", self.trial.duplicates(), 0)
            .required("converged", self.trial.convergence(), Convergence::Yes)
            .conclude()
    }
}
