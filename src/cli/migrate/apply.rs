//! `migrate apply`: schedules a migration, asks for approval, and carries it out.

use std::path::{Path, PathBuf};

use super::super::failure::Failure;
use super::super::files::Revision;
use super::super::interruption::Interruption;
use super::super::plan_file::{self, Expectation, PlanOrigin};
use super::super::{Common, ExitStatus, load_valid, output};
use super::host::ThisProcess;
use super::options::{CheckArguments, RequestArguments, RulesArguments};
use super::plan::{Scheduled, saved_schedule, scheduled, tell_windows};
use super::progress::Progress;
use super::session::{SessionArguments, live};
use super::status::unfinished;
use crate::cli::completions;
use crate::cli::interruption::{self, Terminal};
use crate::render::{count, diagnostics, migration};
use ipam_cilium::observed::Observed;
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Cluster, ClusterError, WriteError};
use ipam_config::source::Location;
use ipam_controller::Loaded;
use ipam_controller::migration::{
    Migration, MigrationError, Stores, migration_id, pods_by_node, stored,
};
use ipam_migrate::migration::{
    ApprovedFiles, MigrationRecord, MigrationRequest, Rules, ScheduleDocument,
};

/// Attempts to begin while other appliers change the claims.
const ATTEMPTS: usize = 5;

/// Carry out a migration.
#[derive(Debug, clap::Args)]
pub(in super::super) struct Arguments {
    /// The directory of pools, pins and policy, or a schedule that `migrate plan --out FILE` saved.
    #[arg(value_name = "DIR|FILE", default_value = "pools",
        add = completions::directories_and_plans())]
    what: PathBuf,
    #[command(flatten)]
    revision: Revision,
    /// Begin without confirmation.
    #[arg(long)]
    auto_approve: bool,
    #[command(flatten)]
    expectation: Expectation,
    #[command(flatten)]
    request: RequestArguments,
    #[command(flatten)]
    rules: RulesArguments,
    #[command(flatten)]
    check: CheckArguments,
    #[command(flatten)]
    session: SessionArguments,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let saved = saved_schedule(&arguments.what)?;
    arguments.check_saved(saved.as_ref(), Terminal::of(common))?;
    let location = arguments.location(saved.as_ref());
    let loaded = load_valid(&location, common)?;
    if let (Some(saved), Some(revision)) = (&saved, &arguments.revision.revision) {
        plan_file::check_commit(saved, revision, loaded.revision.as_deref())?;
    }
    let cluster = live(common).await?;
    let interruption = Interruption::listen()?;
    let run = Run {
        arguments,
        common,
        cluster: &cluster,
        interruption: &interruption,
        loaded: &loaded,
        directory: &location.directory,
        saved: saved.as_ref(),
    };
    let session = &arguments.session;
    session
        .locked(&cluster, "migrate apply", &interruption, run.locked())
        .await
}

impl Arguments {
    /// The files. A saved schedule names its own directory and commit.
    fn location(&self, saved: Option<&ScheduleDocument>) -> Location {
        match saved {
            None => self.revision.of(&self.what),
            Some(saved) => Location {
                directory: PathBuf::from(&saved.directory),
                revision: (self.revision.revision.clone()).or_else(|| saved.revision.clone()),
            },
        }
    }

    /// A saved schedule is the expected one, and keeps what it was asked for.
    fn check_saved(
        &self,
        saved: Option<&ScheduleDocument>,
        terminal: Terminal,
    ) -> Result<(), Failure> {
        let made = PlanOrigin::EarlierSchedule;
        self.expectation.check_directory(saved, made)?;
        if let Some(saved) = saved {
            self.expectation.check_digest(saved, made)?;
            self.expectation.check_trust(terminal)?;
        }
        let given = self.request.request();
        match saved {
            Some(saved)
                if self.request.has_labels()
                    || given != Default::default() && given != saved.request =>
            {
                Err(Failure::Unexpected {
                    what: "the flags ask for something else than the saved schedule".to_owned(),
                    hint: "leave them out, or plan again with them and review that schedule",
                })
            }
            _ => Ok(()),
        }
    }
}

/// An apply that moves nothing is done only if no node should move.
fn nothing_moves(document: &ScheduleDocument) -> Result<ExitStatus, Failure> {
    match document.left_out.len() {
        0 => Ok(ExitStatus::Done),
        stay => Err(Failure::Halted {
            why: format!(
                "no node moved: {} should move and cannot",
                count(stay, "node")
            ),
            next: String::new(),
        }),
    }
}

/// Inputs of a migration that runs with the lock.
struct Run<'r> {
    arguments: &'r Arguments,
    common: &'r Common,
    cluster: &'r LiveCluster,
    interruption: &'r Interruption,
    loaded: &'r Loaded,
    directory: &'r Path,
    saved: Option<&'r ScheduleDocument>,
}

