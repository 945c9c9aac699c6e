//! `apply`: carries out a plan, a fresh one after asking, or a saved one as it was reviewed.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::apply_report::{failure_of, report, summary};
use super::duration::duration;
use super::failure::Failure;
use super::files::{Revision, output_file};
use super::interruption::Interruption;
use super::plan_file::{self, Expectation, Made};
use super::progress::Progress;
use super::safety_arguments::SafetyArguments;
use super::target::Target;
use super::undo_file::{Undo, UndoFile};
use super::{Common, Format, Reached, approval, load_valid, output};
use crate::render::{Detail, count, diagnostics, human, printable, why_irreversible};
use ipam_cilium::observed::Observed;
use ipam_cluster::{ClusterError, LockRecord, Opening};
use ipam_config::source::Location;
use ipam_controller::apply::Event;
use ipam_controller::{
    Applied, BATCH, Job, Lock, LockRequest, LostRaces, Reach, Sending, WithPorts,
    apply_until_settled, hold, observe_and_plan, take,
};
use ipam_planner::plan::{
    Change, Intent, Plan, PlanDocument, RefusalDocument, Staleness, still_wanted,
};

/// Carry out a plan.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of pools, pins and policy, or a plan that was saved with `plan --out FILE` or
    /// by an earlier apply.
    #[arg(value_name = "DIR|PLANFILE", default_value = "pools")]
    what: PathBuf,
    #[command(flatten)]
    revision: Revision,
    /// Apply without asking, an undo plan too.
    #[arg(long)]
    auto_approve: bool,
    /// Writes that are under way at the same time.
    #[arg(long, value_name = "N", default_value = "16")]
    parallelism: NonZeroUsize,
    /// Wait so long for an apply that holds the lock, such as `90s` or `5m`.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    lock_timeout: SignedDuration,
    /// Do not take the lock. Blocks stay unique without it; applies may get into each other's way.
    #[arg(long, conflicts_with = "lock_timeout")]
    no_lock: bool,
    /// Where the plan is written that takes this apply back; otherwise `undo-TIME.json` here. None
    /// is written where nothing can be taken back.
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    undo_out: Option<PathBuf>,
    #[command(flatten)]
    expectation: Expectation,
    #[command(flatten)]
    safety_arguments: SafetyArguments,
    /// Form of the result.
    #[arg(long, short, value_enum, default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<Reached, Failure> {
    let saved = saved_plan(&arguments.what)?;
    arguments.expectation.check_directory(saved.as_ref())?;
    if let Some(saved) = &saved {
        arguments.expectation.check_digest(saved, Made::Earlier)?;
        output::talk(&plan_file::introduction(&arguments.what, saved));
    }
    let location = arguments.location(saved.as_ref())?;
    let of_files = saved.as_ref().filter(|saved| saved.intent == Intent::Files);
    of_files.map_or(Ok(()), |saved| {
        arguments.safety_arguments.check_waivers(saved)
    })?;
    let mut loaded = load_valid(&location, common)?;
    if let (Some(saved), Some(revision)) = (of_files, &arguments.revision.revision) {
        plan_file::check_commit(saved, revision, loaded.revision.as_deref())?;
    }
    arguments.safety_arguments.amend(&mut loaded.desired.policy);
    let cluster = common.target(Opening::Write).await?;
    let waivers = match &saved {
        // An undo plan is made before it is known which Services will have addresses by then.
        Some(saved) => {
            let named = saved.waivers.iter().filter_map(|name| name.parse().ok());
            named.chain(arguments.safety_arguments.waivers()).collect()
        }
        None => arguments.safety_arguments.waivers(),
    };
    let openstack = common.openstack_for(&loaded.desired, Reach::Ports).await?;
    let cluster = WithPorts {
        cluster,
        openstack: openstack.clone(),
    };
    let job = Job::saved(&loaded, saved.as_ref(), &waivers).asking(&openstack);
    let operation = if job.undo.is_some() { "undo" } else { "apply" }.to_owned();
    let wish = LockRequest {
        holder: holder(),
        operation,
        timeout: arguments.lock_timeout,
    };
    let lock = match arguments.no_lock {
        true => Lock::None,
        false => take(&cluster, &wish, &mut tell_of_holder).await?,
    };
    if let Lock::Unavailable(why) = &lock {
        output::warn(&format!(
            "no lock is taken, blocks stay unique without it: {}",
            printable(why)
        ));
    }
    hold(
        &cluster,
        &wish,
        lock,
        locked(
            arguments,
            common,
            &cluster,
            job,
            saved.as_ref(),
            &location.directory,
        ),
    )
    .await
}

