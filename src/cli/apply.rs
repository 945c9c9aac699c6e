//! `apply`: carries out a plan. A fresh plan needs approval; a saved one, or one that a pull request
//! showed, is applied as reviewed.

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::apply_report::{Made, Report, failure_of, report, summary, unwritable_report};
use super::apply_reviewed::{Review, ReviewArguments};
use super::apply_saved::{
    Approved, Window, WindowArguments, expected_plan, of_files, saved_changes, saved_plan, waivers,
};
use super::completions;
use super::failure::Failure;
use super::files::{
    Revision, SafetyArguments, SelectionArguments, check_objects, duration, output_file,
    parallelism,
};
use super::interruption::{self, Interruption, acquired, holder};
use super::output::{self, Progress};
use super::plan_file::{self, Expectation, Inputs, PlanOrigin};
use super::target::Target;
use super::undo_file::UndoFile;
use super::{Common, ExitStatus, Format, load_valid};
use crate::render::{diagnostics, human};
use ipam_cilium::observed::Observed;
use ipam_cluster::{Cluster, ClusterError, LeaseName, Opening, check_output_file};
use ipam_config::source::Location;
use ipam_controller::apply::Event;
use ipam_controller::{
    Applied, BATCH, Job, Lease, Lock, OnConflict, OpenStack, Parallelism, Scope, Sending, Timing,
    apply_until_settled, observe_and_plan,
};
use ipam_desired::MigrationPolicy;
use ipam_plan::plan::{Change, Intent, Plan, PlanDocument, RefusalDocument};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of pools, pins and policy, or a plan of `plan --out` or of an earlier apply.
    #[arg(value_name = "DIR|PLANFILE", default_value = "pools",
        add = completions::directories_and_plans())]
    pub(super) what: PathBuf,
    #[command(flatten)]
    revision: Revision,
    /// Apply without confirmation, also an undo plan.
    #[arg(long)]
    auto_approve: bool,
    /// Maximum number of concurrent writes. `auto`: as many as the server gains from, 4 to 64.
    #[arg(long, hide_short_help = true, value_name = "N|auto", default_value = "auto", value_parser = parallelism)]
    parallelism: Parallelism,
    /// How long to wait for the lock of another apply, such as `5m`.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    lock_timeout: SignedDuration,
    /// Do not take the lock. Blocks stay unique without it, but applies may lose races to each
    /// other.
    #[arg(long, hide_short_help = true, conflicts_with = "lock_timeout")]
    no_lock: bool,
    /// The file for the undo plan, if a change can be undone. Default: `undo-TIME.json` in
    /// `.cilium-ipam/undo`.
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    undo_out: Option<PathBuf>,
    /// Also write the JSON of `-o json` to this file. `history --applied` reads it.
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    report_out: Option<PathBuf>,
    #[command(flatten)]
    expectation: Expectation,
    #[command(flatten)]
    review: ReviewArguments,
    #[command(flatten)]
    windows: WindowArguments,
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    safety_arguments: SafetyArguments,
    /// Output format.
    #[arg(long, short, value_parser = Format::plain(), default_value = "human")]
    pub(super) output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    if !arguments.review.is_asked() {
        return carry_out(arguments, None, common).await;
    }
    if saved_plan(&arguments.what)?.is_some() {
        return Err(Failure::Failed(
            "--reviewed is for a directory: a plan file is applied as it is".to_owned(),
        ));
    }
    let review = arguments.review.find(&arguments.what, common).await?;
    let outcome = match review.check_files() {
        Ok(()) => carry_out(arguments, Some(&review), common).await,
        Err(outdated) => Err(outdated),
    };
    review.tell(outcome, common).await
}

async fn carry_out(
    arguments: &Arguments,
    review: Option<&Review>,
    common: &Common,
) -> Result<ExitStatus, Failure> {
    let (expectation, safety) = (&arguments.expectation, &arguments.safety_arguments);
    let saved = expected_plan(&arguments.what, expectation, safety, common)?;
    let location = arguments.location(saved.as_ref())?;
    arguments.check_outputs(saved.as_ref(), &location.directory, common)?;
    let selection = arguments.selection.of_plan(saved.as_ref())?;
    let mut loaded = load_valid(&location, common)?;
    if let (Some(saved), Some(revision)) = (of_files(saved.as_ref()), &arguments.revision.revision)
    {
        plan_file::check_commit(saved, revision, loaded.revision.as_deref())?;
    }
    safety.amend(&mut loaded.desired.policy);
    let cluster = common.target(Opening::Write).await?;
    let waivers = waivers(saved.as_ref(), safety);
    let openstack = common.openstack_for(&loaded.desired, Scope::Ports).await?;
    let job = Job::saved(&loaded, saved.as_ref(), &waivers)
        .with_openstack(&openstack)
        .limited_to(&selection);
    let interruption = Interruption::listen()?;
    let run = Run {
        arguments,
        common,
        cluster: &cluster,
        openstack: &openstack,
        job,
        saved: saved.as_ref(),
        review,
        directory: &location.directory,
        interruption: &interruption,
    };
    run.in_a_window(&loaded.desired.policy.migration).await
}

