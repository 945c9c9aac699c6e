//! `xtask-prove`: what `cargo xtask prove` runs. Each proof tries to break a promise of the tool,
//! prints what it found on stdout, the last line as `NAME: key=value …`, and fails when the promise
//! was broken.
//!
//! A proof sees the tool from outside, as a process, and the cluster with means of its own.
#![forbid(unsafe_code)]

mod applier;
mod appliers;
mod autoscaler;
mod churn;
mod claims;
mod directories;
mod faulty;
mod gate;
mod holdings;
mod kills;
mod leader;
mod migrate;
mod paused;
mod prefix;
mod restarts;
mod restore;
mod rival;
mod soak;
mod trial;
mod upgrades;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::tool::{TOOL_VARIABLE, Tool, USUAL_PLACE};

/// Try to break what the tool promises.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask prove",
    bin_name = "cargo xtask prove",
    max_term_width = 120
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// How many nodes; each proof has a number of its own.
    #[arg(long, global = true, value_name = "N")]
    nodes: Option<usize>,
    /// Repeats the choices of an earlier run, whose line names it; some proofs choose nothing.
    #[arg(long, global = true, value_name = "N")]
    seed: Option<u64>,
    /// The program to try, instead of the one that is built from these sources.
    #[arg(long, global = true, value_name = "FILE", env = TOOL_VARIABLE, default_value = USUAL_PLACE)]
    tool: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Several appliers at once, with directories that disagree, while nodes live, come and go; 300
    /// nodes.
    Appliers,
    /// SIGKILL at any moment of an apply; 100 nodes.
    Kills(kills::Arguments),
    /// SIGSTOP between the claim and the write, and much happens before SIGCONT; 60 nodes.
    Paused,
    /// kube-apiserver and etcd end and come back while appliers run, twice on an older snapshot;
    /// 300 nodes.
    Restarts,
    /// etcd is restored from snapshots while nodes join, under `watch` and two operators; 8 nodes
    /// at a time.
    Restore(restore::Arguments),
    /// kube-controller-manager gives blocks of the same range to the same nodes, unseen; 800 nodes.
    Rival,
    /// SIGKILL, or SIGSTOP for a while, for the operator that leads while many nodes join; 2,000
    /// nodes.
    Leader,
    /// Nodes leave and join all the time while the leader is killed again and again: blocks stay
    /// in quarantine; 2,000 nodes.
    Autoscaler(autoscaler::Arguments),
    /// SIGKILL at any moment of a migration from one flat pool to a pool for each rack; 24 nodes.
    Migrate(migrate::Arguments),
    /// A large file with very many faults comes again and again while nodes join; 200 nodes.
    Faulty,
    /// `watch` for a long time while nodes, files and the API server come and go; 500 nodes.
    Soak(soak::Arguments),
    /// Real operators of two versions, one after the other: what `upgrade` names moves, and nothing
    /// else; 6 clusters for each pair.
    Upgrades(upgrades::Arguments),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prove: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let Arguments {
        command,
        nodes,
        seed,
        tool,
    } = arguments;
    let seed = seed.unwrap_or_else(testbed::fresh_seed);
    let tool = Tool::new(tool)?;
    match command {
        Command::Appliers => appliers::run(&tool, nodes.unwrap_or(appliers::NODES), seed),
        Command::Kills(arguments) => {
            kills::run(&tool, nodes.unwrap_or(kills::NODES), seed, arguments)
        }
        Command::Paused => paused::run(&tool, nodes.unwrap_or(paused::NODES), seed),
        Command::Restarts => restarts::run(&tool, nodes.unwrap_or(restarts::NODES)),
        Command::Restore(arguments) => {
            restore::run(&tool, nodes.unwrap_or(restore::NODES), seed, arguments)
        }
        Command::Leader => leader::run(&tool, nodes.unwrap_or(leader::NODES), seed),
        Command::Migrate(arguments) => {
            migrate::run(&tool, nodes.unwrap_or(migrate::NODES), seed, arguments)
        }
        Command::Autoscaler(arguments) => {
            autoscaler::run(&tool, nodes.unwrap_or(autoscaler::NODES), seed, arguments)
        }
        Command::Faulty => faulty::run(&tool, nodes.unwrap_or(faulty::NODES), seed),
        Command::Soak(arguments) => soak::run(&tool, nodes.unwrap_or(soak::NODES), seed, arguments),
        Command::Upgrades(arguments) => upgrades::run(&tool, seed, arguments),
        Command::Rival => rival::run(&tool, nodes.unwrap_or(rival::NODES)),
    }
}
