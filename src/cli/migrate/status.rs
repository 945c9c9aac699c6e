//! `migrate status`: how far the stored migration came, and what to do next.

use serde::Serialize;

use super::super::failure::Failure;
use super::super::lock::is_held;
use super::super::{Common, ExitStatus, Format, output};
use super::session::live;
use crate::render::{MigrationStatus, migration_status, printable};
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Cluster, LeaseName, LockSeen};
use ipam_controller::migration::{Stores, stored, waiting};
use ipam_planner::migration::MigrationRecord;

/// Version of the JSON.
const FORMAT_VERSION: &str = "1.1";

/// Show how far the migration came, and what to do next.
#[derive(Debug, clap::Args)]
pub(in super::super) struct Arguments {
    /// Output format.
    #[arg(long, short, value_enum, default_value = "human")]
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
            // There is nothing to do while a program carries it out.
            status.next.clear();
        }
    }
    match (arguments.output, &status) {
        (Format::Json, _) => output::json(&StatusDocument::new(status))?,
        (Format::Human, Some(status)) => {
            output::data(&migration_status(status, common.detail()))?;
        }
        (Format::Human, None) => {
            output::data("The cluster has no record of a migration.\n")?;
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
    let mut nodes = record.nodes(cluster.now()).unwrap_or_default();
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
