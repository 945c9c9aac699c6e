//! `show pools`, `show nodes` and `show lb`: tables as kubectl prints them; and `show plan`, or
//! `show PLANFILE`.

use clap::Subcommand;
use serde::Serialize;

use super::failure::Failure;
use super::target::read_valid;
use super::{
    Common, ExitStatus, Format, explain, output, show_lb, show_nodes, show_plan, show_pools,
};
use crate::render::{by_name, table};
use ipam_cilium::observed::Observed;
use ipam_cluster::Extent;
use ipam_config::source::Location;
use ipam_controller::{Job, Loaded, Scope};
use ipam_plan::check::about_blocks;
use ipam_plan::plan::Plan;

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    plan: Option<show_plan::Flags>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Each pool with its number of blocks: total, used, reserved, free.
    #[command(aliases = ["pool", "ippools", "ippool"])]
    Pools(show_pools::Flags),
    /// LoadBalancer pools with their counts, and the Services that have or want addresses of them.
    #[command(aliases = [
        "services", "service", "svc",
        "ciliumloadbalancerippools", "ciliumloadbalancerippool", "lbippools", "lbippool",
    ])]
    Lb(show_lb::Flags),
    /// Each node with its blocks, the field that shows them, and the plan for it.
    #[command(aliases = ["node", "no", "ciliumnodes", "ciliumnode", "cn"])]
    Nodes(show_nodes::Flags),
    /// A saved plan or an undo plan, as `show PLANFILE` does.
    Plan(show_plan::Flags),
}

#[derive(Serialize)]
struct Items<T> {
    format_version: &'static str,
    items: Vec<T>,
}

/// A column of a table: its heading, and the cell of a row.
pub(super) type Column<R> = (&'static str, fn(&R) -> String);

/// Prints the rows; as a table, in the order of their names. `wide` adds columns to that format.
pub(super) fn print<R: Serialize>(
    format: Format,
    rows: Vec<R>,
    name: impl Fn(&R) -> &str,
    columns: &[Column<R>],
    wide: &[Column<R>],
) -> std::io::Result<()> {
    let items = |items| Items {
        format_version: "1.1",
        items,
    };
    let columns = match format {
        Format::Json => return output::json(&items(rows)),
        Format::Yaml => return output::yaml(&items(rows)),
        Format::Wide => [columns, wide].concat(),
        _ => columns.to_vec(),
    };
    output::human(&text(&columns, &by_name(&rows, name)))
}

pub(super) fn text<R>(columns: &[Column<R>], rows: &[&R]) -> String {
    let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
    let cells = |row: &&R| columns.iter().map(|(_, cell)| cell(row)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table(headings, &rows)
}

/// `-` for nothing, as kubectl prints `<none>`.
pub(super) fn or_dash(text: &str) -> String {
    match text.is_empty() {
        true => "-".to_owned(),
        false => text.to_owned(),
    }
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    match (&arguments.what, &arguments.plan) {
        (Some(What::Plan(flags)), _) | (None, Some(flags)) => return show_plan::run(flags, common),
        (None, None) => {
            return Err(Failure::Failed(
                "name a table or a plan file; see `show --help`".to_owned(),
            ));
        }
        (Some(What::Lb(flags)), _) => return show_lb::run(flags, common).await,
        (Some(What::Pools(flags)), _) => show_pools::run(flags, common).await?,
        (Some(What::Nodes(flags)), _) => show_nodes::run(flags, common).await?,
    }
    Ok(ExitStatus::Done)
}

pub(super) async fn read_and_plan(
    location: Location,
    common: &Common,
) -> Result<(Loaded, Observed, Plan), Failure> {
    let (loaded, observed) = read_valid(location, common, Extent::Plan, Scope::Subnets).await?;
    explain::warn(&about_blocks(&loaded.desired, &observed), &loaded, common);
    let plan = Job::files(&loaded).plan(&observed);
    Ok((loaded, observed, plan))
}
