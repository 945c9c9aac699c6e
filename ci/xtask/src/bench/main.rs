//! `xtask-bench`: the benchmarks behind `cargo xtask bench`. Each prints its figures on stdout, the
//! last line as `NAME: key=value …`. That line also says if a limit is missed; only `growth` fails
//! then.
//!
//! Every limit is measured in the same run, on the same data, and in alternation with what it
//! limits. Each measured program is a new process, unless its benchmark says why not.
#![forbid(unsafe_code)]

mod alloc;
mod allocator;
mod apply;
mod claims;
mod cni;
mod doctor;
mod events;
mod file;
mod growth;
mod join;
mod pairs;
mod peers;
mod plan;
mod process;
mod raw;
mod samples;
mod services;
mod sizes;
mod timed;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use xtask::tool::{PLUGIN_PLACE, PLUGIN_VARIABLE, TOOL_VARIABLE, USUAL_PLACE};

/// Measure against limits of the same run.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    bin_name = "cargo xtask bench",
    max_term_width = 120
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Number of nodes; of blocks for `alloc`, Services for `services`, rounds for `cni`. Each
    /// benchmark has its own default.
    #[arg(long, global = true, value_name = "N")]
    nodes: Option<usize>,
    /// Measure this program instead of the one built from these sources.
    #[arg(long, global = true, value_name = "FILE", env = TOOL_VARIABLE, default_value = USUAL_PLACE)]
    tool: PathBuf,
    /// Measure this CNI plugin instead of the one built from these sources.
    #[arg(long, global = true, value_name = "FILE", env = PLUGIN_VARIABLE, default_value = PLUGIN_PLACE)]
    plugin: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// `plan` on a real API server, against the raw paged LIST of the same objects, just after a
    /// write and in a quiet cluster; 5,000 nodes.
    Plan,
    /// `apply` on a real API server, against the fastest of several raw PATCH loops; 2,000 nodes.
    Apply,
    /// `plan` on a cluster in a JSON file, against Python's `json.load`; 100,000 nodes.
    File,
    /// The allocator, against that of kube-controller-manager; 1,000,000 blocks.
    Alloc,
    /// `apply` with claims, against `apply` without, on a real API server; 5,000 nodes.
    Claims,
    /// `plan` of LoadBalancer pools on a real API server, against a process that only lists the
    /// same objects; 1,000 Services, 100 pools.
    Services,
    /// `doctor` on a real API server, against the raw paged LIST of the same objects; 5,000 nodes.
    Doctor,
    /// Nodes that join while `watch` runs, alone and in a rush of five minutes, on a real API server;
    /// 5,000 nodes.
    Join,
    /// The processor time of `watch` while nodes join, with and without a pin, change their rack and
    /// are deleted, and of a heartbeat against a cluster of 500 nodes, in each ipam mode; 5,000 nodes.
    /// Takes minutes, so `all` leaves it out.
    Events,
    /// Every program that gives nodes blocks on fresh nodes, and every one that shows differences;
    /// 2,000 nodes.
    Peers(peers::Arguments),
    /// ADD of `cni-ipam-neutron` on a real Neutron, against one raw POST of a port; its start and
    /// its size; 60 rounds.
    Cni,
    /// Files of 1 KiB to 8 MiB in many shapes, read, checked and shown; plans of up to 100,000
    /// nodes or 8,000 pools, shown and applied to a cluster file. Each size is compared with the
    /// one before. `--nodes` is the largest size: bytes, nodes or pools.
    Growth {
        /// Measure only the shapes whose names contain this text.
        #[arg(default_value = "")]
        shape: String,
    },
    /// `plan`, `doctor`, `apply` and `watch` as the cluster grows: 100 nodes, 1,000 and so on, up to
    /// `--nodes` on a real API server, and to ten times as many in a JSON file; 10,000 nodes. Takes
    /// minutes, so `all` leaves it out.
    Sizes(sizes::Arguments),
    /// Those of the published table, one after the other: `plan`, `services`, `doctor`, `apply`,
    /// `file`, `join` and `alloc`.
    Table,
    /// All of them but `sizes` and `events`, one after the other.
    All,
    /// Run a program; print its time, its processor time and its peak memory.
    #[command(hide = true)]
    Timed(timed::Arguments),
    /// List every kind that the tool reads, page after page, and discard it.
    #[command(hide = true)]
    RawList {
        /// The kubeconfig of the testbed.
        kubeconfig: PathBuf,
    },
    /// Run the tool's allocator in this process.
    #[command(hide = true)]
    Allocator(allocator::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments.command, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command, arguments: &Arguments) -> Result<()> {
    let Arguments {
        nodes,
        tool,
        plugin,
        ..
    } = arguments;
    match command {
        Command::Plan => plan::run(tool, nodes.unwrap_or(plan::NODES)),
        Command::Apply => apply::run(tool, nodes.unwrap_or(apply::NODES)),
        Command::File => file::run(tool, nodes.unwrap_or(file::NODES)),
        Command::Alloc => alloc::run(nodes.unwrap_or(alloc::BLOCKS)),
        Command::Claims => claims::run(nodes.unwrap_or(claims::NODES)),
        Command::Services => services::run(tool, nodes.unwrap_or(services::SERVICES)),
        Command::Doctor => doctor::run(tool, nodes.unwrap_or(doctor::NODES)),
        Command::Join => join::run(tool, nodes.unwrap_or(join::NODES)),
        Command::Events => events::run(tool, nodes.unwrap_or(events::NODES)),
        Command::Peers(arguments) => peers::run(tool, nodes.unwrap_or(peers::NODES), arguments),
        Command::Cni => cni::run(plugin, nodes.unwrap_or(cni::TURNS)),
        Command::Growth { shape } => growth::run(nodes.unwrap_or(growth::LARGEST), shape),
        Command::Sizes(arguments) => sizes::run(tool, nodes.unwrap_or(sizes::NODES), arguments),
        Command::Table => each(&table(), arguments),
        Command::All => each(&all(), arguments),
        Command::Timed(arguments) => timed::run(arguments),
        Command::RawList { kubeconfig } => {
            raw::list(&testbed::Client::of_kubeconfig(kubeconfig)?).map(drop)
        }
        Command::Allocator(arguments) => allocator::run(arguments),
    }
}

/// Those of the first table of `docs/benchmarks-method.md`, except `cni`, which needs Neutron.
fn table() -> Vec<Command> {
    vec![
        Command::Plan,
        Command::Services,
        Command::Doctor,
        Command::Apply,
        Command::File,
        Command::Join,
        Command::Alloc,
    ]
}

fn all() -> Vec<Command> {
    let shape = String::new();
    let mut all = table();
    all.extend([
        Command::Claims,
        Command::Peers(peers::Arguments::default()),
        Command::Cni,
        Command::Growth { shape },
    ]);
    all
}

/// Runs one benchmark after the other. One that fails does not keep the others from running.
fn each(commands: &[Command], arguments: &Arguments) -> Result<()> {
    let mut failed = 0;
    for command in commands {
        if let Err(error) = run(command, arguments) {
            eprintln!("bench: {error:#}");
            failed += 1;
        }
    }
    ensure!(failed == 0, "benchmarks that failed: {failed}");
    Ok(())
}
