//! `simulator`: runs histories of applies and lives of following processes by seed, on all cores,
//! and prints their figures. A failure prints the command that repeats it.
#![forbid(unsafe_code)]

mod migrations;

use std::ops::{Add, Range};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::{Parser, ValueEnum};
use simulator::{
    Failure, Figures, Lives, Log, Sabotage, Setups, first_failed_life, first_failure, live, run,
};

/// Run the real apply and the real watch against a simulated cluster, with faults, crashes, rivals
/// and restores by seed.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask prove simulate",
    bin_name = "cargo xtask prove simulate",
    max_term_width = 120
)]
struct Arguments {
    /// Number of histories of applies.
    #[arg(long, value_name = "N", default_value = "10000")]
    seeds: u64,
    /// Number of lives of two processes that follow the cluster.
    #[arg(long, value_name = "N", default_value = "1000")]
    lives: u64,
    /// Whether to try broken rules too.
    #[arg(long, value_enum, default_value_t)]
    broken_rules: BrokenRules,
    /// The first seed.
    #[arg(long, value_name = "S", default_value = "0")]
    from: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum BrokenRules {
    /// Each must be noticed.
    #[default]
    Tried,
    /// For a quick run.
    LeftOut,
}

/// Seeds within which a broken rule of an apply must be noticed.
const ENOUGH: u64 = 200_000;

/// The same for one of a process that follows the cluster.
const ENOUGH_LIVES: u64 = 3_000;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|command| command == "migrate")
    {
        return migrations::main(std::env::args_os().skip(1));
    }
    let Arguments {
        seeds,
        lives,
        from,
        broken_rules,
    } = Arguments::parse();
    let is_replay = seeds + lives == 1;
    let log = if is_replay { Log::Kept } else { Log::None };
    let range = |count: u64| from..from.saturating_add(count);
    let (histories, failed) = run_all(range(seeds), Setups::new, |seed, setups| {
        run(seed, setups, Sabotage::None, log)
    });
    failed
        .iter()
        .for_each(|failure| tell(failure, "--lives 0 --seeds"));
    let (life, failed_lives) = run_all(range(lives), Setups::new, |seed, setups| {
        live(seed, setups, Sabotage::None, log)
    });
    failed_lives
        .iter()
        .for_each(|failure| tell(failure, "--seeds 0 --lives"));
    let rules = Sabotage::OF_APPLIES.len() + Sabotage::OF_LIVES.len();
    let are_tried = broken_rules == BrokenRules::Tried && !is_replay;
    let noticed = if are_tried { noticed() } else { 0 };
    let Figures {
        applies,
        changes,
        undos,
        undone,
        crashes,
        steps,
    } = histories;
    let Lives {
        lives,
        events,
        given,
        applies: applies_beside,
        restores,
        noticed: settled,
        longest,
    } = life;
    let failures = failed.len() + failed_lives.len();
    println!(
        "simulate: seeds={seeds} from={from} steps={steps} applies={applies} changes={changes} undos={undos} undone={undone} crashes={crashes} lives={lives} \
         events={events} given={given} applies_beside={applies_beside} rollbacks={restores} settled={settled} longest_wait_s={:.1} broken_rules={rules} \
         noticed={noticed} failures={failures}",
        longest.as_secs_f64()
    );
    if failures == 0 && (noticed == rules || !are_tried) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn tell(
    Failure {
        seed,
        step,
        what,
        log,
    }: &Failure,
    again: &str,
) {
    log.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}, step {step}: {}", what.join("; "));
    println!("  to see it again: cargo xtask prove simulate {again} 1 --from {seed}");
}

/// Number of broken rules that are noticed: a proof that cannot fail proves nothing.
fn noticed() -> usize {
    let setups = Setups::new();
    let is_noticed = |sabotage: Sabotage, failure: Option<Failure>| match failure {
        Some(Failure { seed, what, .. }) => {
            println!(
                "{sabotage:?}: noticed with seed {seed}: {}",
                what.join("; ")
            );
            true
        }
        None => {
            println!("{sabotage:?}: not noticed");
            false
        }
    };
    let of_applies = Sabotage::OF_APPLIES
        .into_iter()
        .filter(|sabotage| is_noticed(*sabotage, first_failure(*sabotage, &setups, 0..ENOUGH)));
    let of_lives = Sabotage::OF_LIVES.into_iter().filter(|sabotage| {
        is_noticed(
            *sabotage,
            first_failed_life(*sabotage, &setups, 0..ENOUGH_LIVES),
        )
    });
    of_applies.count() + of_lives.count()
}

/// Runs all seeds on all cores.
fn run_all<F: Default + Add<Output = F> + Send, S>(
    seeds: Range<u64>,
    setups: impl Fn() -> S + Sync,
    run: impl Fn(u64, &S) -> Result<F, Failure> + Sync,
) -> (F, Vec<Failure>) {
    let next = AtomicU64::new(seeds.start);
    let sum = Mutex::new((F::default(), Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let setups = setups();
                let mut mine = (F::default(), Vec::new());
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    match run(seed, &setups) {
                        Ok(figures) => mine.0 = mine.0 + figures,
                        Err(failure) => mine.1.push(failure),
                    }
                }
                let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                sum.0 = std::mem::take(&mut sum.0) + mine.0;
                sum.1.extend(mine.1);
            });
        }
    });
    let (figures, mut failures) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|failure| failure.seed);
    (figures, failures)
}
