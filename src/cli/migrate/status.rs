//! `migrate status`: how far the stored migration came, and what to do next; and how one ended, as
//! text or JSON, and as a failure.

use serde::Serialize;

use super::super::failure::Failure;
use super::super::{Common, ExitStatus, Format, output};
use super::session::live;
use crate::cli::interruption::is_held;
use crate::render::{MigrationStatus, count, migration_status, printable};
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Cluster, LeaseName, LockSeen};
use ipam_controller::migration::{Ended, MigrationError, Stores, stored, waiting};
use ipam_migrate::migration::MigrationRecord;

/// Version of the JSON.
const FORMAT_VERSION: &str = "1.1";

/// Show how far the migration came, and what to do next.
#[derive(Debug, clap::Args)]
pub(in super::super) struct Arguments {
    /// Output format.
    #[arg(long, short, value_parser = Format::plain(), default_value = "human")]
    output: Format,
}

/// The status as JSON.
#[derive(Serialize)]
pub(super) struct StatusDocument {
    format_version: &'static str,
    /// `null` if the cluster has no record of a migration.
    migration: Option<MigrationStatus>,
}

impl StatusDocument {
    pub(super) fn new(migration: Option<MigrationStatus>) -> StatusDocument {
        StatusDocument {
            format_version: FORMAT_VERSION,
            migration,
        }
    }
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let cluster = live(common).await?;
    let stores = stored(&cluster).await?;
    let record = stores.migration.as_ref().map(|stored| &stored.record);
    let mut status = match record {
        None => None,
        Some(record) => {
            let status = shown(&cluster, record, &stores, common);
            Some(watched(&cluster, record, &stores, status).await)
        }
    };
    if let Some(status) = &mut status {
        status.runs_as = holder(&cluster).await?;
        if status.runs_as.is_some() {
            // While a program carries out the migration, the user has nothing to do.
            status.next.clear();
        }
    }
    match (arguments.output, &status) {
        (Format::Json, _) => output::json(&StatusDocument::new(status))?,
        (_, Some(status)) => {
            output::human(&migration_status(status, common.detail()))?;
        }
        (_, None) => {
            output::human("The cluster has no record of a migration.\n")?;
        }
    }
    Ok(ExitStatus::Done)
}

/// The status of a stored migration.
pub(super) fn shown(
    cluster: &LiveCluster,
    record: &MigrationRecord,
    stores: &Stores,
    common: &Common,
) -> MigrationStatus {
    // A node without a record of its own has not begun.
    let mut nodes = record.nodes(cluster.now());
    let kept = stores.nodes.iter();
    nodes.extend(kept.map(|(name, stored)| (name.clone(), stored.record.clone())));
    MigrationStatus::new(record, &nodes, &common.flags()).at(record, cluster.now())
}

/// The status with what the nodes under way wait for.
async fn watched(
    cluster: &LiveCluster,
    record: &MigrationRecord,
    stores: &Stores,
    mut status: MigrationStatus,
) -> MigrationStatus {
    match waiting(cluster, record, &stores.nodes).await {
        Ok(waiting) => status.waiting(waiting),
        Err(error) => {
            status.unseen = Some(error.to_string());
            status
        }
    }
}

/// The program that holds the lock.
async fn holder(cluster: &LiveCluster) -> Result<Option<String>, Failure> {
    Ok(match cluster.lock(LeaseName::Migration).await? {
        LockSeen::Record(record) if is_held(&record, cluster.now()) => {
            Some(printable(&record.holder).into_owned())
        }
        LockSeen::Record(_) | LockSeen::Absent | LockSeen::Hidden(_) | LockSeen::NotKept => None,
    })
}

/// Prints the result.
///
/// # Errors
/// Fails unless all nodes are moved, or all are back.
pub(super) async fn report(
    cluster: &LiveCluster,
    ended: &Ended,
    format: Format,
    common: &Common,
) -> Result<ExitStatus, Failure> {
    let stores = stored(cluster).await?;
    let record = stores.migration.as_ref().map(|stored| &stored.record);
    let status = record.map(|record| shown(cluster, record, &stores, common));
    let next = status.as_ref().map(MigrationStatus::next_steps);
    let failure = failure(ended, next.unwrap_or_default());
    let printed = match (format, status) {
        (Format::Json, status) => output::json(&StatusDocument::new(status)),
        (_, Some(mut status)) => {
            if failure.is_some() {
                // The failure says what to do next.
                status.next.clear();
            }
            output::human(&migration_status(&status, common.detail()))
        }
        (_, None) => Ok(()),
    };
    // A migration that stopped matters more than a closed stdout.
    match failure {
        Some(failure) => Err(failure),
        None => Ok(printed.map(|()| ExitStatus::Done)?),
    }
}

fn failure(ended: &Ended, next: String) -> Option<Failure> {
    let why = match ended {
        Ended::Done | Ended::Undone => return None,
        Ended::Stopped(why) => format!("the migration stopped: {why}"),
        Ended::Asked(asked) => format!(
            "the migration waits for you: {} must be restarted",
            count(asked.len(), "kubelet")
        ),
        Ended::Interrupted => "the migration was interrupted; all steps are recorded".to_owned(),
    };
    Some(Failure::Halted { why, next })
}

/// The failure of a migration that is recorded.
pub(super) fn recorded(error: MigrationError, common: &Common) -> Failure {
    if !matches!(error, MigrationError::TakenOver(_)) {
        output::warn(&format!(
            "the migration is recorded: `cilium-ipam migrate resume{}` continues it",
            common.flags()
        ));
    }
    error.into()
}

/// An earlier migration is not over.
pub(super) fn unfinished(record: &MigrationRecord, common: &Common) -> Failure {
    let flags = common.flags();
    Failure::Failed(format!(
        "migration {} is not over (state: {}); nothing was written:\n  cilium-ipam migrate status{flags}   shows it\n  cilium-ipam migrate resume{flags}   continues it\n  cilium-ipam migrate undo{flags}     moves its nodes back",
        record.id.escape_debug(),
        record.state
    ))
}

pub(super) fn no_migration() -> Failure {
    Failure::Failed(
        "the cluster has no record of a migration; `cilium-ipam migrate apply` begins one"
            .to_owned(),
    )
}