impl Arguments {
    /// Refuses outputs that would replace what this run reads.
    fn check_outputs(
        &self,
        saved: Option<&PlanDocument>,
        directory: &Path,
        common: &Common,
    ) -> Result<(), Failure> {
        let plan_file = saved.map(|_| &*self.what);
        Inputs::of(common)
            .with_directory(directory)
            .with_plan_file(plan_file)
            .check(&[
                ("--undo-out", self.undo_out.as_deref()),
                ("--report-out", self.report_out.as_deref()),
            ])
    }

    /// A report that cannot be kept is noticed before the first write.
    fn check_report_out(&self) -> Result<(), Failure> {
        self.report_out.as_deref().map_or(Ok(()), |file| {
            check_output_file(file).map_err(|error| unwritable_report(file, &error))
        })
    }

    /// Whether a person has approved the changes already. An undo plan is not reviewed, because an
    /// apply wrote it.
    fn is_approved(&self, saved: Option<&PlanDocument>) -> bool {
        let is_reviewed = saved.is_some_and(|saved| saved.intent == Intent::Files);
        is_reviewed || self.auto_approve || self.expectation.names_the_plan()
    }

    /// The files. A saved plan names its own directory and commit. An undo plan uses the current
    /// files.
    fn location(&self, saved: Option<&PlanDocument>) -> Result<Location, Failure> {
        let Some(PlanDocument { source, intent, .. }) = saved else {
            return Ok(self.revision.of(&self.what));
        };
        let directory = PathBuf::from(&source.directory);
        let location = match intent {
            Intent::Undo => self.revision.of(&directory),
            // `check_commit` compares the commits later, when --revision is resolved.
            Intent::Files => {
                let revision = self
                    .revision
                    .revision
                    .clone()
                    .or_else(|| source.revision.clone());
                Location {
                    directory,
                    revision,
                }
            }
        };
        if location.revision.is_none() && !location.directory.exists() {
            let (plan, directory) = (self.what.display(), location.directory.display());
            let message = format!(
                "{plan} was made from `{directory}`, which does not exist here: run it next to that directory"
            );
            return Err(Failure::Failed(message));
        }
        Ok(location)
    }
}

/// Inputs of an apply that runs with the lock.
struct Run<'r> {
    arguments: &'r Arguments,
    common: &'r Common,
    cluster: &'r Target,
    openstack: &'r OpenStack,
    job: Job<'r>,
    saved: Option<&'r PlanDocument>,
    review: Option<&'r Review>,
    directory: &'r Path,
    interruption: &'r Interruption,
}

/// What one turn with the lock came to.
enum Attempt {
    Ended(ExitStatus),
    /// The plan has changes, and no maintenance window is open. Nothing was written.
    TooEarly,
}

