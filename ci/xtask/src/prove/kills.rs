//! `prove kills`: SIGKILL at any moment of an apply, again and again, on nodes that come and go.
//! The next apply uses another directory, so it wants for other nodes what the killed one has left
//! half done.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testbed::{ControlPlane, Random};
use xtask::line::Line;
use xtask::pools::Pools;
use xtask::tool::Tool;
use xtask::{fleet, node};

use crate::applier::{DONE, Manner};
use crate::claims;
use crate::directories::Space;
use crate::holdings::Holdings;
use crate::trial::{Convergence, Trial};

/// Enough nodes that writing takes longer than planning, and few enough that a kill costs half a
/// second.
pub const NODES: usize = 100;
/// One write at a time, so that most of the kills fall between two writes.
const PARALLELISM: usize = 1;
/// After this many kills, an apply may end by itself.
const REST: usize = 20;
/// An apply that ends before its signal is repeated, up to this often.
const ATTEMPTS_PER_KILL: usize = 5;

/// How long it goes on.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Kills that hit a running apply.
    #[arg(long, value_name = "N", default_value_t = 200)]
    times: usize,
}

/// A proof in progress.
struct Run<'t> {
    trial: Trial<'t>,
    random: Random,
    plain: Pools,
    others: [Pools; 3],
    /// The nodes that exist, and the first number that none ever had.
    live: Vec<usize>,
    next: usize,
    duration: Duration,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    /// Signals that hit a running apply.
    hits: usize,
    /// Signals that came after its end.
    missed: usize,
    /// Hits that left claims of that very apply unwritten.
    with_claims: usize,
    /// Hits after the first write.
    amid_writes: usize,
}

pub fn run(tool: &Tool, nodes: usize, seed: u64, arguments: &Arguments) -> Result<()> {
    let Arguments { times } = arguments;
    eprintln!("prove kills: --seed {seed}");
    let mut run = Run::start(tool, nodes, seed)?;
    run.rest()?;
    while run.counts.hits < *times {
        let Counts { hits, missed, .. } = run.counts;
        ensure!(
            hits + missed < times * ATTEMPTS_PER_KILL,
            "only {hits} of {} signals hit a running apply",
            hits + missed
        );
        run.attempt()?;
        if run.counts.hits > hits && run.counts.hits % REST == 0 {
            run.rest()?;
            eprintln!(
                "prove kills: {} of {times}; an apply takes {:?}",
                run.counts.hits, run.duration
            );
        }
    }
    run.rest()?;
    run.report(nodes, seed)
}

impl<'t> Run<'t> {
    fn start(tool: &'t Tool, nodes: usize, seed: u64) -> Result<Self> {
        let trial = Trial::start(tool)?;
        fleet::create_nodes(&trial.plane, 0..nodes)?;
        let space = Space::WHOLE;
        Ok(Self {
            trial,
            random: Random::new(seed),
            plain: space.plain()?,
            others: [
                space.shifted()?,
                space.doubled()?,
                space.pinned((0..nodes).rev())?,
            ],
            live: (0..nodes).collect(),
            next: nodes,
            duration: Duration::ZERO,
            counts: Counts::default(),
        })
    }

    /// Lets everything come to rest, measures how long an apply takes on its own, and takes nodes
    /// their blocks.
    fn rest(&mut self) -> Result<()> {
        self.trial.converge(&self.plain, 1)?;
        self.renew()?;
        let start = Instant::now();
        self.manner().start(&self.plain)?.wait()?.expect(&[DONE])?;
        self.duration = start.elapsed();
        self.trial.look()?;
        self.renew()
    }

    /// Starts an apply, kills it somewhere on its way, and looks at what it has left.
    fn attempt(&mut self) -> Result<()> {
        let pools = match self.random.below(self.others.len() * 2) {
            other if other < self.others.len() => &self.others[other],
            _ => &self.plain,
        };
        let micros = usize::try_from(self.duration.as_micros())?;
        let delay = Duration::from_micros(u64::try_from(self.random.below(micros))?);
        let before = claims::read(self.trial.plane.client())?;
        let applier = self.manner().start(pools)?;
        // The moment of the kill is what varies, so it waits for no event.
        thread::sleep(delay);
        let ended = applier.kill()?;
        let holdings = self.trial.look()?;
        if ended.was_killed() {
            self.counts.hits += 1;
            let left = claims::unwritten(self.trial.plane.client(), &holdings)?;
            self.counts.with_claims +=
                usize::from(left.iter().any(|claim| !before.contains(claim)));
            self.counts.amid_writes += usize::from(ended.talk().contains("written Node/"));
        } else {
            self.counts.missed += 1;
        }
        self.change(&holdings)
    }

    fn manner(&self) -> Manner<'_> {
        Manner {
            parallelism: PARALLELISM,
            ..self.trial.manner()
        }
    }

    fn renew(&mut self) -> Result<()> {
        let holdings = self.trial.look()?;
        self.change(&holdings)
    }

    /// Half of the nodes shall have no block: some of the others are registered again, and some
    /// make room for new ones. A few of those which wait for a block go the same way, claims or
    /// not.
    fn change(&mut self, holdings: &Holdings) -> Result<()> {
        let lacks = |index: &usize| holdings.blocks_of(&node::name(*index)).next().is_none();
        let (lacking, holding): (Vec<usize>, Vec<usize>) =
            self.live.iter().partition(|index| lacks(index));
        let wanted = (self.live.len() / 2).saturating_sub(lacking.len());
        let mut chosen = self.random.some_of(&holding, wanted);
        chosen.extend(self.random.some_of(&lacking, self.live.len() / 20));
        let (gone, again) = chosen.split_at(chosen.len() / 2);
        let fresh = self.next..self.next + gone.len();
        self.next = fresh.end;
        self.live.retain(|index| !gone.contains(index));
        self.live.extend(fresh.clone());
        replace(&self.trial.plane, gone, again, fresh)
    }

    fn report(&self, nodes: usize, seed: u64) -> Result<()> {
        let Counts {
            hits,
            missed,
            with_claims,
            amid_writes,
        } = self.counts;
        Line::new("kills")
            .with("kills_survived", hits)
            .with("too_late", missed)
            .with("nodes", nodes)
            .with("seed", seed)
            // Unless some are, the window between claim and write was never hit.
            .required_least("left_claims", with_claims, 1)
            .with("amid_writes", amid_writes)
            .required("duplicates", self.trial.duplicates(), 0)
            .required("converged", self.trial.convergence(), Convergence::Yes)
            .conclude()
    }
}

fn replace(
    plane: &ControlPlane,
    gone: &[usize],
    again: &[usize],
    fresh: std::ops::Range<usize>,
) -> Result<()> {
    fleet::delete_nodes(plane, gone.iter().copied())?;
    fleet::recreate_nodes(plane, again.iter().copied())?;
    Ok(fleet::create_nodes(plane, fresh)?)
}
