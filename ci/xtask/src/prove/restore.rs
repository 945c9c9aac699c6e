//! `prove restore`: etcd is restored from a snapshot again and again while nodes join, under
//! `watch` and under two operators. Nodes use the blocks that they got since a snapshot: no other
//! node may get them, and new nodes must have a block soon after the agents are back.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use testbed::{Ending, Program, Programs, Random, Revision, build};
use xtask::line::Line;
use xtask::pools::{Pools, pool};
use xtask::running::Running;
use xtask::tool::Tool;
use xtask::{cluster, fleet, node, objects};

use crate::prefix::Prefix;
use crate::trial::Trial;

/// The most nodes that join at a time.
pub const NODES: usize = 8;
/// The longest time from the last agent's return until new nodes have a block, in seconds.
const SOON: f64 = 60.0;
/// Far longer than any expected event takes.
const LIMIT: Duration = Duration::from_secs(180);
/// Interval of the health checks.
const ASK: Duration = Duration::from_millis(100);
/// How long a server keeps running during a restore before its restart, in seconds.
const RUNS_ON: usize = 25;
const CIDR: &str = "10.16.0.0/12";
const BLOCK_SIZE: u8 = 24;

/// How often etcd is restored.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Restores under `watch`, and as many under the operators.
    #[arg(long, value_name = "N", default_value = "6")]
    rounds: usize,
}

/// How etcd is restored.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Restarted(Revision),
    /// The API server keeps running during it, for this many seconds.
    RunsOn(usize),
}

#[derive(Debug, Default)]
struct Counts {
    restores: usize,
    forgotten: usize,
    /// Restores at which `/readyz` failed, and those at which `trouble` was 1.
    unready: usize,
    trouble: usize,
    /// Nodes that came back and show another block than they run with.
    moved: usize,
    /// Blocks that another node got than the one that uses them.
    taken: usize,
    longest: Duration,
}

struct Restores<'t> {
    trial: Trial<'t>,
    programs: Programs,
    random: Random,
    next: usize,
    /// The blocks that each node uses, by its index.
    runs: BTreeMap<usize, Prefix>,
    counts: Counts,
}

pub fn run(tool: &Tool, nodes: usize, seed: u64, arguments: &Arguments) -> Result<()> {
    let programs = build(&[
        Program::KubeApiserver,
        Program::Etcd,
        Program::Etcdctl,
        Program::Etcdutl,
    ])?;
    let mut all = Counts::default();
    let mut duplicates = 0;
    for under in ["watch", "operator"] {
        let trial = Trial::start_with(tool, &programs, cluster::options())?;
        let random = Random::new(seed);
        let (runs, counts) = (BTreeMap::new(), std::mem::take(&mut all));
        let mut restores = Restores {
            trial,
            programs: programs.clone(),
            random,
            next: 0,
            runs,
            counts,
        };
        let pools = Pools::of(&pool(
            "all",
            &format!("cidrs: [{CIDR}], blockSize: {BLOCK_SIZE}"),
        ))?;
        let running = restores.start(tool, under, &pools)?;
        let addresses = running
            .iter()
            .map(Running::address)
            .collect::<Result<Vec<String>>>()?;
        for round in 0..arguments.rounds {
            restores.round(nodes, &addresses)?;
            eprintln!(
                "prove restore: under {under}, round {}: {:?}",
                round + 1,
                restores.counts
            );
        }
        duplicates += restores.trial.duplicates();
        all = restores.counts;
    }
    report(&all, duplicates, seed, 2 * arguments.rounds)
}

