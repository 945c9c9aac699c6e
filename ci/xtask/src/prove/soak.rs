//! `prove soak`: `watch` for a long time, while nodes come and go, files change and have faults,
//! and the API server ends and comes back. Its memory does not grow, no block is given twice, and
//! in the end every node has one.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::{Ending, Random};
use xtask::fleet;
use xtask::line::Line;
use xtask::pools::{Pools, pool};
use xtask::running::Running;
use xtask::tool::Tool;

use crate::trial::Trial;

/// Nodes at any time.
pub const NODES: usize = 500;
/// How many of them a step replaces.
const REPLACED: usize = 10;
const STEP: Duration = Duration::from_secs(2);
const FILES_EVERY: u64 = 5;
/// Faults in a large file.
const FAULTS: usize = 100_000;
/// Long enough that much happens between two restarts.
const RESTART_EVERY: Duration = Duration::from_secs(180);
/// The most that memory may grow from the second sixth of the time to the last one, in percent.
const GROWTH: f64 = 10.0;
const SETTLED: Duration = Duration::from_secs(120);

/// How long the soak runs.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Minutes.
    #[arg(long, default_value = "30")]
    minutes: u64,
}

struct Soak<'s, 't> {
    trial: &'s mut Trial<'t>,
    pools: &'s Pools,
    random: Random,
    steps: u64,
    restarts: u64,
    faults: u64,
    /// Indices of the existing nodes.
    present: Vec<usize>,
    next: usize,
}

pub fn run(tool: &Tool, nodes: usize, seed: u64, arguments: &Arguments) -> Result<()> {
    let mut trial = Trial::start(tool)?;
    let pools = Pools::racks()?;
    fleet::create_nodes(&trial.plane, 0..nodes)?;
    let watch = [
        OsStr::new("watch"),
        pools.path(),
        OsStr::new("--interval"),
        OsStr::new("20s"),
    ];
    let running = Running::start(tool, &watch, trial.plane.kubeconfig())?;
    running.until("seen", None)?;
    let mut soak = Soak {
        trial: &mut trial,
        pools: &pools,
        random: Random::new(seed),
        steps: 0,
        restarts: 0,
        faults: 0,
        present: (0..nodes).collect(),
        next: nodes,
    };
    let whole = Duration::from_secs(arguments.minutes * 60);
    let began = Instant::now();
    let mut memory: Vec<(Duration, f64)> = Vec::new();
    let mut written = 0_usize;
    while began.elapsed() < whole {
        soak.step(began.elapsed())?;
        memory.push((began.elapsed(), running.rss_mib()?));
        written += running
            .said()
            .filter(|line| line["event"] == "written")
            .count();
    }
    let Soak {
        steps,
        restarts,
        faults,
        ..
    } = soak;
    converge(&mut trial)?;
    let (early, late) = (
        median(&memory, whole / 6, whole / 3),
        median(&memory, whole * 5 / 6, whole),
    );
    let growth = (late / early - 1.0) * 100.0;
    Line::new("soak")
        .with("minutes", arguments.minutes)
        .with("seed", seed)
        .with("nodes", nodes)
        .with("steps", steps)
        .with("restarts", restarts)
        .with("faulty_files", faults)
        .with("written", written)
        .measured("rss_early_mib", early)
        .measured("rss_late_mib", late)
        .measured("cpu_s", running.cpu_ms()? / 1e3)
        .required("grows", if growth <= GROWTH { "no" } else { "yes" }, "no")
        .required("duplicates", trial.duplicates(), 0)
        .conclude()
}

impl Soak<'_, '_> {
    fn step(&mut self, since: Duration) -> Result<()> {
        let began = Instant::now();
        self.steps += 1;
        if since >= RESTART_EVERY * u32::try_from(self.restarts + 1).unwrap_or(u32::MAX) {
            self.restarts += 1;
            let ending = if self.restarts.is_multiple_of(2) {
                Ending::Terminated
            } else {
                Ending::Killed
            };
            self.trial.plane.restart_apiserver(ending)?;
        }
        if self.steps.is_multiple_of(FILES_EVERY) {
            self.change_files()?;
        }
        self.churn()?;
        self.trial.look()?;
        std::thread::sleep(STEP.saturating_sub(began.elapsed()));
        Ok(())
    }

    /// Some go, as many come, one of them under the name of one that went, and others give signs of
    /// life.
    fn churn(&mut self) -> Result<()> {
        let plane = &self.trial.plane;
        let mut gone = Vec::new();
        for _ in 0..REPLACED {
            let at = self.random.below(self.present.len());
            gone.push(self.present.swap_remove(at));
        }
        fleet::delete_nodes(plane, gone.iter().copied())?;
        let new: Vec<usize> = gone
            .iter()
            .take(1)
            .copied()
            .chain(self.next..self.next + REPLACED - 1)
            .collect();
        self.next += REPLACED - 1;
        fleet::create_nodes(plane, new.iter().copied())?;
        fleet::heartbeat(plane, self.present.iter().copied().take(50), self.steps)?;
        self.present.extend(new);
        Ok(())
    }

    /// Unused ranges come and go; at times half a file, or a large one with very many faults.
    fn change_files(&mut self) -> Result<()> {
        let path = Path::new(self.pools.path()).join("further.yaml");
        let text = pool(
            "further",
            &format!(
                "cidrs: [172.30.{}.0/24], blockSize: 26, priority: -1",
                self.steps % 200
            ),
        );
        let is_faulty = self.random.below(3) == 0;
        self.faults += u64::from(is_faulty);
        let text = match (is_faulty, self.random.below(2)) {
            (false, _) => text,
            (true, 0) => text[..text.len() / 2].to_owned(),
            (true, _) => pool(
                "further",
                &format!(
                    "cidrs: [172.30.0.0/24], blockSize: 26, reserved: [{}]",
                    "x, ".repeat(FAULTS)
                ),
            ),
        };
        std::fs::write(path, text).context("the file cannot be written")
    }
}

/// Everybody has a block in the end.
fn converge(trial: &mut Trial<'_>) -> Result<()> {
    let began = Instant::now();
    loop {
        let without = trial.look()?.without_block().count();
        if without == 0 {
            return Ok(());
        }
        ensure!(began.elapsed() < SETTLED, "{without} nodes have no block");
        std::thread::sleep(STEP);
    }
}

fn median(memory: &[(Duration, f64)], from: Duration, to: Duration) -> f64 {
    let mut between: Vec<f64> = memory
        .iter()
        .filter(|(at, _)| (from..=to).contains(at))
        .map(|(_, memory)| *memory)
        .collect();
    between.sort_by(f64::total_cmp);
    between.get(between.len() / 2).copied().unwrap_or(f64::NAN)
}
