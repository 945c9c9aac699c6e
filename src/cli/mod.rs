//! The command line: one file for each command. Data goes to stdout, messages to stderr. Only
//! `failure` knows exit codes.

mod apply;
mod apply_report;
mod apply_reviewed;
mod apply_saved;
mod base;
mod capacity;
mod comment;
mod common;
mod completions;
mod doctor;
mod drift;
mod event;
mod event_human;
mod explain;
mod explain_code;
mod fail_on;
mod failure;
mod files;
mod foreign_commands;
mod forge_arguments;
mod history;
mod import;
mod init;
mod interface;
mod interruption;
mod lb;
mod live_map;
mod manual;
mod map;
mod mcp;
mod migrate;
mod new_files;
mod openstack;
mod operator;
mod other_tools;
mod output;
mod overview;
mod plan;
mod plan_file;
mod policy;
mod roles;
mod schema;
mod show;
mod show_lb;
mod show_nodes;
mod show_plan;
mod show_pools;
mod simulate;
mod snapshot;
mod spellings;
mod target;
mod undo;
mod undo_file;
mod upgrade;
mod validate;
mod version;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::Common;
use failure::Failure;
use output::Format;
use tokio::runtime::Runtime;

use ipam_config::source::Location;
use ipam_controller::{Loaded, load};

/// How an environment variable sets a flag.
const ENVIRONMENT: &str = "Environment:
  A variable sets each flag that the command line omits: CILIUM_IPAM_CONTEXT for --context of every command,
  CILIUM_IPAM_PLAN_OUT for --out of `plan`. An empty variable sets nothing.";

/// Plans and applies the pod CIDRs of a Cilium cluster from YAML files.
#[derive(Debug, Parser)]
#[command(name = "cilium-ipam", version, max_term_width = 120)]
#[command(after_long_help = format!("{ENVIRONMENT}\n\n{}", failure::exit_codes()))]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write files for a new directory: every node keeps its block.
    ///
    /// Asks at most four questions. Flags answer them; where stdin is not a terminal, defaults do.
    /// Writes the pools, a Policy, a JSON Schema for editors and a CI file. If the directory has
    /// pools, `--ci` writes the CI file alone. Never overwrites a file.
    Init(init::Arguments),
    /// Write files for a running cluster; their plan changes nothing.
    ///
    /// Infers pools from the blocks of nodes, their labels and the settings, and explains each in a
    /// comment. Plans the files before it writes them: if the plan has a change or a misplaced
    /// block, nothing is written. `--from` reads another address manager instead. Never overwrites a
    /// file. If DIR has files, it prints the difference, and exits with 1 if there is one.
    Import(import::Arguments),
    /// Check the files without a cluster.
    Validate(validate::Arguments),
    /// Show what would change, and why.
    Plan(plan::Arguments),
    /// Test the rules of the Policy on examples.
    Policy(policy::Arguments),
    /// Show a plan in a pull request, as one comment for each directory.
    ///
    /// If the plan or the commit changes, a new comment replaces the old one. Exits with 5 if the
    /// plan is refused, and with 2 if it has errors or its Policy allows more than that of --base,
    /// unless --fail-on names something else.
    Comment(comment::Arguments),
    /// Keep one issue open while the cluster differs from the files.
    ///
    /// They differ if a plan has changes, blocked changes, drift, misplaced blocks or errors, or if a
    /// part of the cluster cannot be read. The issue is updated in place, and closed when they agree.
    /// With `--target` or `--exclude`, that part has an issue of its own.
    Drift(drift::Arguments),
    /// Apply the files, or a saved plan.
    Apply(apply::Arguments),
    /// List undo plans of earlier applies, or apply one.
    ///
    /// Each apply writes an undo plan for the changes that can be undone. The files stay as they are:
    /// change them, too, or the next apply writes the same again.
    Undo(apply::Arguments),
    /// Move nodes to other blocks, or the cluster to another IPAM mode.
    Migrate(migrate::Arguments),
    /// Pin LoadBalancer addresses that are in use, or remove such pins.
    Lb(lb::Arguments),
    /// Apply changes of the files, and assign blocks to new nodes.
    Watch(watch::Arguments),
    /// Apply custom resources, from inside the cluster.
    Operator(operator::Arguments),
    /// Find problems in the cluster, and what will break next.
    ///
    /// Shows which address is in use, and which node announces it. Writes nothing.
    Doctor(doctor::Arguments),
    /// Show how full pools and ranges are, and how long the rest lasts.
    ///
    /// Also shows which nodes have no block. Writes nothing.
    Capacity(capacity::Arguments),
    /// Show what new nodes would get, and when pools and ranges are full.
    Simulate(simulate::Arguments),
    /// Explain a node, pool, address, Service, or a finding's code.
    ///
    /// For an object, shows every pool that was considered, and the rule that decided. For the code of a
    /// finding, a refusal or a blocked change, shows its page, without a cluster. Without an argument,
    /// lists all codes.
    Explain(explain::Arguments),
    /// Show what an upgrade of Cilium changes, and how to avoid losses.
    ///
    /// Shows addresses, announcements, write paths and meanings, for each minor release on the way.
    /// Exits with 0 if nothing changes, with 2 if something would change, and with 8 if nothing was
    /// found and a part of the cluster could not be read. Writes nothing.
    Upgrade(upgrade::Arguments),
    /// Write a map of the addresses, now and after a plan, as HTML.
    Map(map::Arguments),
    /// Answer an assistant's questions over the Model Context Protocol.
    ///
    /// The tools are plan, simulate, doctor, explain and map. Writes nothing.
    Mcp(mcp::Arguments),
    /// Show who asked for an address or a pin, and who had it when.
    ///
    /// Reads the Git history of the directory.
    History(history::Arguments),
    /// Show pools, nodes, LoadBalancer addresses, or a plan file.
    #[command(alias = "get")]
    Show(show::Arguments),
    /// Write the cluster into a file that `--cluster-file` reads.
    Snapshot(snapshot::Arguments),
    /// Print the JSON Schema of the files, CRDs, or RBAC roles.
    ///
    /// Also prints admission policies, with `--admission`.
    Schema(schema::Arguments),
    /// Print a completion script for a shell.
    Completions(completions::Arguments),
    /// Print the version of `cilium-ipam` and of its formats.
    Version(version::Arguments),
    /// Write man pages into a directory.
    #[command(hide = true)]
    Manual(manual::Arguments),
}

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExitStatus {
    Done,
    ChangesPending,
    Findings,
    /// `apply` would refuse the plan.
    Refused,
    /// Nothing was found, and a part of the cluster could not be read.
    Unreadable,
}

