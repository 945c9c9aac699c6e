//! `capacity`: how full the pools and ranges of a cluster are, and how long they last.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::event::EventPrinter;
use super::failure::Failure;
use super::files::{Revision, date};
use super::target::{Target, read_cluster};
use super::{Common, ExitStatus, Format, output};
use crate::render::{Columns, capacity, capacity_markdown};
use ipam_cilium::observed::Observed;
use ipam_cluster::{ClusterCache, Extent, Opening, Role};
use ipam_controller::{
    ControllerEvent, HttpServer, Job, Loaded, Scope, Telemetry, load, watch_capacity,
};
use ipam_plan::capacity::{Capacity, CapacityDocument};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of pools, pins and policy. Default: `pools` if it exists; otherwise only what the
    /// cluster has.
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
    /// Show only what the cluster has, even if `pools` exists.
    #[arg(long, conflicts_with_all = ["directory", "revision"])]
    no_pools: bool,
    #[command(flatten)]
    revision: Revision,
    /// Compute the time left by the trend of the snapshots in this directory, instead of by the
    /// creation of nodes. The name of each is its day, such as `2026-11-30.json`.
    #[arg(long, value_name = "DIR")]
    since: Option<PathBuf>,
    /// Keep counting, and serve `/livez`, `/readyz` and `/metrics` on this address, such as
    /// `127.0.0.1:9464`. Reads what the cluster has, without files.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["directory", "revision", "since"])]
    listen: Option<SocketAddr>,
    /// Output format. `wide` adds nodes, ranges, and the longest run of free addresses.
    #[arg(long, short, value_parser = Format::among(&[Format::Human, Format::Wide, Format::Json, Format::Markdown, Format::Html]), default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    if let Some(address) = arguments.listen {
        return listen(address, arguments.output, common).await;
    }
    let directory = arguments.revision.usual(arguments.directory.as_deref());
    let directory = directory.filter(|_| !arguments.no_pools);
    let loaded = directory.map(|directory| load(&arguments.revision.of(directory)));
    if let Some(loaded) = loaded.as_ref().filter(|loaded| loaded.has_errors()) {
        return Err(Failure::invalid(loaded, common.detail()));
    }
    let (now, mut found) = counted(loaded.as_ref(), common).await?;
    if let Some(directory) = &arguments.since {
        let earlier = earlier(directory, loaded.as_ref(), common).await?;
        found = found.with_trend(&earlier, now);
    }
    let document = CapacityDocument::new(&found);
    let detail = common.detail();
    match arguments.output {
        Format::Json => output::json(&document)?,
        Format::Markdown | Format::Html => {
            let header = common.report_header(None);
            output::page(
                arguments.output,
                "Capacity",
                &header,
                detail,
                |detail, limit| capacity_markdown(&document, detail, limit),
            )?;
        }
        Format::Wide => output::human(&capacity(&document, Columns::Wide, detail))?,
        _ => output::human(&capacity(&document, Columns::Usual, detail))?,
    }
    Ok(ExitStatus::Done)
}

/// Serves the numbers as metrics until a signal.
async fn listen(
    address: SocketAddr,
    format: Format,
    common: &Common,
) -> Result<ExitStatus, Failure> {
    let Target::Live(cluster) = Target::open(common, Opening::Read).await? else {
        let message = "`--listen` needs a live cluster; omit it with `--cluster-file`";
        return Err(Failure::Failed(message.to_owned()));
    };
    let server = HttpServer::bind(address).await?;
    let mut printer = EventPrinter::new(format, common.detail());
    printer.listening(server.address()?, "metrics");
    let telemetry = Arc::new(Telemetry::default());
    let ending = printer.ending();
    let mut on_event = |event: ControllerEvent<'_>| {
        telemetry.on_event(&event);
        printer.on_event(&event);
    };
    let cache = ClusterCache::new(cluster);
    // So that the cache lists the cluster once.
    cache.set_role(Role::Leader);
    tokio::select! {
        () = ending => {}
        never = cache.keep() => match never {},
        never = server.serve(&telemetry) => match never {},
        never = watch_capacity(&cache, &telemetry, &mut on_event) => match never {},
    }
    printer.finish()
}

/// The capacity of the cluster of these arguments, with its time.
pub(super) async fn counted(
    loaded: Option<&Loaded>,
    common: &Common,
) -> Result<(Timestamp, Capacity), Failure> {
    let mut observed = read_cluster(common, Extent::Examination).await?;
    if let [file, ..] = &common.cluster_files[..] {
        observed.at = taken(file).unwrap_or_else(|| newest_creation(&observed));
    }
    let Some(loaded) = loaded else {
        let counted = ipam_plan::capacity::capacity(&observed, None);
        return Ok((observed.at, counted.with_time_left(&observed)));
    };
    let openstack = common.openstack(Scope::Subnets);
    openstack.observe_into(&loaded.desired, &mut observed).await;
    let plan = Job::files(loaded).plan(&observed);
    let files = Some((&loaded.desired, &plan));
    let counted = ipam_plan::capacity::capacity(&observed, files);
    Ok((observed.at, counted.with_time_left(&observed)))
}

/// The capacity in each snapshot of a directory.
async fn earlier(
    directory: &Path,
    loaded: Option<&Loaded>,
    common: &Common,
) -> Result<Vec<(Timestamp, Capacity)>, Failure> {
    let unreadable =
        |error| Failure::Failed(format!("{} cannot be read: {error}", directory.display()));
    let entries = std::fs::read_dir(directory).map_err(unreadable)?;
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::Failed(format!(
            "{} has no snapshot: write one each day with `cilium-ipam snapshot --out {}/2026-11-30.json`",
            directory.display(),
            directory.display()
        )));
    }
    let mut earlier = Vec::new();
    for file in files {
        if taken(&file).is_none() {
            return Err(Failure::Failed(format!(
                "the name of {} is not its day, such as 2026-11-30.json",
                file.display()
            )));
        }
        let common = Common {
            cluster_files: vec![file],
            ..common.clone()
        };
        earlier.push(counted(loaded, &common).await?);
    }
    Ok(earlier)
}

/// When a snapshot was taken, by its name.
fn taken(file: &Path) -> Option<Timestamp> {
    date(file.file_stem()?.to_str()?).ok()
}

/// The creation of the newest Node: the file is at least so young.
fn newest_creation(observed: &Observed) -> Timestamp {
    let created = observed.nodes.values().map(|node| node.created.as_str());
    created
        .max()
        .and_then(|created| created.parse().ok())
        .unwrap_or(observed.at)
}
