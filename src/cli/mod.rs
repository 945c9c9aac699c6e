//! The command line: one file for each command. Data goes to stdout, messages to stderr. Only
//! `failure` knows exit codes.

mod apply;
mod apply_report;
mod apply_reviewed;
mod apply_saved;
mod base;
mod capacity;
mod comment;
mod completions;
mod doctor;
mod drift;
mod event;
mod event_human;
mod explain;
mod explain_rule;
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
mod undo_file;
mod upgrade;
mod validate;
mod version;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use failure::Failure;
use jiff::SignedDuration;
use output::Format;
use target::Target;
use tokio::runtime::Runtime;

use crate::render::Detail;
use ipam_cluster::Opening;
use ipam_cluster::live::Connection;
use ipam_config::source::Location;
use ipam_controller::{Loaded, load};

/// Plans and applies the pod CIDRs of a Cilium cluster from YAML files.
#[derive(Debug, Parser)]
#[command(name = "cilium-ipam", version, max_term_width = 120)]
#[command(after_long_help = failure::exit_codes())]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

/// Flags of every command.
#[derive(Clone, Debug, clap::Args)]
struct Common {
    /// Use the cluster in this file: a `v1 List` in JSON or YAML, as `kubectl get
    /// nodes,ciliumnodes,… -o json` prints it, or the archive of a `cilium sysdump`, which is only
    /// read. Repeat the flag for objects in several files: together they are one cluster, and `apply`
    /// takes one file.
    #[arg(long = "cluster-file", alias = "cluster", global = true, value_name = "FILE",
        conflicts_with_all = ["kubeconfig", "context"], add = completions::cluster_files())]
    cluster_files: Vec<PathBuf>,
    /// The kubeconfig file to use.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig context to use.
    #[arg(long, global = true, value_name = "NAME", add = completions::of_kubeconfig())]
    context: Option<String>,
    /// The namespace of Cilium's DaemonSet, operator and ConfigMap. Default: `kube-system`; if it has
    /// no `cilium-config`, the only other namespace that has one and whose agents run on nodes.
    #[arg(long, global = true, value_name = "NAMESPACE", value_parser = namespace)]
    cilium_namespace: Option<String>,
    /// OpenStack's clouds.yaml, for pools that are subnets of Neutron and for allowed address
    /// pairs. Default: where OpenStack's clients look for it.
    #[arg(long, global = true, value_name = "FILE")]
    clouds_file: Option<PathBuf>,
    /// The cloud in that file. Default: `OS_CLOUD`, or the only cloud.
    #[arg(long, global = true, value_name = "NAME")]
    os_cloud: Option<String>,
    /// Use a Neutron in this file instead of OpenStack: JSON with `ports` and `subnets` as Neutron's
    /// API lists them. `apply` writes address pairs there. Only with a cluster in a file: pairs of a
    /// recording say nothing about a live cluster.
    #[arg(long, global = true, value_name = "FILE", requires = "cluster_files",
        conflicts_with_all = ["clouds_file", "os_cloud"])]
    neutron_file: Option<PathBuf>,
    /// How long to retry when the API server fails or is busy, such as `30s`.
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s", value_parser = files::duration)]
    retry_timeout: SignedDuration,
    /// Never ask. Fail if a question is required.
    #[arg(long, global = true)]
    no_input: bool,
    /// Show every change, node and finding. By default, long lists are cut and counted.
    #[arg(long, global = true)]
    show_all: bool,
    /// Print each request to the API server and to OpenStack on stderr: method, place, status and
    /// time. Never prints queries, credentials or bodies.
    #[arg(long, short, global = true, overrides_with = "verbose")]
    verbose: bool,
    /// Print without colours, as with `NO_COLOR=1`.
    #[arg(long, global = true)]
    no_color: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a directory of pools for this cluster: every node keeps its block.
    Init(init::Arguments),
    /// Write files for a running cluster, from what it holds: a plan of them changes nothing.
    Import(import::Arguments),
    /// Check the files without a cluster.
    Validate(validate::Arguments),
    /// Show what would change, and why.
    Plan(plan::Arguments),
    /// Test the rules of the Policy on examples.
    Policy(policy::Arguments),
    /// Show a plan in a pull request: one comment for each directory.
    Comment(comment::Arguments),
    /// Compare the cluster with the files, and keep one issue open while they differ.
    Drift(drift::Arguments),
    /// Carry out a plan.
    Apply(apply::Arguments),
    /// Move nodes of a running cluster to other blocks, or the cluster to another IPAM mode.
    Migrate(migrate::Arguments),
    /// Pin LoadBalancer addresses that are held now, and remove such pins.
    Lb(lb::Arguments),
    /// Keep a cluster as the files say: give blocks to new nodes, apply changes of the files.
    Watch(watch::Arguments),
    /// Keep the cluster as its custom resources say, from inside the cluster.
    Operator(operator::Arguments),
    /// Find problems of the cluster: which address is in use, who announces it, and what will
    /// break.
    Doctor(doctor::Arguments),
    /// Show how full pools and ranges are, which nodes have no block, and how long the rest lasts.
    Capacity(capacity::Arguments),
    /// Show what nodes would get that join, and when pools and ranges are full.
    Simulate(simulate::Arguments),
    /// Explain a node, a pool, an address, a CIDR or a Service: every pool that was considered, and
    /// the rule that decided.
    Explain(explain::Arguments),
    /// Explain the code of a finding, a refusal or a blocked change: what was seen, why it matters,
    /// what to do.
    ExplainRule(explain_rule::Arguments),
    /// Show what an upgrade of Cilium would change for Services and nodes, and what avoids it.
    Upgrade(upgrade::Arguments),
    /// Write a map of the address space, now and after a plan, as one HTML page.
    Map(map::Arguments),
    /// Answer an assistant's questions over the Model Context Protocol: plan, simulate, doctor,
    /// explain, map. Writes nothing.
    Mcp(mcp::Arguments),
    /// Show from the Git history who asked for an address or a pin, and who had an address when.
    History(history::Arguments),
    /// Show pools, nodes, LoadBalancer addresses, or a plan file.
    #[command(alias = "get")]
    Show(show::Arguments),
    /// Write the relevant objects of the cluster into a file that --cluster-file reads.
    Snapshot(snapshot::Arguments),
    /// Print the JSON Schema of the files, for editors.
    Schema(schema::Arguments),
    /// Print a completion script for a shell.
    Completions(completions::Arguments),
    /// Print the version of the program and of its formats.
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
            "the program cannot start: {error}"
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

