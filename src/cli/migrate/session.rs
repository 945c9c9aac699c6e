//! The live cluster, the lock, the run and the result of the commands that carry out a migration.

use jiff::SignedDuration;

use super::super::failure::Failure;
use super::super::interruption::Interruption;
use super::super::{Common, ExitStatus, Format, output, target};
use super::host::ThisProcess;
use super::status::{self, StatusDocument};
use crate::cli::files::duration;
use crate::cli::interruption::{acquired, holder};
use crate::render::MigrationStatus;
use ipam_cluster::LeaseName;
use ipam_cluster::live::LiveCluster;
use ipam_controller::migration::Migration;
use ipam_controller::{Lease, Lock, Timing};

/// Flags of the commands that carry out a migration.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SessionArguments {
    /// How long to wait for another program that carries out a migration, such as `90s`.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    lock_timeout: SignedDuration,
    /// Do not take the lock. The records still exclude a second program: the one that comes later
    /// to a node gives up.
    #[arg(long, conflicts_with = "lock_timeout")]
    no_lock: bool,
    /// Output format.
    #[arg(long, short, value_parser = Format::plain(), default_value = "human")]
    output: Format,
}

/// The live cluster that the flags select.
///
/// # Errors
/// Fails for a cluster file: it has no Pods, kubelets or agents.
pub(super) async fn live(common: &Common) -> Result<LiveCluster, Failure> {
    if let Some(file) = common.cluster_files.first() {
        return Err(Failure::Failed(format!(
            "{} is a file, which has no Pods, kubelets or agents: a migration needs the live cluster; only `migrate plan` takes a file",
            file.display()
        )));
    }
    target::live(common, common.retry_timeout).await
}

impl SessionArguments {
    /// Runs work that holds the lock.
    pub(super) async fn locked<T>(
        &self,
        cluster: &LiveCluster,
        operation: &str,
        interruption: &Interruption,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let lease = Lease {
            cluster,
            name: LeaseName::Migration,
            identity: holder(),
            operation: operation.to_owned(),
            timing: Timing::APPLY,
        };
        let lock = match self.no_lock {
            true => Lock::None,
            false => {
                let without = "the records still exclude a second program";
                acquired(&lease, self.lock_timeout, interruption, without).await?
            }
        };
        lease.hold(lock, work).await
    }

    /// Prints the status of a migration in which nothing is left to do; a person was told.
    pub(super) fn nothing_to_do(&self, status: Option<MigrationStatus>) -> std::io::Result<()> {
        match self.output {
            Format::Json => output::json(&StatusDocument::new(status)),
            _ => Ok(()),
        }
    }

    /// Carries out a migration until it ends or must wait, and prints the result.
    pub(super) async fn carry_out(
        &self,
        cluster: &LiveCluster,
        host: &ThisProcess<'_>,
        mut migration: Migration<'_, LiveCluster, ThisProcess<'_>>,
        common: &Common,
    ) -> Result<ExitStatus, Failure> {
        let ended = migration.run().await;
        host.finish();
        let ended = ended.map_err(|error| status::recorded(error, common))?;
        status::report(cluster, &ended, self.output, common).await
    }
}