/// What a person approved.
struct Approved {
    stores: Stores,
    observed: Observed,
    document: ScheduleDocument,
}

impl Run<'_> {
    async fn locked(self) -> Result<ExitStatus, Failure> {
        let approved = self.interruption.cancels(self.approved()).await?;
        if approved.document.moves.is_empty() {
            self.arguments.session.nothing_to_do(None)?;
            return nothing_moves(&approved.document);
        }
        self.interruption.begin_writes();
        let rules = self.arguments.rules.rules(&approved.document.request);
        let progress = Progress::new(&approved.document, None);
        let host = ThisProcess::new(self.interruption, &self.arguments.check, progress);
        let id = migration_id(self.cluster.now());
        let nodes = count(approved.document.moves.len(), "node");
        output::progress(&format!("migration {id} begins: {nodes}"));
        let migration = self.begin(&host, approved, &id, rules).await?;
        let session = &self.arguments.session;
        session
            .carry_out(self.cluster, &host, migration, self.common)
            .await
    }

    /// Reserves the blocks and stores the records. If another applier changed the claims since the
    /// schedule, it is made again, and must be the approved one.
    async fn begin<'h>(
        &'h self,
        host: &'h ThisProcess<'h>,
        mut approved: Approved,
        id: &str,
        rules: Rules,
    ) -> Result<Migration<'h, LiveCluster, ThisProcess<'h>>, Failure> {
        for _ in 1..ATTEMPTS {
            let begun = self.try_begin(host, &approved, id, rules).await;
            match begun {
                Err(MigrationError::Cluster(ClusterError::Claims(WriteError::Superseded(_)))) => {}
                begun => return Ok(begun?),
            }
            let made = self.made(|_| Ok(approved.document.request.clone())).await?;
            let differences = approved.document.differences(&made.document);
            if !differences.is_empty() {
                return Err(stale(differences));
            }
            approved.observed = made.observed;
        }
        Ok(self.try_begin(host, &approved, id, rules).await?)
    }

    async fn try_begin<'h>(
        &'h self,
        host: &'h ThisProcess<'h>,
        approved: &Approved,
        id: &str,
        rules: Rules,
    ) -> Result<Migration<'h, LiveCluster, ThisProcess<'h>>, MigrationError> {
        let desired = &self.loaded.desired;
        let document = approved.document.clone();
        let files = ApprovedFiles::new(desired, &document);
        let record = MigrationRecord::new(id.to_owned(), document, files, rules)
            .with_check(self.arguments.check.document());
        Migration::begin(
            self.cluster,
            host,
            desired,
            record,
            &approved.observed,
            &approved.stores,
        )
        .await
    }

    async fn made(
        &self,
        request: impl FnOnce(&Observed) -> Result<MigrationRequest, Failure>,
    ) -> Result<Scheduled, Failure> {
        let pods = pods_by_node(self.cluster).await?;
        scheduled(
            self.cluster,
            self.loaded,
            self.directory,
            &pods,
            request,
            self.common,
        )
        .await
    }

    /// The schedule to carry out. Fails if it is stale, not approved, or another migration is not
    /// over.
    async fn approved(&self) -> Result<Approved, Failure> {
        let stores = stored(self.cluster).await?;
        if let Some(earlier) = &stores.migration
            && !earlier.record.is_over()
        {
            return Err(unfinished(&earlier.record, self.common));
        }
        let request = |observed: &Observed| match self.saved {
            Some(saved) => Ok(saved.request.clone()),
            None => self.arguments.request.resolved(observed),
        };
        let made = self.made(request).await?;
        self.show(&made.document)?;
        let expectation = &self.arguments.expectation;
        expectation.check_digest(&made.document, PlanOrigin::ScheduleNow)?;
        let is_approved =
            self.saved.is_some() || self.arguments.auto_approve || expectation.names_the_plan();
        if !made.document.moves.is_empty() && !is_approved {
            interruption::confirm("Move these nodes?", interruption::INSTEAD, self.common).await?;
        }
        Ok(Approved {
            stores,
            observed: made.observed,
            document: made.document,
        })
    }

    /// Shows a fresh schedule, or compares it with the saved one, which was reviewed.
    fn show(&self, document: &ScheduleDocument) -> Result<(), Failure> {
        let detail = self.common.detail();
        if let Some(saved) = self.saved {
            let differences = saved.differences(document);
            return match differences.is_empty() {
                true => Ok(()),
                false => Err(stale(differences)),
            };
        }
        let loaded = self.loaded;
        output::talk(&diagnostics(&loaded.findings, &loaded.documents, detail));
        tell_windows(&loaded.desired, self.cluster.now());
        output::talk(&migration(document, detail));
        Ok(())
    }
}

fn stale(differences: Vec<String>) -> Failure {
    Failure::Stale {
        what: "the saved plan is stale",
        differences,
        hint: "run `cilium-ipam migrate plan --out FILE` again and review it",
    }
}
