//! `prove leader`: SIGKILL, or SIGSTOP for a while, for the operator that leads, while it gives
//! blocks to many nodes that were created at once. Another one that stood by finishes, and no block
//! is given twice. One that was stopped wakes up when others have the blocks that it was about to
//! give, and writes nothing.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use testbed::Random;
use xtask::line::Line;
use xtask::running::Running;
use xtask::tool::Tool;
use xtask::{fleet, node, objects};

use crate::holdings::Holdings;
use crate::trial::Trial;

/// Nodes that join at once.
pub const NODES: usize = 2_000;
const LIMIT: Duration = Duration::from_secs(120);
/// Nodes that join after the old leader has woken up.
const LATER: usize = 20;

/// The fate of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Killed,
    Stopped,
}

const ROUNDS: [Blow; 5] = [
    Blow::Killed,
    Blow::Stopped,
    Blow::Killed,
    Blow::Stopped,
    Blow::Killed,
];

/// A proof in progress.
struct Run<'t> {
    trial: Trial<'t>,
    tool: &'t Tool,
    random: Random,
    nodes: usize,
    longest: Duration,
    /// The most nodes that were left to the one that stood by.
    left: usize,
    woken: usize,
    /// Nodes whose blocks changed after an old leader woke up.
    late_writes: usize,
}

pub fn run(tool: &Tool, nodes: usize, seed: u64) -> Result<()> {
    let trial = Trial::start(tool)?;
    objects::install_definitions(tool, &trial.plane)?;
    trial.plane.create(
        objects::IP_POOLS,
        &objects::pool("all", &["10.16.0.0/12"], 24),
    )?;
    let random = Random::new(seed);
    let mut run = Run {
        trial,
        tool,
        random,
        nodes,
        longest: Duration::ZERO,
        left: 0,
        woken: 0,
        late_writes: 0,
    };
    for (number, blow) in ROUNDS.into_iter().enumerate() {
        run.round(number, blow)?;
    }
    let count = |wanted: Blow| ROUNDS.iter().filter(|blow| **blow == wanted).count();
    Line::new("leader")
        .with("nodes", nodes)
        .with("seed", seed)
        .with("kills", count(Blow::Killed))
        .required("woken", run.woken, count(Blow::Stopped))
        .measured("longest_without_leader_s", run.longest.as_secs_f64())
        .with("most_left_to_the_standby", run.left)
        .required("late_writes", run.late_writes, 0)
        .required("duplicates", run.trial.duplicates(), 0)
        .conclude()
}

impl Run<'_> {
    fn round(&mut self, number: usize, blow: Blow) -> Result<()> {
        let leader = Running::operator(self.tool, self.trial.plane.kubeconfig())?;
        leader.until("leads", None)?;
        let standby = Running::operator(self.tool, self.trial.plane.kubeconfig())?;
        standby.until("stands-by", None)?;
        let stopped = self.strike(number, blow, leader, &standby)?;
        self.wait_for_blocks()?;
        if let Some(old) = stopped {
            self.wake(&old)?;
        }
        drop(standby);
        self.trial.plane.delete(node::NODES)?;
        Ok(())
    }

    /// The leader, if it is only stopped. It is in the middle of its writes then.
    fn strike(
        &mut self,
        number: usize,
        blow: Blow,
        leader: Running,
        standby: &Running,
    ) -> Result<Option<Running>> {
        let Self { trial, nodes, .. } = self;
        let nodes = *nodes;
        fleet::create_nodes(&trial.plane, 0..nodes / 4)?;
        let share = nodes / 4 * (number + 1) / (ROUNDS.len() + 1);
        std::thread::scope(|scope| {
            let creating = scope.spawn(|| fleet::create_nodes(&trial.plane, nodes / 4..nodes));
            for _ in 0..share {
                leader.until("written", None)?;
            }
            let struck = Instant::now();
            let stopped = match blow {
                Blow::Killed => {
                    drop(leader);
                    None
                }
                Blow::Stopped => {
                    leader.pause()?;
                    Some(leader)
                }
            };
            let led = standby
                .until("leads", None)?
                .saturating_duration_since(struck);
            self.longest = self.longest.max(led);
            creating
                .join()
                .map_err(|_| anyhow!("creating nodes failed"))??;
            eprintln!(
                "prove leader: round {}: {blow:?}: another one leads after {:.1} s",
                number + 1,
                led.as_secs_f64()
            );
            Ok(stopped)
        })
    }

    /// Until every node has a block.
    fn wait_for_blocks(&mut self) -> Result<Holdings> {
        let began = Instant::now();
        loop {
            let holdings = self.trial.look()?;
            let without = holdings.without_block().count();
            if without == 0 {
                return Ok(holdings);
            }
            self.left = self.left.max(without);
            ensure!(began.elapsed() < LIMIT, "{without} nodes have no block");
        }
    }

    /// It goes on when some nodes are other objects of the same names, and all have blocks.
    fn wake(&mut self, old: &Running) -> Result<()> {
        let some = self
            .random
            .some_of(&(0..self.nodes).collect::<Vec<_>>(), self.nodes / 10);
        fleet::recreate_nodes(&self.trial.plane, some)?;
        let before = self.wait_for_blocks()?;
        old.said().for_each(drop);
        old.resume()?;
        old.until("stands-by", None)?;
        self.woken += 1;
        // The new leader works on. By then, the writes that the old one had begun have failed or
        // ended.
        fleet::create_nodes(&self.trial.plane, self.nodes..self.nodes + LATER)?;
        let after = self.wait_for_blocks()?;
        let changed = (0..self.nodes)
            .map(node::name)
            .filter(|name| !after.blocks_of(name).eq(before.blocks_of(name)));
        for name in changed {
            eprintln!("late: {name} has other blocks than before the old leader woke up");
            self.late_writes += 1;
        }
        Ok(())
    }
}
