//! `simulate`: what nodes would get that join, by the one planner or by the ranges of the allocator.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches, value_parser};

use super::failure::Failure;
use super::files::Revision;
use super::target::read_cluster;
use super::{Common, ExitStatus, Format, output};
use crate::render::{simulation, simulation_markdown};
use ipam_cluster::Extent;
use ipam_controller::{Scope, load};
use ipam_core::model::Selector;
use ipam_plan::simulate::{Group, NodesChange, SimulationDocument, simulate};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of pools, pins and policy. Default: `pools` if it exists; otherwise only what the
    /// cluster has.
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
    /// Use only what the cluster has, even if `pools` exists.
    #[arg(long, conflicts_with_all = ["directory", "revision"])]
    no_pools: bool,
    #[command(flatten)]
    revision: Revision,
    #[command(flatten)]
    joining: Joining,
    /// First remove the nodes with these labels, and their blocks.
    #[arg(long, value_name = "SELECTOR")]
    remove: Option<Selector>,
    /// The number of Pods that new nodes accept. Default: that of most nodes. In ipam `multi-pool`, the
    /// number of Pods for which new nodes ask for addresses. Default: none.
    #[arg(long, value_name = "N")]
    max_pods: Option<u64>,
    /// Output format.
    #[arg(long, short, value_parser = Format::report(), default_value = "human")]
    output: Format,
}

/// The groups of new nodes: `--label` belongs to the `--add` before it.
#[derive(Clone, Debug, Default)]
struct Joining(Vec<Group>);

const ADD: &str = "add";
const LABEL: &str = "label";

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE, such as `rack=r7`".to_owned()),
    }
}

impl clap::Args for Joining {
    fn augment_args(command: Command) -> Command {
        command
            .arg(
                Arg::new(ADD)
                    .long(ADD)
                    .value_name("N")
                    .action(ArgAction::Append)
                    .value_parser(value_parser!(u32))
                    .help("Add this many nodes, with the labels that follow. Repeatable"),
            )
            .arg(
                Arg::new(LABEL)
                    .long(LABEL)
                    .value_name("KEY=VALUE")
                    .action(ArgAction::Append)
                    .value_parser(ValueParser::new(label))
                    .help("A label for the nodes of the preceding `--add`. Repeatable"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Joining::augment_args(command)
    }
}

impl FromArgMatches for Joining {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Joining, Error> {
        let counts = matches.get_many::<u32>(ADD).into_iter().flatten();
        let places: Vec<usize> = matches.indices_of(ADD).into_iter().flatten().collect();
        let group = |count: &u32| Group {
            count: *count as usize,
            ..Group::default()
        };
        let mut groups: Vec<Group> = counts.map(group).collect();
        let labels = matches.get_many::<(String, String)>(LABEL);
        let indices = matches.indices_of(LABEL).into_iter().flatten();
        for ((key, value), index) in labels.into_iter().flatten().zip(indices) {
            let before = places.partition_point(|place| *place < index);
            let Some(group) = before.checked_sub(1).and_then(|at| groups.get_mut(at)) else {
                let why = "--label comes after the --add whose nodes have it\n";
                return Err(Error::raw(ErrorKind::ArgumentConflict, why));
            };
            group.labels.insert(key.clone(), value.clone());
        }
        Ok(Joining(groups))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Joining::from_arg_matches(matches)?;
        Ok(())
    }
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let Joining(add) = arguments.joining.clone();
    let change = NodesChange::new(add, arguments.remove.clone(), arguments.max_pods)
        .map_err(|error| Failure::Failed(error.to_string()))?;
    if change.is_empty() {
        let why =
            "name nodes that join or leave: `--add 10 --label rack=r7`, or `--remove rack=r7`";
        return Err(Failure::Failed(why.to_owned()));
    }
    let directory = arguments.revision.usual(arguments.directory.as_deref());
    let directory = directory.filter(|_| !arguments.no_pools);
    let loaded = directory.map(|directory| load(&arguments.revision.of(directory)));
    if let Some(loaded) = loaded.as_ref().filter(|loaded| loaded.has_errors()) {
        return Err(Failure::invalid(loaded, common.detail()));
    }
    let mut observed = read_cluster(common, Extent::Examination).await?;
    let desired = loaded.as_ref().map(|loaded| &loaded.desired);
    if let Some(desired) = desired {
        let openstack = common.openstack(Scope::Subnets);
        openstack.observe_into(desired, &mut observed).await;
    }
    let document = SimulationDocument::new(&simulate(desired, &observed, &change));
    match arguments.output {
        Format::Json => output::json(&document)?,
        Format::Markdown | Format::Html => {
            output::page(
                arguments.output,
                "Simulation",
                &common.report_header(Some(&observed)),
                common.detail(),
                |_, limit| simulation_markdown(&document, limit),
            )?;
        }
        _ => output::human(&simulation(&document, common.detail()))?,
    }
    Ok(match document.without() {
        0 => ExitStatus::Done,
        _ => ExitStatus::Findings,
    })
}
