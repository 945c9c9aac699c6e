//! `simulator migrate`: runs migrations by seed on all cores, and prints their figures.

use std::process::ExitCode;

use clap::Parser;
use simulator::{
    BrokenRule, Failure, Log, MigrationSetups, Moves, first_failed_migration, migrate,
};

use super::{BrokenRules, run_all};

/// Run the real migration against a simulated cluster that runs Pods, with kills, people, rivals
/// and broken machines by seed.
#[derive(Debug, Parser)]
#[command(
    name = "simulator migrate",
    bin_name = "simulator migrate",
    max_term_width = 120
)]
struct Arguments {
    /// Number of migrations.
    #[arg(long, value_name = "N", default_value = "1000")]
    seeds: u64,
    /// The first seed.
    #[arg(long, value_name = "S", default_value = "0")]
    from: u64,
    /// Whether to try broken rules too.
    #[arg(long, value_enum, default_value_t)]
    broken_rules: BrokenRules,
}

/// Seeds within which a broken rule must be noticed.
const ENOUGH: u64 = 2_000;

/// Most failures that are printed.
const SHOWN: usize = 12;

pub(super) fn main(arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let Arguments {
        seeds,
        from,
        broken_rules,
    } = Arguments::parse_from(arguments);
    let log = if seeds == 1 { Log::Kept } else { Log::None };
    let range = from..from.saturating_add(seeds);
    let (sum, failed) = run_all(range, MigrationSetups::new, |seed, setups| {
        migrate(seed, setups, BrokenRule::None, log)
    });
    failed.iter().take(SHOWN).for_each(tell);
    let are_tried = broken_rules == BrokenRules::Tried && seeds > 1;
    let noticed = if are_tried { noticed() } else { 0 };
    let rules = BrokenRule::ALL.len();
    let Moves {
        moves,
        kills,
        duplicates,
        done,
        undone,
        stopped,
        taken_by_operator,
        steps,
    } = sum;
    let failures = failed.len();
    println!(
        "migrate: seeds={seeds} from={from} steps={steps} moves={moves} kills={kills} duplicates={duplicates} done={done} \
         undone={undone} stopped={stopped} taken_by_operator={taken_by_operator} broken_rules={rules} noticed={noticed} failures={failures}"
    );
    match failures == 0 && (noticed == rules || !are_tried) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn tell(
    Failure {
        seed,
        step,
        what,
        log,
    }: &Failure,
) {
    log.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}, step {step}: {}", what.join("; "));
    println!("  to see it again: cargo run -p simulator -- migrate --seeds 1 --from {seed}");
}

/// Number of broken rules that are noticed.
fn noticed() -> usize {
    let setups = MigrationSetups::new();
    let is_noticed = |rule: &BrokenRule| match first_failed_migration(*rule, &setups, 0..ENOUGH) {
        Some(Failure { seed, what, .. }) => {
            println!("{rule:?}: noticed with seed {seed}: {}", what.join("; "));
            true
        }
        None => {
            println!("{rule:?}: not noticed");
            false
        }
    };
    BrokenRule::ALL
        .iter()
        .filter(|rule| is_noticed(rule))
        .count()
}
