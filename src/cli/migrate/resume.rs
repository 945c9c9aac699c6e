//! `migrate resume` and `migrate undo`: continue the stored migration, forward or back. A person
//! must approve anew other files than those that were approved, and a missing check.

use std::path::PathBuf;

use clap::ValueHint;

use super::super::failure::Failure;
use super::super::files::Revision;
use super::super::interruption::Interruption;
use super::super::{Common, ExitStatus, load_valid, output};
use super::host::ThisProcess;
use super::options::{CheckArguments, RulesArguments};
use super::progress::Progress;
use super::session::{SessionArguments, live};
use super::status::{no_migration, shown};
use crate::cli::completions;
use crate::cli::interruption;
use crate::render::{migration_status, printable};
use ipam_cluster::live::LiveCluster;
use ipam_config::source::Location;
use ipam_controller::migration::{Migration, Stores, stored};
use ipam_core::model::NodeName;
use ipam_desired::Desired;
use ipam_migrate::migration::{
    ApprovedFiles, CheckDocument, MigrationRecord, Phase, State, unreachable,
};

/// Continue a migration that stopped, paused or was interrupted, also on another machine.
#[derive(Debug, clap::Args)]
pub(in super::super) struct ResumeArguments {
    /// The directory of pools, pins and policy. Default: that of the migration.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: Option<PathBuf>,
    #[command(flatten)]
    revision: Revision,
    /// The kubelet of this node was restarted. Repeatable.
    #[arg(long, value_name = "NODE", add = completions::nodes())]
    kubelet_restarted: Vec<NodeName>,
    #[command(flatten)]
    renewal: RenewalArguments,
    #[command(flatten)]
    rules: RulesArguments,
    #[command(flatten)]
    check: CheckArguments,
    #[command(flatten)]
    session: SessionArguments,
}

/// Move all nodes back to the blocks that they had.
///
/// Works after each step, and after a migration that is done, until the next one begins.
#[derive(Debug, clap::Args)]
pub(in super::super) struct UndoArguments {
    /// The directory of pools, pins and policy. Default: that of the migration.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: Option<PathBuf>,
    #[command(flatten)]
    revision: Revision,
    /// Begin without confirmation.
    #[arg(long)]
    auto_approve: bool,
    #[command(flatten)]
    rules: RulesArguments,
    #[command(flatten)]
    check: CheckArguments,
    #[command(flatten)]
    session: SessionArguments,
}

pub(super) async fn resume(
    arguments: &ResumeArguments,
    common: &Common,
) -> Result<ExitStatus, Failure> {
    let way = Way::On {
        kubelets: &arguments.kubelet_restarted,
        renewal: &arguments.renewal,
    };
    let continued = Continued {
        directory: arguments.directory.as_ref(),
        revision: &arguments.revision,
        rules: &arguments.rules,
        check: &arguments.check,
        session: &arguments.session,
        way,
        common,
    };
    continued.run("migrate resume").await
}

pub(super) async fn undo(
    arguments: &UndoArguments,
    common: &Common,
) -> Result<ExitStatus, Failure> {
    let way = match arguments.auto_approve {
        true => Way::BackApproved,
        false => Way::BackAsk,
    };
    let continued = Continued {
        directory: arguments.directory.as_ref(),
        revision: &arguments.revision,
        rules: &arguments.rules,
        check: &arguments.check,
        session: &arguments.session,
        way,
        common,
    };
    continued.run("migrate undo").await
}

#[derive(Clone, Copy)]
enum Way<'w> {
    /// Continue in the direction of the record.
    On {
        kubelets: &'w [NodeName],
        renewal: &'w RenewalArguments,
    },
    /// Move back, after a confirmation.
    BackAsk,
    BackApproved,
}

/// A stored migration that goes on.
struct Continued<'c> {
    directory: Option<&'c PathBuf>,
    revision: &'c Revision,
    rules: &'c RulesArguments,
    check: &'c CheckArguments,
    session: &'c SessionArguments,
    way: Way<'c>,
    common: &'c Common,
}

