//! `migrate plan`: shows the whole schedule of a migration, or saves it for `migrate apply`, whose
//! argument is a directory or such a schedule. It never writes to the cluster.

use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::super::fail_on::{FailOn, FailOnArguments};
use super::super::failure::Failure;
use super::super::files::{Files, output_file};
use super::super::target::Target;
use super::super::{Common, ExitStatus, Format, load_valid, output};
use super::options::RequestArguments;
use crate::cli::plan_file::{Inputs, is_named_as_plan};
use crate::render::{migration, migration_markdown, printable};
use ipam_cilium::observed::Observed;
use ipam_cluster::{Cluster, Extent, Opening, observe, open_regular, replace_private_file};
use ipam_controller::migration::pods_by_node;
use ipam_controller::{Loaded, Scope};
use ipam_core::text::most_similar;
use ipam_desired::{Desired, WindowState};
use ipam_migrate::migration::{
    MigrationRequest, ScheduleDocument, ScheduleFileError, Workloads, schedule,
};

/// Show which nodes would move, in which waves, by which steps, and what is lost.
#[derive(Debug, clap::Args)]
pub(in super::super) struct Arguments {
    #[command(flatten)]
    files: Files,
    /// Save the schedule, for `migrate apply FILE`. `-o json` prints the same.
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    out: Option<PathBuf>,
    #[command(flatten)]
    request: RequestArguments,
    /// Output format.
    #[arg(long, short, value_parser = Format::report(), default_value = "human")]
    output: Format,
    #[command(flatten)]
    fail_on: FailOnArguments,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    arguments.fail_on.suits(None)?;
    let location = arguments.files.location();
    Inputs::of(common)
        .with_directory(&location.directory)
        .check(&[("--out", arguments.out.as_deref())])?;
    let loaded = load_valid(&location, common)?;
    let cluster = common.target(Opening::Read).await?;
    let pods = match &cluster {
        Target::Live(live) => pods_by_node(live).await?,
        Target::File(_) | Target::Sysdump(_) => Workloads::default(),
    };
    let request = |observed: &Observed| arguments.request.resolved(observed);
    let made = scheduled(
        &cluster,
        &loaded,
        &location.directory,
        &pods,
        request,
        common,
    )
    .await?;
    let document = &made.document;
    if let Some(file) = &arguments.out {
        replace_private_file(file, &output::json_text(document)?).map_err(|error| {
            let file = file.display();
            Failure::Failed(format!("the schedule cannot be saved to {file}: {error}"))
        })?;
    }
    let detail = common.detail();
    match arguments.output {
        Format::Json => output::json(document)?,
        Format::Markdown | Format::Html => {
            let title = format!("Migration of {}", printable(&document.directory));
            let header = common.report_header(Some(&made.observed));
            output::page(
                arguments.output,
                &title,
                &header,
                detail,
                |detail, limit| migration_markdown(document, detail, limit),
            )?;
        }
        _ => {
            tell_windows(&loaded.desired, cluster.now());
            output::human(&migration(document, detail))?;
        }
    }
    if let Some(file) = &arguments.out {
        output::progress(&format!(
            "\nSaved. {}\ndigest: {}",
            next(file, document, common, &cluster),
            document.digest
        ));
    }
    Ok(arguments.fail_on.status(document, &[FailOn::Error]))
}

fn next(file: &Path, document: &ScheduleDocument, common: &Common, cluster: &Target) -> String {
    match (document.moves.is_empty(), cluster) {
        (true, _) => "No node moves.".to_owned(),
        (false, Target::File(_) | Target::Sysdump(_)) => {
            "It is of a cluster file: plan with the live cluster to apply it.".to_owned()
        }
        (false, Target::Live(_)) => format!(
            "To do exactly this: cilium-ipam migrate apply {}{}",
            file.display(),
            common.flags()
        ),
    }
}

/// Says when nodes may move, if the Policy has maintenance windows.
pub(super) fn tell_windows(desired: &Desired, now: Timestamp) {
    let policy = &desired.policy.migration;
    if policy.windows.is_empty() {
        return;
    }
    let state = match policy.state_at(now) {
        WindowState::Open { until: Some(until) } => {
            format!("is open until {}", policy.local(until))
        }
        WindowState::Open { until: None } => "is open".to_owned(),
        WindowState::Closed { opens: Some(opens) } => {
            format!("opens at {}: no node begins before", policy.local(opens))
        }
        WindowState::Closed { opens: None } => "never opens again: no node begins".to_owned(),
    };
    output::warn(&format!("a maintenance window {state}"));
}

/// A schedule, and the observed cluster for which it was made.
pub(super) struct Scheduled {
    pub(super) observed: Observed,
    pub(super) document: ScheduleDocument,
}

/// Schedules a migration of the cluster in its current state.
pub(super) async fn scheduled<C: Cluster>(
    cluster: &C,
    loaded: &Loaded,
    directory: &Path,
    pods: &Workloads,
    request: impl FnOnce(&Observed) -> Result<MigrationRequest, Failure>,
    common: &Common,
) -> Result<Scheduled, Failure> {
    let mut observed = observe(cluster, Extent::Plan).await?;
    let desired = &loaded.desired;
    let openstack = common.openstack_for(desired, Scope::Subnets).await?;
    openstack.observe_into(desired, &mut observed).await;
    let request = &request(&observed)?;
    check_nodes(request, &observed)?;
    let directory = directory.to_string_lossy();
    let document = schedule(desired, &observed, pods, request, &directory)
        .of_revision(loaded.revision.clone());
    Ok(Scheduled { observed, document })
}

fn check_nodes(request: &MigrationRequest, observed: &Observed) -> Result<(), Failure> {
    let is_unknown = |name: &&_| !observed.nodes.contains_key(*name);
    let Some(unknown) = request.nodes.iter().find(is_unknown) else {
        return Ok(());
    };
    let known = observed.nodes.keys().map(|name| name.as_str());
    let advice = match most_similar(unknown.as_str(), known) {
        Some(similar) => format!("did you mean `{similar}`?"),
        None => "`cilium-ipam show nodes` lists all".to_owned(),
    };
    Err(Failure::Failed(format!(
        "there is no node `{unknown}`; {advice}"
    )))
}

/// The saved schedule, or `None` if `what` is a directory.
///
/// # Errors
/// Fails if the file is unreadable, edited, or another format.
pub(super) fn saved_schedule(what: &Path) -> Result<Option<ScheduleDocument>, Failure> {
    if !is_named_as_plan(what) {
        return Ok(None);
    }
    let fault = |error: &dyn std::fmt::Display| {
        Failure::Failed(format!(
            "{} cannot be used: {error}; `migrate plan --out FILE` writes such a file",
            what.display()
        ))
    };
    let mut text = String::new();
    open_regular(what)
        .and_then(|mut opened| opened.read_to_string(&mut text))
        .map_err(|error| fault(&error))?;
    match ScheduleDocument::read(&text) {
        Ok(document) => Ok(Some(document)),
        Err(ScheduleFileError::Kind(kind)) if kind.is_empty() => {
            Err(fault(&"it is not the schedule of a migration"))
        }
        Err(error) => Err(fault(&error)),
    }
}
