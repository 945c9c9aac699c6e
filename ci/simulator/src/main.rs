//! `simulator`: runs histories by seed, on all cores, and prints what they came to; the seed of a failure is a command line.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::Parser;
use simulator::{Failure, Figures, Log, Sabotage, Setups, first_failure, run};

/// Run the real apply against a simulated cluster, with faults, crashes and rivals by seed.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask prove simulate", bin_name = "cargo xtask prove simulate", max_term_width = 120)]
struct Arguments {
    /// How many histories.
    #[arg(long, value_name = "N", default_value = "10000")]
    seeds: u64,
    /// The first seed.
    #[arg(long, value_name = "S", default_value = "0")]
    from: u64,
}

/// Seeds within which a broken rule must be noticed.
const ENOUGH: u64 = 200_000;

fn main() -> ExitCode {
    let Arguments { seeds, from } = Arguments::parse();
    let (figures, failures) = run_all(from, seeds);
    for Failure { seed, step, what, log: _ } in &failures {
        println!("seed {seed}, step {step}: {}", what.join("; "));
        println!("  to see it again: cargo xtask prove simulate --seeds 1 --from {seed}");
    }
    if let [Failure { log, .. }] = &failures[..] {
        log.iter().for_each(|line| println!("{line}"));
    }
    // A single history is a replay.
    let noticed = if seeds > 1 { noticed() } else { Sabotage::ALL.len() };
    let Figures { applies, changes, crashes, steps } = figures;
    println!(
        "simulate: seeds={seeds} from={from} steps={steps} applies={applies} changes={changes} crashes={crashes} broken_rules={} noticed={noticed} failures={}",
        Sabotage::ALL.len(),
        failures.len()
    );
    let is_proven = failures.is_empty() && noticed == Sabotage::ALL.len();
    if is_proven { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many rules are noticed when they are broken: a proof that cannot fail proves nothing.
fn noticed() -> usize {
    let setups = Setups::new();
    let noticed = |sabotage: &&Sabotage| match first_failure(**sabotage, &setups, 0..ENOUGH) {
        Some(failure) => {
            println!("{sabotage:?}: noticed with seed {}: {}", failure.seed, failure.what.join("; "));
            true
        }
        None => {
            println!("{sabotage:?}: not noticed within {ENOUGH} seeds");
            false
        }
    };
    Sabotage::ALL.iter().filter(noticed).count()
}

fn run_all(from: u64, seeds: u64) -> (Figures, Vec<Failure>) {
    let log = if seeds == 1 { Log::Kept } else { Log::None };
    let next = AtomicU64::new(from);
    let sum = Mutex::new((Figures::default(), Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let setups = Setups::new();
                let mut mine = (Figures::default(), Vec::new());
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from.saturating_add(seeds) {
                        break;
                    }
                    match run(seed, &setups, Sabotage::None, log) {
                        Ok(figures) => mine.0 = mine.0 + figures,
                        Err(failure) => mine.1.push(failure),
                    }
                }
                let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                sum.0 = sum.0 + mine.0;
                sum.1.extend(mine.1);
            });
        }
    });
    let (figures, mut failures) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|failure| failure.seed);
    (figures, failures)
}