impl Run<'_> {
    /// Applies as soon as a maintenance window is open, with the lock.
    async fn in_a_window(&self, policy: &MigrationPolicy) -> Result<ExitStatus, Failure> {
        let operation = match self.job.undo.is_some() {
            true => "undo",
            false => "apply",
        };
        let lease = Lease {
            cluster: self.cluster,
            name: LeaseName::Apply,
            identity: holder(),
            operation: operation.to_owned(),
            timing: Timing::APPLY,
        };
        let (arguments, interruption) = (self.arguments, self.interruption);
        loop {
            let lock = match arguments.no_lock {
                true => Lock::None,
                false => {
                    let without = "blocks stay unique without it";
                    acquired(&lease, arguments.lock_timeout, interruption, without).await?
                }
            };
            match lease.hold(lock, self.locked()).await? {
                Attempt::Ended(status) => return Ok(status),
                Attempt::TooEarly => {
                    let now = || self.cluster.now();
                    arguments.windows.wait(policy, now, interruption).await?;
                }
            }
        }
    }

    async fn locked(&self) -> Result<Attempt, Failure> {
        let desired = &self.job.loaded.desired;
        let approved = self.interruption.cancels(self.approved()).await?;
        let Some((observed, approved)) = approved else {
            return Ok(Attempt::TooEarly);
        };
        self.arguments.check_report_out()?;
        self.interruption.begin_writes();
        let undo_out = self.arguments.undo_out.as_deref();
        let began = Timestamp::now();
        let mut undo = UndoFile::new(undo_out, began, self.directory);
        undo.write_beforehand(&approved.changes, desired, &observed)?;
        // An apply without changes still removes claims that are dead.
        let (applied, failure) = self.send(observed.clone(), approved.changes.clone()).await;
        let undo_plan = undo.keep_applied(&applied, desired, &observed);
        let report = report(self.made(began), &applied, &approved, undo_plan);
        let ended = self.finish(&applied, &report, failure);
        ended.map(Attempt::Ended)
    }

    /// The changes to write; `None` until a window opens. Fails if they are stale, refused or not
    /// approved.
    async fn approved(&self) -> Result<Option<(Observed, Approved)>, Failure> {
        let (observed, plan) = observe_and_plan(self.cluster, &self.job).await?;
        let approved = match self.saved {
            Some(saved) => saved_changes(saved, &plan, &observed, self.common.detail())?,
            None => self.fresh_changes(plan, &observed).await?,
        };
        let refusals = self.job.refusals(&approved.changes, &observed).await;
        if !refusals.is_empty() {
            return Err(Failure::Refused(
                refusals.iter().map(RefusalDocument::from).collect(),
            ));
        }
        if approved.changes.is_empty() {
            return Ok(Some((observed, approved)));
        }
        if self.window()? == Window::Awaited {
            return Ok(None);
        }
        if self.review.is_none() && !self.arguments.is_approved(self.saved) {
            let intent = self.saved.map_or(Intent::Files, |saved| saved.intent);
            interruption::ask(intent, &approved.verdict, self.common).await?;
            // The answer may have taken hours.
            if self.window()? == Window::Awaited {
                return Ok(None);
            }
        }
        Ok(Some((observed, approved)))
    }

    fn window(&self) -> Result<Window, Failure> {
        let policy = &self.job.loaded.desired.policy.migration;
        self.arguments.windows.check(policy, self.cluster.now())
    }

    async fn fresh_changes(&self, plan: Plan, observed: &Observed) -> Result<Approved, Failure> {
        let (loaded, detail) = (self.job.loaded, self.common.detail());
        check_objects(&plan.selection, &loaded.desired, observed)?;
        let document = PlanDocument::new(&plan, &self.directory.to_string_lossy())
            .of_revision(loaded.revision.clone());
        output::talk(&diagnostics(&plan.findings, &loaded.documents, detail));
        output::talk(&human(&document, detail));
        self.arguments
            .expectation
            .check_digest(&document, PlanOrigin::Now)?;
        let verdict = document.verdict();
        if let Some(review) = self.review {
            review.check(document).await?;
        }
        Ok(Approved {
            verdict,
            blocked: plan.blocked.len(),
            changes: plan.changes,
            held_back: Vec::new(),
        })
    }

    async fn send(
        &self,
        observed: Observed,
        changes: Vec<Change>,
    ) -> (Applied, Option<ClusterError>) {
        let mut progress = Progress::new(changes.len());
        let mut on_event = |event: Event<'_>| match self.cluster {
            // A write lasts only when the file is saved.
            Target::File(_) => {}
            Target::Sysdump(_) | Target::Live(_) => progress.event(&event),
        };
        let mut sending = Sending {
            batch: BATCH,
            limit: self.arguments.parallelism.into(),
            on_conflict: OnConflict::Replan,
            stop: self.interruption.stop(),
            on_event: &mut on_event,
        };
        let (mut applied, mut failure) = apply_until_settled(
            self.cluster,
            self.openstack,
            &self.job,
            observed,
            changes,
            &mut sending,
        )
        .await;
        if let Target::File(cluster) = self.cluster {
            match cluster.save_all() {
                Ok(()) => progress.events(&applied),
                Err(error) => {
                    applied.fail_unsaved(&error);
                    failure = Some(error);
                }
            }
        }
        progress.finish();
        (applied, failure)
    }

    fn made(&self, began: Timestamp) -> Made {
        let of_review = self.review.map(|review| review.commit().to_owned());
        Made {
            began,
            directory: self.directory.to_string_lossy().into_owned(),
            commit: self.job.loaded.revision.clone().or(of_review),
        }
    }

    fn finish(
        &self,
        applied: &Applied,
        report: &Report,
        failure: Option<ClusterError>,
    ) -> Result<ExitStatus, Failure> {
        if let Some(review) = self.review {
            review.note(report);
        }
        let kept = report.keep_in(self.arguments.report_out.as_deref());
        let printed = match self.arguments.output {
            Format::Json => output::json(report),
            _ => output::human(&summary(report, self.common.detail())),
        };
        // A failed change matters more than a report that cannot be kept, or a closed stdout.
        match failure_of(applied, report, failure) {
            Some(failure) => Err(failure),
            None => kept.and_then(|()| Ok(printed.map(|()| ExitStatus::Done)?)),
        }
    }
}
