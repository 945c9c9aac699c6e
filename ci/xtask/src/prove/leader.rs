//! `prove leader`: SIGKILL for the operator that leads, while it gives blocks to many nodes that were created at once. Another one that stood
//! by finishes, and no block is given twice.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use xtask::line::Line;
use xtask::running::Running;
use xtask::tool::Tool;
use xtask::{fleet, node, objects};

use crate::trial::Trial;

/// As many as join at once.
pub const NODES: usize = 2_000;
const ROUNDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(120);

/// Runs it and prints its line.
pub fn run(tool: &Tool, nodes: usize) -> Result<()> {
    let mut trial = Trial::start(tool)?;
    objects::install_definitions(tool, &trial.plane)?;
    trial.plane.create(objects::IP_POOLS, &objects::pool("all", &["10.16.0.0/12"], 24))?;
    let mut longest = Duration::ZERO;
    let mut left = 0;
    for round in 0..ROUNDS {
        let leader = Running::operator(tool, trial.plane.kubeconfig())?;
        leader.until("leads", None)?;
        let standby = Running::operator(tool, trial.plane.kubeconfig())?;
        standby.until("stands-by", None)?;
        fleet::create_nodes(&trial.plane, 0..nodes / 4)?;
        let share = nodes / 4 * (round + 1) / (ROUNDS + 1);
        let rest = std::thread::scope(|scope| {
            let creating = scope.spawn(|| fleet::create_nodes(&trial.plane, nodes / 4..nodes));
            for _ in 0..share {
                leader.until("written", None)?;
            }
            let killed = Instant::now();
            drop(leader);
            let led = standby.until("leads", None)?.saturating_duration_since(killed);
            longest = longest.max(led);
            creating.join().map_err(|_| anyhow::anyhow!("creating nodes failed"))??;
            Ok::<_, anyhow::Error>(led)
        })?;
        let began = Instant::now();
        loop {
            let holdings = trial.look()?;
            let without = holdings.without_block().count();
            if without == 0 {
                break;
            }
            left = left.max(without);
            ensure!(began.elapsed() < LIMIT, "{without} nodes have no block");
        }
        eprintln!("prove leader: round {}: another one leads after {:.1} s", round + 1, rest.as_secs_f64());
        drop(standby);
        trial.plane.delete(node::NODES)?;
    }
    Line::new("leader")
        .with("nodes", nodes)
        .with("kills", ROUNDS)
        .measured("longest_without_leader_s", longest.as_secs_f64())
        .with("most_left_to_the_standby", left)
        .required("duplicates", trial.duplicates(), 0)
        .conclude()
}
