//! `prove autoscaler`: nodes leave and join all the time, while the operator that leads is killed
//! again and again. No node gets a block that another node had within the quarantine, a node that
//! comes back gets its own block again, and no block is given twice.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testbed::Random;
use xtask::line::Line;
use xtask::parallel::for_each;
use xtask::running::Running;
use xtask::tool::Tool;
use xtask::{fleet, node, objects};

use crate::holdings::Holdings;
use crate::prefix::Prefix;
use crate::trial::Trial;

/// Nodes at any time.
pub const NODES: usize = 2_000;
/// How many of them a step replaces.
const REPLACED: usize = 8;
const STEP: Duration = Duration::from_secs(1);
/// Steps from one list of all nodes to the next.
const STEPS_PER_LOOK: usize = 5;
/// Steps from one kill of the leader to the next.
const STEPS_PER_KILL: usize = 45;
/// The default of the Policy.
const QUARANTINE: Duration = Duration::from_mins(10);
/// Time for the last nodes to get their blocks.
const SETTLED: Duration = Duration::from_secs(120);
const CONNECTIONS: usize = 16;

/// How long nodes come and go.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Minutes; no longer than the quarantine, so that the pool has a block for each node.
    #[arg(long, default_value = "10", value_parser = clap::value_parser!(u64).range(1..=10))]
    minutes: u64,
}

/// A block of a node that was deleted.
struct Departure {
    node: usize,
    deleted: Instant,
}

/// A proof in progress.
struct Run<'t> {
    trial: Trial<'t>,
    random: Random,
    /// Indices of the existing nodes.
    present: Vec<usize>,
    /// Index of the next new node.
    next: usize,
    departed: BTreeMap<Prefix, Departure>,
    /// The last node of each block that was seen in a list.
    seen: BTreeMap<Prefix, String>,
    /// Time of the last list.
    looked: Instant,
    deletions: usize,
    kills: usize,
    /// Blocks that went to another node within the quarantine.
    reused: usize,
    /// Blocks that a node got back.
    returned: usize,
}

pub fn run(tool: &Tool, nodes: usize, seed: u64, arguments: &Arguments) -> Result<()> {
    let trial = Trial::start(tool)?;
    objects::install_definitions(tool, &trial.plane)?;
    let pool = objects::pool("all", &["10.16.0.0/12"], 25);
    trial.plane.create(objects::IP_POOLS, &pool)?;
    fleet::create_nodes(&trial.plane, 0..nodes)?;
    let mut run = Run {
        trial,
        random: Random::new(seed),
        present: (0..nodes).collect(),
        next: nodes,
        departed: BTreeMap::new(),
        seen: BTreeMap::new(),
        looked: Instant::now(),
        deletions: 0,
        kills: 0,
        reused: 0,
        returned: 0,
    };
    run.churn(tool, Duration::from_secs(60 * arguments.minutes))?;
    let reasonable = usize::try_from(arguments.minutes)? * 60;
    Line::new("autoscaler")
        .with("nodes", nodes)
        .with("seed", seed)
        .with("minutes", arguments.minutes)
        .with("deletions", run.deletions)
        .with("kills", run.kills)
        .with("returned", run.returned)
        .with("replaced_enough", run.deletions >= reasonable)
        .required("reused_within_quarantine", run.reused, 0)
        .required("duplicates", run.trial.duplicates(), 0)
        .conclude()
}

impl Run<'_> {
    fn churn(&mut self, tool: &Tool, duration: Duration) -> Result<()> {
        let operator =
            || -> Result<Running> { Running::operator(tool, self.trial.plane.kubeconfig()) };
        let mut leader = operator()?;
        leader.until("leads", None)?;
        let mut standby = operator()?;
        standby.until("stands-by", None)?;
        let began = Instant::now();
        self.settle()?;
        for step in 1.. {
            let due = Instant::now() + STEP;
            if began.elapsed() >= duration {
                break;
            }
            self.replace()?;
            if step % STEPS_PER_LOOK == 0 {
                self.look()?;
            }
            if step % STEPS_PER_KILL == 0 {
                let next = Running::operator(tool, self.trial.plane.kubeconfig())?;
                drop(std::mem::replace(&mut leader, standby));
                standby = next;
                self.kills += 1;
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        self.settle()
    }

    /// Deletes nodes; then as many join, a quarter of them under the names of deleted ones.
    fn replace(&mut self) -> Result<()> {
        let leaving = self.random.some_of(&self.present, REPLACED);
        self.present.retain(|index| !leaving.contains(index));
        for index in &leaving {
            let object = self.trial.plane.get(&node::path(*index))?;
            if let Some(block) = object["spec"]["podCIDR"].as_str() {
                let departure = Departure {
                    node: *index,
                    deleted: Instant::now(),
                };
                self.departed.insert(Prefix::parse(block)?, departure);
            }
            self.trial.plane.delete(&node::path(*index))?;
        }
        self.deletions += leaving.len();
        let gone = self.departed.values().map(|departure| departure.node);
        let gone: Vec<usize> = gone.filter(|index| !self.present.contains(index)).collect();
        let mut joining = self.random.some_of(&gone, REPLACED / 4);
        while joining.len() < leaving.len() {
            joining.push(self.next);
            self.next += 1;
        }
        let plane = &self.trial.plane;
        for_each(&joining, CONNECTIONS, |&index| {
            fleet::create_node(plane, index)
        })?;
        self.present.extend(joining);
        Ok(())
    }

    /// Compares the blocks of all nodes with those of deleted nodes. A block that the last list did
    /// not show at its node was written after that list.
    fn look(&mut self) -> Result<Holdings> {
        let now = Instant::now();
        let holdings = self.trial.look()?;
        for index in &self.present {
            let name = node::name(*index);
            for block in holdings.blocks_of(&name) {
                if self.seen.get(block) == Some(&name) && !self.departed.contains_key(block) {
                    continue;
                }
                if let Some(departure) = self.departed.get(block) {
                    let age = self.looked.saturating_duration_since(departure.deleted);
                    if departure.node == *index {
                        self.returned += 1;
                        self.departed.remove(block);
                    } else if age < QUARANTINE {
                        let last = node::name(departure.node);
                        eprintln!("{block} of {last} went to {name} within {age:?}");
                        self.reused += 1;
                        self.departed.remove(block);
                    }
                }
                self.seen.insert(block.clone(), name.clone());
            }
        }
        self.looked = now;
        Ok(holdings)
    }

    /// Until every node has a block.
    fn settle(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            let without = self.look()?.without_block().count();
            if without == 0 {
                return Ok(());
            }
            ensure!(began.elapsed() < SETTLED, "{without} nodes have no block");
        }
    }
}