impl Arguments {
    /// Whether a person has approved the changes already. An apply wrote the undo plan, so no
    /// person has reviewed it.
    fn is_approved(&self, saved: Option<&PlanDocument>) -> bool {
        let is_reviewed = saved.is_some_and(|saved| saved.intent == Intent::Files);
        is_reviewed || self.auto_approve || self.expectation.names_the_plan()
    }

    /// Where the files are: a saved plan is of its own files, and of its own commit. Taking back is
    /// judged by the files as they are now.
    fn location(&self, saved: Option<&PlanDocument>) -> Result<Location, Failure> {
        let Some(PlanDocument { source, intent, .. }) = saved else {
            return Ok(self.revision.of(&self.what));
        };
        let directory = PathBuf::from(&source.directory);
        let location = match intent {
            Intent::Undo => self.revision.of(&directory),
            // That --revision means the same commit is checked when it is known which one it means.
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
                "{plan} was made from `{directory}`, which is not here: run it where that directory is"
            );
            return Err(Failure::Failed(message));
        }
        Ok(location)
    }
}

/// What is done while the lock is held.
async fn locked(
    arguments: &Arguments,
    common: &Common,
    cluster: &WithPorts<Target>,
    job: Job<'_>,
    saved: Option<&PlanDocument>,
    directory: &Path,
) -> Result<Reached, Failure> {
    let (observed, plan) = observe_and_plan(cluster, &job).await?;
    let changes = match saved {
        Some(saved) => saved_changes(saved, &plan, &observed, common.detail())?,
        None => fresh_changes(arguments, common, job, plan, directory)?,
    };
    let refusals = job.refusals(&changes, &observed);
    if !refusals.is_empty() {
        return Err(Failure::Refused(
            refusals.iter().map(RefusalDocument::from).collect(),
        ));
    }
    let intent = saved.map_or(Intent::Files, |saved| saved.intent);
    if !changes.is_empty() && !arguments.is_approved(saved) {
        approval::ask(intent, common).await?;
    }
    let interruption = Interruption::listen()?;
    let mut undo = UndoFile::new(arguments.undo_out.as_deref(), Timestamp::now(), directory);
    undo.write_beforehand(&changes, &job.loaded.desired, &observed)?;
    // With nothing to write it still puts claims to rest that nobody has any more.
    let (applied, failure) = send(
        arguments,
        cluster,
        &job,
        observed.clone(),
        changes,
        &interruption,
    )
    .await;
    let undo_plan = undo.keep_applied(&applied, &job.loaded.desired, &observed);
    finish(arguments, &applied, failure, undo_plan)
}

fn tell_of_holder(record: &LockRecord) {
    let (holder, operation) = (printable(&record.holder), printable(&record.operation));
    output::warn(&format!(
        "waiting for {holder}, who holds the lock for: {operation}"
    ));
}

/// Who holds the lock, as others are told.
pub(super) fn holder() -> String {
    let name = |variable: &str| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let machine = name("HOSTNAME").or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let machine = machine.map_or_else(|| "unknown".to_owned(), |machine| machine.trim().to_owned());
    let person = name("USER").map(|person| person + "@").unwrap_or_default();
    // Two machines may have one name.
    format!(
        "{person}{machine} (process {}, {:06x})",
        std::process::id(),
        fastrand::u32(..1 << 24)
    )
}

/// A saved plan is a JSON object, whatever its name; anything else is a place with YAML files.
fn saved_plan(what: &Path) -> Result<Option<PlanDocument>, Failure> {
    let is_json = what
        .extension()
        .is_some_and(|extension| extension == "json");
    if !what.is_file() && !is_json {
        return Ok(None);
    }
    let is_yaml = what
        .extension()
        .is_some_and(|extension| extension == "yaml" || extension == "yml");
    if is_yaml
        && std::fs::read_to_string(what).is_ok_and(|text| !text.trim_start().starts_with('{'))
    {
        return Ok(None);
    }
    plan_file::read(what).map(Some)
}

