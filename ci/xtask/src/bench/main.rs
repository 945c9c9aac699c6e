//! `xtask-bench`: what `cargo xtask bench` runs. Prints the figures of each benchmark on stdout,
//! the last line as `NAME: key=value …`; a limit that is missed is said there, and fails nothing.
//!
//! Every limit is measured in the same run, on the same data and by turns with what it limits. What
//! is measured runs as a process of its own, started anew each time, unless its benchmark says why
//! not.
#![forbid(unsafe_code)]

mod alloc;
mod apply;
mod claims;
mod cni;
mod doctor;
mod file;
mod growth;
mod join;
mod newcomers;
mod ours;
mod plan;
mod process;
mod raw;
mod samples;
mod services;
mod timed;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
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
    verb: Verb,
    /// How many nodes, blocks for `alloc`, Services for `services`, or turns for `cni`; each
    /// benchmark has a number of its own.
    #[arg(long, global = true, value_name = "N")]
    nodes: Option<usize>,
    /// The program to measure, instead of the one that is built from these sources.
    #[arg(long, global = true, value_name = "FILE", env = TOOL_VARIABLE, default_value = USUAL_PLACE)]
    tool: PathBuf,
    /// The CNI plugin to measure, instead of the one that is built from these sources.
    #[arg(long, global = true, value_name = "FILE", env = PLUGIN_VARIABLE, default_value = PLUGIN_PLACE)]
    plugin: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// `plan` on a real API server, against the raw paged LIST of the same objects; 5,000 nodes.
    Plan,
    /// `apply` on a real API server, against a raw PATCH loop of the same concurrency; 5,000 nodes.
    Apply,
    /// `plan` on a cluster in a JSON file, against json.load of Python; 100,000 nodes.
    File,
    /// The allocator, against Kubernetes' own; 1,000,000 blocks.
    Alloc,
    /// `apply` with claims and without, on a real API server; 5,000 nodes.
    Claims,
    /// `plan` of LoadBalancer pools on a real API server, against a process that only lists the
    /// same objects; 1,000 Services, 100 pools.
    Services,
    /// `doctor` on a real API server, against the raw paged LIST of the same objects; 5,000 nodes.
    Doctor,
    /// A node that joins while `watch` runs, on a real API server, against one raw PATCH; 5,000
    /// nodes.
    Join,
    /// Nodes that are created all at once while the operator runs, against
    /// kube-controller-manager's node-ipam-controller; 2,000 nodes.
    Newcomers,
    /// ADD of `cni-ipam-neutron` on a real Neutron, against one raw POST of a port; its start and
    /// its size; 60 turns.
    Cni,
    /// What reading, checking and showing files of 1 KiB to 8 MiB costs, for many shapes; each size
    /// against the one before. `--nodes` is the largest size, in bytes.
    Growth,
    /// One after the other.
    All,
    /// Run a program, and print how long it took and the most memory that it had.
    #[command(hide = true)]
    Timed(timed::Arguments),
    /// List every kind that the tool reads, page after page, and throw it away.
    #[command(hide = true)]
    RawList {
        /// Of the testbed.
        kubeconfig: PathBuf,
    },
    /// Run our allocator in this process.
    #[command(hide = true)]
    Ours(ours::Arguments),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let Arguments {
        verb,
        nodes,
        tool,
        plugin,
    } = arguments;
    match verb {
        Verb::Plan => plan::run(tool, nodes.unwrap_or(plan::NODES)),
        Verb::Apply => apply::run(tool, nodes.unwrap_or(apply::NODES)),
        Verb::File => file::run(tool, nodes.unwrap_or(file::NODES)),
        Verb::Alloc => alloc::run(nodes.unwrap_or(alloc::BLOCKS)),
        Verb::Claims => claims::run(nodes.unwrap_or(claims::NODES)),
        Verb::Services => services::run(tool, nodes.unwrap_or(services::SERVICES)),
        Verb::Doctor => doctor::run(tool, nodes.unwrap_or(doctor::NODES)),
        Verb::Join => join::run(tool, nodes.unwrap_or(join::NODES)),
        Verb::Newcomers => newcomers::run(tool, nodes.unwrap_or(newcomers::NODES)),
        Verb::Cni => cni::run(plugin, nodes.unwrap_or(cni::TURNS)),
        Verb::Growth => growth::run(nodes.unwrap_or(growth::LARGEST)),
        Verb::All => {
            growth::run(growth::LARGEST)?;
            doctor::run(tool, nodes.unwrap_or(doctor::NODES))?;
            services::run(tool, nodes.unwrap_or(services::SERVICES))?;
            plan::run(tool, nodes.unwrap_or(plan::NODES))?;
            apply::run(tool, nodes.unwrap_or(apply::NODES))?;
            file::run(tool, nodes.unwrap_or(file::NODES))?;
            alloc::run(nodes.unwrap_or(alloc::BLOCKS))?;
            claims::run(nodes.unwrap_or(claims::NODES))?;
            join::run(tool, nodes.unwrap_or(join::NODES))?;
            newcomers::run(tool, nodes.unwrap_or(newcomers::NODES))?;
            cni::run(plugin, nodes.unwrap_or(cni::TURNS))
        }
        Verb::Timed(arguments) => timed::run(arguments),
        Verb::RawList { kubeconfig } => {
            raw::list(&testbed::Client::of_kubeconfig(kubeconfig)?).map(drop)
        }
        Verb::Ours(arguments) => ours::run(arguments),
    }
}
