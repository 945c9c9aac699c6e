//! How a migration ended: as text or JSON, and as a failure with what to do next.

use super::super::failure::Failure;
use super::super::{Common, ExitStatus, Format, output};
use super::status::{StatusDocument, shown};
use crate::render::{MigrationStatus, count, migration_status};
use ipam_cluster::live::LiveCluster;
use ipam_controller::migration::{Ended, MigrationError, stored};
use ipam_planner::migration::MigrationRecord;

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
        (Format::Human, Some(mut status)) => {
            if failure.is_some() {
                // The failure says what to do next.
                status.next.clear();
            }
            output::data(&migration_status(&status, common.detail()))
        }
        (Format::Human, None) => Ok(()),
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
