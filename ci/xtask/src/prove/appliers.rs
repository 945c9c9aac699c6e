//! `prove appliers`: several appliers at once, half of them with directories that want the same
//! addresses for other nodes, while nodes send heartbeats, are deleted and registered again.

use anyhow::Result;
use testbed::{ControlPlane, Random};
use xtask::fleet;
use xtask::line::Line;
use xtask::pools::Pools;
use xtask::tool::Tool;

use crate::applier::{Applier, BEATEN, DONE, Ended, PARTLY};
use crate::churn::{Churn, Counts, beside};
use crate::directories::Space;
use crate::trial::{Trial, start_all};

/// A few hundred, so that the writes of all appliers are under way at the same time.
pub const NODES: usize = 300;
const ROUNDS: usize = 4;
/// With the plain directory, and as many with others.
const ALIKE: usize = 4;
/// Threads that let the nodes live.
const LIVES: usize = 3;

/// How many changes the appliers say they have applied, and what went on beside them.
#[derive(Default)]
struct Applied {
    alike: usize,
    others: usize,
    beside: Counts,
}

pub fn run(tool: &Tool, nodes: usize, seed: u64) -> Result<()> {
    eprintln!("prove appliers: --seed {seed}");
    let mut trial = Trial::start(tool)?;
    let mut random = Random::new(seed);
    let space = Space::WHOLE;
    let plain = space.plain()?;
    let some = (0..nodes).rev().take(nodes / 2);
    let others = [
        space.shifted()?,
        space.doubled()?,
        space.pinned(some)?,
        space.pinned(1..nodes)?,
    ];
    let directories: Vec<&Pools> = [&plain; ALIKE].into_iter().chain(&others).collect();
    let mut applied = Applied::default();
    for round in 0..ROUNDS {
        eprintln!("prove appliers: round {} of {ROUNDS}", round + 1);
        renew(&trial.plane, nodes, round, &mut random)?;
        let lives = lives(&trial.plane, nodes, &mut random);
        let (ended, counts) = beside(lives, || {
            finish(start_all(&trial.manner(), directories.iter().copied())?)
        })?;
        applied.add(&ended, counts);
        trial.look()?;
        trial.converge(&plain, 1)?;
    }
    report(&trial, &applied, directories.len(), nodes, seed)
}

/// The first round has new nodes only. Later on some keep their blocks, and the others are
/// registered again.
fn renew(plane: &ControlPlane, nodes: usize, round: usize, random: &mut Random) -> Result<()> {
    let all: Vec<usize> = (0..nodes).collect();
    if round == 0 {
        fleet::create_nodes(plane, all)?;
    } else {
        fleet::recreate_nodes(plane, random.some_of(&all, nodes / 4 * 3))?;
    }
    Ok(())
}

/// Each thread has its own nodes, because only one thread may delete a node.
fn lives<'c>(plane: &'c ControlPlane, nodes: usize, random: &mut Random) -> Vec<Churn<'c>> {
    (0..LIVES)
        .map(|first| {
            Churn::new(
                plane,
                (first..nodes).step_by(LIVES).collect(),
                random.fork(),
            )
        })
        .collect()
}

fn finish(appliers: Vec<Applier>) -> Result<Vec<Ended>> {
    appliers
        .into_iter()
        .map(|applier| applier.wait()?.expect(&[DONE, BEATEN, PARTLY]))
        .collect()
}

impl Applied {
    fn add(&mut self, ended: &[Ended], counts: Counts) {
        let (alike, others) = ended.split_at(ALIKE);
        let count = |ended: &[Ended]| {
            ended
                .iter()
                .map(|ended| ended.applied().len())
                .sum::<usize>()
        };
        let codes: Vec<String> = ended
            .iter()
            .filter_map(Ended::code)
            .map(|code| code.to_string())
            .collect();
        eprintln!(
            "  exit codes {}; applied {} and {}; {counts:?}",
            codes.join(" "),
            count(alike),
            count(others)
        );
        self.alike += count(alike);
        self.others += count(others);
        self.beside += counts;
    }
}

fn report(
    trial: &Trial<'_>,
    applied: &Applied,
    appliers: usize,
    nodes: usize,
    seed: u64,
) -> Result<()> {
    let Applied {
        alike,
        others,
        beside:
            Counts {
                touched,
                recreated,
                cilium_nodes,
            },
    } = applied;
    Line::new("appliers")
        .with("appliers", appliers)
        .with("nodes", nodes)
        .with("rounds", ROUNDS)
        .with("seed", seed)
        // Unless both have some, nothing was contested.
        .required_least("applied", *alike, 1)
        .required_least("applied_by_others", *others, 1)
        .with("touched", touched)
        .with("recreated", recreated)
        .with("cilium_nodes", cilium_nodes)
        .required("duplicates", trial.duplicates(), 0)
        .required(
            "converged",
            trial.convergence(),
            crate::trial::Convergence::Yes,
        )
        .conclude()
}