impl Restores<'_> {
    fn start(&mut self, tool: &Tool, under: &str, pools: &Pools) -> Result<Vec<Running>> {
        let kubeconfig = self.trial.plane.kubeconfig();
        if under == "watch" {
            let listen = ["--listen", "127.0.0.1:0"].map(OsStr::new);
            let words = [OsStr::new("watch"), pools.path(), listen[0], listen[1]];
            return Ok(vec![Running::start(tool, &words, kubeconfig)?]);
        }
        objects::install_definitions(tool, &self.trial.plane)?;
        self.trial.plane.create(
            objects::IP_POOLS,
            &objects::pool("all", &[CIDR], BLOCK_SIZE),
        )?;
        Ok(vec![
            Running::operator(tool, kubeconfig)?,
            Running::operator(tool, kubeconfig)?,
        ])
    }

    fn round(&mut self, most: usize, addresses: &[String]) -> Result<()> {
        self.join(most)?;
        self.all_served("before the snapshot")?;
        let snapshot = self.trial.plane.save_snapshot(&self.programs)?;
        let saved = self.next;
        self.join(most)?;
        self.all_served("after the snapshot")?;
        let manner = match self.random.below(3) {
            0 => Manner::Restarted(Revision::AsSaved),
            1 => Manner::Restarted(Revision::Bumped),
            _ => Manner::RunsOn(self.random.below(RUNS_ON)),
        };
        let seen = Seen::default();
        std::thread::scope(|scope| {
            scope.spawn(|| seen.ask(addresses));
            let outcome = self.restore_and_serve(&snapshot, manner, most, saved);
            seen.is_over.store(true, Ordering::Relaxed);
            outcome
        })?;
        self.counts.restores += 1;
        self.counts.unready += usize::from(seen.unready.load(Ordering::Relaxed));
        self.counts.trouble += usize::from(seen.trouble.load(Ordering::Relaxed));
        Ok(())
    }

    /// Restores, lets the nodes from `saved` on come back, and waits until all have blocks.
    fn restore_and_serve(
        &mut self,
        snapshot: &testbed::Snapshot,
        manner: Manner,
        most: usize,
        saved: usize,
    ) -> Result<()> {
        eprintln!("prove restore: {manner:?}");
        self.restore(snapshot, manner, most)?;
        let forgotten = (saved..self.next)
            .filter(|index| self.runs.contains_key(index))
            .collect::<Vec<_>>();
        self.counts.forgotten += forgotten.len();
        self.come_back(&forgotten)?;
        let back = Instant::now();
        self.all_served("after the restore")?;
        self.counts.longest = self.counts.longest.max(back.elapsed());
        Ok(())
    }

    fn restore(&mut self, snapshot: &testbed::Snapshot, manner: Manner, most: usize) -> Result<()> {
        match manner {
            Manner::Restarted(revision) => {
                let down = Duration::from_millis(u64::try_from(self.random.below(3_000))?);
                self.trial
                    .plane
                    .restore(&self.programs, snapshot, revision, || sleep(down))?;
            }
            Manner::RunsOn(seconds) => {
                self.trial.plane.restore_under_apiserver(
                    &self.programs,
                    snapshot,
                    Revision::AsSaved,
                )?;
                sleep(Duration::from_secs(u64::try_from(seconds)?));
                self.trial.plane.restart_apiserver(Ending::Terminated)?;
            }
        }
        // New machines are faster than those that come back.
        self.join(most)
    }

    /// New nodes register.
    fn join(&mut self, most: usize) -> Result<()> {
        let count = 1 + self.random.below(most);
        fleet::create_nodes(&self.trial.plane, self.next..self.next + count)?;
        self.next += count;
        Ok(())
    }

    /// Agents of some tell of the block that they run with; of the others there is a kubelet alone.
    fn come_back(&mut self, forgotten: &[usize]) -> Result<()> {
        let present = self.trial.look()?;
        for &index in self.random.some_of(forgotten, forgotten.len()).iter() {
            if self.random.below(2) == 0 {
                let mut published = node::cilium_node(index);
                published["spec"]["ipam"]["podCIDRs"] = json!([self.runs[&index].to_string()]);
                // Of an earlier round it may be there.
                let _ = self.trial.plane.create(node::CILIUM_NODES, &published);
            }
            if present.uid(&node::name(index)).is_none() {
                fleet::create_node(&self.trial.plane, index)?;
            }
        }
        Ok(())
    }

    /// Waits until every node has a block, and compares it with what runs.
    fn all_served(&mut self, when: &str) -> Result<()> {
        let began = Instant::now();
        loop {
            let holdings = self.trial.look()?;
            let without = holdings.without_block().count();
            if without == 0 {
                for index in 0..self.next {
                    let shown: Vec<Prefix> =
                        holdings.blocks_of(&node::name(index)).cloned().collect();
                    let Some(first) = shown.first().cloned() else {
                        continue;
                    };
                    let runs = self.runs.entry(index).or_insert(first);
                    self.counts.moved += usize::from(!shown.contains(runs));
                }
                let runs: Vec<(&usize, &Prefix)> = self.runs.iter().collect();
                let shares = |(at, (_, one)): (usize, &(&usize, &Prefix))| {
                    runs[..at].iter().filter(|(_, other)| other == one).count()
                };
                self.counts.taken = self
                    .counts
                    .taken
                    .max(runs.iter().enumerate().map(shares).sum());
                return Ok(());
            }
            ensure!(
                began.elapsed() < LIMIT,
                "{without} nodes have no block {when}"
            );
            sleep(ASK);
        }
    }
}

/// What machines were told during a restore.
#[derive(Debug, Default)]
struct Seen {
    is_over: AtomicBool,
    unready: AtomicBool,
    trouble: AtomicBool,
}

impl Seen {
    fn ask(&self, addresses: &[String]) {
        while !self.is_over.load(Ordering::Relaxed) {
            for address in addresses {
                let get = |path: &str| xtask::running::http_get(address, path);
                if get("/readyz").is_ok_and(|answer| answer.starts_with("HTTP/1.1 503")) {
                    self.unready.store(true, Ordering::Relaxed);
                }
                if get("/metrics").is_ok_and(|answer| answer.contains("cilium_ipam_trouble 1")) {
                    self.trouble.store(true, Ordering::Relaxed);
                }
            }
            sleep(ASK);
        }
    }
}

fn report(counts: &Counts, duplicates: usize, seed: u64, rounds: usize) -> Result<()> {
    let Counts {
        restores,
        forgotten,
        unready,
        trouble,
        moved,
        taken,
        longest,
    } = counts;
    Line::new("restore")
        .required("restores", *restores, rounds)
        .with("seed", seed)
        .with("forgotten_nodes", forgotten)
        .at_most(
            "longest_until_served_s",
            longest.as_secs_f64(),
            "limit_s",
            SOON,
        )
        .required("unready_seen", *unready, rounds)
        .required("trouble_seen", *trouble, rounds)
        .required("moved", *moved, 0)
        .required("taken", *taken, 0)
        .required("duplicates", duplicates, 0)
        .conclude()
}