impl Continued<'_> {
    async fn run(self, operation: &str) -> Result<ExitStatus, Failure> {
        let cluster = live(self.common).await?;
        let interruption = Interruption::listen()?;
        let work = self.locked(&cluster, &interruption);
        let session = self.session;
        session
            .locked(&cluster, operation, &interruption, work)
            .await
    }

    async fn locked(
        &self,
        cluster: &LiveCluster,
        interruption: &Interruption,
    ) -> Result<ExitStatus, Failure> {
        let reading = async { Ok(stored(cluster).await?) };
        let mut stores: Stores = interruption.cancels(reading).await?;
        let Some(main) = stores.migration.take() else {
            return Err(no_migration());
        };
        if self.is_over(&main.record) {
            let status = shown(cluster, &main.record, &stores, self.common);
            self.session.nothing_to_do(Some(status))?;
            return Ok(ExitStatus::Done);
        }
        let loaded = load_valid(&self.location(&main.record), self.common)?;
        let amended = self.amended(&main.record, &stores, &loaded.desired)?;
        let known = main.record.schedule.moves.iter().map(|one| &one.node);
        self.check_kubelets(&stores, known.collect())?;
        if matches!(self.way, Way::BackAsk) {
            let status = shown(cluster, &main.record, &stores, self.common);
            output::talk(&migration_status(&status, self.common.detail()));
            let asking =
                interruption::confirm("Move all nodes back?", interruption::INSTEAD, self.common);
            interruption.cancels(asking).await?;
        }
        interruption.begin_writes();
        let state = main.record.state;
        let progress = Progress::new(&amended.schedule, Some(&stores));
        let host = ThisProcess::new(interruption, self.check, progress);
        let nodes = std::mem::take(&mut stores.nodes);
        let mut migration = Migration::resume(cluster, &host, &loaded.desired, main, nodes);
        migration.amend(amended).await?;
        match self.way {
            Way::On { kubelets, .. } => {
                migration.kubelets_restarted(kubelets).await?;
                migration.try_again().await?;
            }
            Way::BackAsk | Way::BackApproved if state == State::Undoing => {
                migration.try_again().await?;
            }
            Way::BackAsk | Way::BackApproved => migration.turn_back().await?,
        }
        self.session
            .carry_out(cluster, &host, migration, self.common)
            .await
    }

    /// Location of the files. Without a directory argument, the location in the record.
    fn location(&self, record: &MigrationRecord) -> Location {
        let given = self.revision.revision.clone();
        match self.directory {
            Some(directory) => self.revision.of(directory),
            None => Location {
                directory: PathBuf::from(&record.schedule.directory),
                revision: given.or_else(|| record.schedule.revision.clone()),
            },
        }
    }

    /// The record with the changes of the flags. Only a migration that continues needs an approval
    /// of other files: windows and checks are not for nodes that go back.
    fn amended(
        &self,
        record: &MigrationRecord,
        stores: &Stores,
        desired: &Desired,
    ) -> Result<MigrationRecord, Failure> {
        let mut record = record.clone();
        record.rules = self.rules.amended(record.rules);
        match (record.state, self.way) {
            (State::Running | State::Stopped, Way::On { renewal, .. }) => {
                renewal.renewed(record, stores, desired, self.check)
            }
            _ => Ok(record),
        }
    }

    /// Whether nothing is left to do.
    fn is_over(&self, record: &MigrationRecord) -> bool {
        let is_over = match (record.state, self.way) {
            (State::Done, Way::On { .. }) | (State::Undone, _) => true,
            (
                State::Done | State::Running | State::TurningBack | State::Stopped | State::Undoing,
                _,
            ) => false,
        };
        if is_over {
            let (id, state) = (printable(&record.id), record.state);
            output::warn(&format!("nothing to do: migration {id} is {state}"));
        }
        is_over
    }

    /// Refuses a node that waits for no kubelet: it is more likely misspelled.
    fn check_kubelets(&self, stores: &Stores, known: Vec<&NodeName>) -> Result<(), Failure> {
        let Way::On { kubelets, .. } = self.way else {
            return Ok(());
        };
        for name in kubelets {
            let record = stores.nodes.get(name).map(|stored| &stored.record);
            let why = match record {
                _ if !known.contains(&name) => "is not part of this migration".to_owned(),
                Some(record) if record.phase == Phase::Kubelet => continue,
                Some(record) => format!(
                    "does not wait for its kubelet: it is at the step `{}`",
                    record.phase
                ),
                None => "does not wait for its kubelet: it has not begun".to_owned(),
            };
            return Err(Failure::Failed(format!(
                "node {name} {why}; `cilium-ipam migrate status` shows all nodes"
            )));
        }
        Ok(())
    }
}

/// Flags of `migrate resume` that approve anew.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RenewalArguments {
    /// Continue with files that say something else than those that were approved, such as other
    /// maintenance windows. Nodes still move to the blocks of the approved schedule.
    #[arg(long)]
    approve_files: bool,
    /// Continue without the check that was given when the migration began.
    #[arg(long, conflicts_with = "check")]
    no_check: bool,
}

impl RenewalArguments {
    /// The record after the approval of changed files or of another check.
    pub(super) fn renewed(
        &self,
        record: MigrationRecord,
        stores: &Stores,
        desired: &Desired,
        check: &CheckArguments,
    ) -> Result<MigrationRecord, Failure> {
        let check = self.check(&record, check)?;
        let now = ApprovedFiles::new(desired, &record.schedule);
        let differences = record.approved.differences(&now);
        if !self.approve_files && !differences.is_empty() {
            return Err(Failure::Stale {
                what: "the files are not those that were approved",
                differences,
                hint: "review the differences, then pass --approve-files; or pass the files that were approved, such as with --revision",
            });
        }
        let all = record.nodes(jiff::Timestamp::UNIX_EPOCH);
        let stand = |(name, record)| match stores.nodes.get(name) {
            Some(stored) => &stored.record,
            None => record,
        };
        let lost = unreachable(desired, all.iter().map(stand));
        match lost.is_empty() {
            true => Ok(record.with_files(now).with_check(check)),
            false => Err(Failure::Stale {
                what: "the files do not give the approved blocks any more",
                differences: lost,
                hint: "put the pools back, or move all nodes back with `cilium-ipam migrate undo` and plan again",
            }),
        }
    }

    /// The check that nodes must pass from now on.
    fn check(
        &self,
        record: &MigrationRecord,
        given: &CheckArguments,
    ) -> Result<Option<CheckDocument>, Failure> {
        match (&record.check, given.document()) {
            (Some(CheckDocument { program }), None) if !self.no_check => Err(Failure::Unexpected {
                what: format!(
                    "the migration began with a check (its program is `{}`), and none is given now",
                    program.escape_debug()
                ),
                hint: "pass the check again with --check, or pass --no-check to continue without a check",
            }),
            (_, given) => Ok(given),
        }
    }
}