async fn run(arguments: Arguments) -> Result<ExitStatus, Failure> {
    let Arguments { command, common } = &arguments;
    match command {
        Command::Init(arguments) => init::run(arguments, common).await,
        Command::Import(arguments) => import::run(arguments, common).await,
        Command::Validate(arguments) => validate::run(arguments, common),
        Command::Plan(arguments) => plan::run(arguments, common).await,
        Command::Policy(arguments) => policy::run(arguments, common),
        Command::Comment(arguments) => comment::run(arguments, common).await,
        Command::Drift(arguments) => drift::run(arguments, common).await,
        Command::Apply(arguments) => apply::run(arguments, common).await,
        Command::Migrate(arguments) => migrate::run(arguments, common).await,
        Command::Lb(arguments) => lb::run(arguments, common).await,
        Command::Watch(arguments) => watch::run(arguments, common).await,
        Command::Operator(arguments) => operator::run(arguments, common).await,
        Command::Doctor(arguments) => doctor::run(arguments, common).await,
        Command::Capacity(arguments) => capacity::run(arguments, common).await,
        Command::Simulate(arguments) => simulate::run(arguments, common).await,
        Command::Explain(arguments) => explain::run(arguments, common).await,
        Command::ExplainRule(arguments) => explain_rule::run(arguments),
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

impl Common {
    /// Whether a flag names the cluster.
    fn names_a_cluster(&self) -> bool {
        !self.cluster_files.is_empty() || self.kubeconfig.is_some() || self.context.is_some()
    }

    /// The flags that select the cluster, to be appended to a command.
    fn flags(&self) -> String {
        let named = |flag: &str, path: &PathBuf| format!(" --{flag} {}", path.display());
        let file = |flag, path: &Option<PathBuf>| path.as_ref().map(|path| named(flag, path));
        let clusters = self.cluster_files.iter();
        let context = self
            .context
            .as_ref()
            .map(|context| format!(" --context {context}"));
        let cloud = self
            .os_cloud
            .as_ref()
            .map(|cloud| format!(" --os-cloud {cloud}"));
        let parts = [
            Some(clusters.map(|path| named("cluster-file", path)).collect()),
            file("kubeconfig", &self.kubeconfig),
            context,
            file("clouds-file", &self.clouds_file),
            cloud,
            file("neutron-file", &self.neutron_file),
        ];
        parts.into_iter().flatten().collect()
    }

    fn connection(&self, patience: SignedDuration) -> Connection {
        let (kubeconfig, context) = (self.kubeconfig.clone(), self.context.clone());
        Connection {
            kubeconfig,
            context,
            cilium_namespace: self.cilium_namespace.clone(),
            patience: patience.unsigned_abs(),
        }
    }

    fn detail(&self) -> Detail {
        if self.show_all {
            Detail::Full
        } else {
            Detail::Short
        }
    }

    async fn target(&self, opening: Opening) -> Result<Target, Failure> {
        Target::open(self, opening).await
    }
}

/// The name of a namespace: it becomes part of paths.
fn namespace(text: &str) -> Result<String, &'static str> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    match text.len() <= 63
        && text.starts_with(is_edge)
        && text.ends_with(is_edge)
        && text.chars().all(is_allowed)
    {
        true => Ok(text.to_owned()),
        false => Err("expected the name of a namespace, such as `kube-system`"),
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