/// Twice the usual stack of a main thread, in bytes. A parser recurses as deep as a file is nested,
/// up to its limit.
const STACK: usize = 16 * 1024 * 1024;

/// Runs the program.
pub fn main() -> ExitCode {
    match completions::answered() {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(_) => return ExitCode::FAILURE,
    }
    let arguments = match interface::arguments(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(error) => return failure::usage(&error),
    };
    if arguments.common.no_color {
        output::without_colours();
    }
    if arguments.common.quiet {
        output::without_progress();
    }
    let detail = arguments.common.detail();
    let outcome = match runtime() {
        Ok(runtime) => {
            let outcome = runtime.block_on(async {
                tokio::spawn(run(arguments))
                    .await
                    .unwrap_or_else(Failure::from_panic)
            });
            // A file system that hangs must not block the exit.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(Failure::Failed(format!(
            "cilium-ipam cannot start: {error}"
        ))),
    };
    failure::exit_code(outcome, detail)
}

fn runtime() -> std::io::Result<Runtime> {
    // With two workers, a connection and its reader wake each other for every few kilobytes.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime
        .worker_threads(1)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
}

async fn run(mut arguments: Arguments) -> Result<ExitStatus, Failure> {
    let Arguments { command, common } = &mut arguments;
    let common = &*common;
    match command {
        Command::Init(arguments) => init::run(arguments, common).await,
        Command::Import(arguments) => import::run(arguments, common).await,
        Command::Validate(arguments) => validate::run(arguments, common),
        Command::Plan(arguments) => plan::run(arguments, common).await,
        Command::Policy(arguments) => policy::run(arguments, common),
        Command::Comment(arguments) => comment::run(arguments, common).await,
        Command::Drift(arguments) => drift::run(arguments, common).await,
        Command::Apply(arguments) => apply::run(arguments, common).await,
        Command::Undo(arguments) => undo::run(arguments, common).await,
        Command::Migrate(arguments) => migrate::run(arguments, common).await,
        Command::Lb(arguments) => lb::run(arguments, common).await,
        Command::Watch(arguments) => watch::run(arguments, common).await,
        Command::Operator(arguments) => operator::run(arguments, common).await,
        Command::Doctor(arguments) => doctor::run(arguments, common).await,
        Command::Capacity(arguments) => capacity::run(arguments, common).await,
        Command::Simulate(arguments) => simulate::run(arguments, common).await,
        Command::Explain(arguments) => explain::run(arguments, common).await,
        Command::Upgrade(arguments) => upgrade::run(arguments, common).await,
        Command::Map(arguments) => map::run(arguments, common).await,
        Command::Mcp(arguments) => mcp::run(arguments, common).await,
        Command::History(arguments) => history::run(arguments, common).await,
        Command::Show(arguments) => show::run(arguments, common).await,
        Command::Snapshot(arguments) => snapshot::run(arguments, common).await,
        Command::Schema(arguments) => schema::run(arguments, common),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Version(arguments) => version::run(arguments),
        Command::Manual(arguments) => manual::run(arguments),
    }
}

/// Reads the files. Fails with the diagnostics if they have errors.
fn load_valid(location: &Location, common: &Common) -> Result<Loaded, Failure> {
    valid(load(location), common).map_err(Failure::unwritten)
}

/// Fails with the diagnostics if the files have errors.
fn valid(loaded: Loaded, common: &Common) -> Result<Loaded, Failure> {
    match loaded.has_errors() {
        true => Err(Failure::invalid(&loaded, common.detail())),
        false => Ok(loaded),
    }
}