fn saved_changes(
    saved: &PlanDocument,
    plan: &Plan,
    observed: &Observed,
    detail: Detail,
) -> Result<Vec<Change>, Failure> {
    // What was refused when it was saved is refused for good: the flags of that time are not known
    // any more.
    if !saved.refusals.is_empty() {
        return Err(Failure::Refused(saved.refusals.clone()));
    }
    match still_wanted(saved, plan, observed) {
        Staleness::Stale(differences) if saved.intent == Intent::Undo => {
            Err(Failure::StaleUndo(differences))
        }
        Staleness::Stale(differences) => Err(Failure::Stale(differences)),
        Staleness::Current {
            changes,
            further,
            done,
            gone,
        } => {
            if gone > 0 {
                output::warn(&format!(
                    "left out: {}, gone or re-created since",
                    count(gone, "object")
                ));
            }
            if saved.intent == Intent::Undo {
                output::talk(&human(&undo_document(saved, plan), detail));
            }
            if done > 0 {
                output::warn(&format!(
                    "done already: {} of the saved plan",
                    count(done, "change")
                ));
            }
            let irreversible = changes
                .iter()
                .filter(|change| !change.can_be_undone())
                .count();
            if irreversible > 0 {
                let what = count(irreversible, "change");
                output::warn(&format!(
                    "{what} cannot be undone: {}",
                    why_irreversible(saved)
                ));
            }
            if further > 0 && saved.intent == Intent::Files {
                output::warn(&format!(
                    "not in the saved plan: {}; run plan again for more",
                    count(further, "further change")
                ));
            }
            Ok(changes)
        }
    }
}

/// What an undo plan does to the cluster as it is now. What it could not take back when it was
/// written is blocked in it.
fn undo_document(saved: &PlanDocument, plan: &Plan) -> PlanDocument {
    let mut shown = PlanDocument::new(plan, &saved.source.directory);
    shown.digest.clone_from(&saved.digest);
    shown.intent = saved.intent;
    shown.blocked.extend(saved.blocked.iter().cloned());
    shown.summary.blocked = shown.blocked.len();
    shown
}

fn fresh_changes(
    arguments: &Arguments,
    common: &Common,
    job: Job<'_>,
    plan: Plan,
    directory: &Path,
) -> Result<Vec<Change>, Failure> {
    let document = PlanDocument::new(&plan, &directory.to_string_lossy())
        .of_revision(job.loaded.revision.clone());
    output::talk(&diagnostics(
        &plan.findings,
        &job.loaded.documents,
        common.detail(),
    ));
    output::talk(&human(&document, common.detail()));
    arguments.expectation.check_digest(&document, Made::Now)?;
    Ok(plan.changes)
}

async fn send(
    arguments: &Arguments,
    cluster: &WithPorts<Target>,
    job: &Job<'_>,
    observed: Observed,
    changes: Vec<Change>,
    interruption: &Interruption,
) -> (Applied, Option<ClusterError>) {
    let mut progress = Progress::new(changes.len());
    let mut on_event = |event: Event<'_>| progress.event(&event);
    let mut sending = Sending {
        batch: BATCH,
        parallelism: arguments.parallelism,
        lost_races: LostRaces::PlannedAgain,
        stop: interruption.stop(),
        on_event: &mut on_event,
    };
    let result = apply_until_settled(cluster, job, observed, changes, &mut sending).await;
    progress.finish();
    result
}

fn finish(
    arguments: &Arguments,
    applied: &Applied,
    failure: Option<ClusterError>,
    undo: Option<Undo>,
) -> Result<Reached, Failure> {
    let report = report(applied, undo);
    let printed = match arguments.output {
        Format::Json => output::json(&report),
        Format::Human => output::data(&summary(&report)),
    };
    // What happened to the cluster matters more than who reads of it.
    match failure_of(applied, &report, failure) {
        Some(failure) => Err(failure),
        None => Ok(printed.map(|()| Reached::Done)?),
    }
}
