//! `comment`: shows a plan in a pull request, as one comment that is kept up to date. If the plan is
//! refused, the comment shows what `watch` and the operator would write all the same: they run
//! without a merge.

use std::path::{Path, PathBuf};

use super::base::{BaseArguments, Made, MadePlan, Planning};
use super::fail_on::{FailOn, FailOnArguments};
use super::failure::Failure;
use super::files::{Files, SafetyArguments, SelectionArguments};
use super::forge_arguments::{self, Comment, Destination, PullRequestArguments};
use super::{Common, ExitStatus, interruption, output, plan_file};
use crate::render::{
    Check, Circumstances, Detail, Occasion, Unattended, comment, comment_on_findings,
    finding_documents,
};
use forge::{How, Marker, Outcome, Posted};
use ipam_cluster::{Cluster, LeaseName, LockSeen, Opening};
use ipam_controller::Loaded;
use ipam_plan::plan::{PlanDocument, unattended};

/// What makes the job fail without `--fail-on`. `policy` needs `--base`.
const BY_DEFAULT: [FailOn; 3] = [FailOn::Error, FailOn::Refused, FailOn::Policy];

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    base: BaseArguments,
    /// Show this saved plan, instead of a plan of DIR. The file may come from a pull request that
    /// you do not trust: nothing in it decides where the comment goes, and its texts stay text.
    #[arg(long, value_name = "PLANFILE", conflicts_with_all = ["directory", "revision", "target",
        "base", "exclude", "selector", "waive", "limit", "protect_node", "protect_pool"])]
    plan: Option<PathBuf>,
    /// Refuse a plan file from another directory.
    #[arg(
        id = "plan_directory",
        long = "directory",
        value_name = "DIR",
        requires = "plan"
    )]
    plan_directory: Option<PathBuf>,
    /// Name of the cluster for the readers. A directory has one comment for each name.
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// Print the comment, and post nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: PullRequestArguments,
    #[command(flatten)]
    fail_on: FailOnArguments,
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    safety_arguments: SafetyArguments,
}

/// What the comment shows.
enum Shown {
    Plan(Box<PlanDocument>),
    /// A plan that is refused, and what is written all the same.
    Refused(Box<PlanDocument>, Beside),
    Invalid(Box<Loaded>),
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    if arguments.plan.is_none() {
        arguments.fail_on.suits(Some(&arguments.base))?;
    }
    // Before the plan, which may take long.
    let destination = match arguments.dry_run {
        true => None,
        false => Some(arguments.place.destination(common.retry_timeout)?),
    };
    let shown = arguments.shown(common).await?;
    let time = forge_arguments::now();
    let text = arguments.text(&shown, &time, common)?;
    match destination {
        None => output::data(&text)?,
        Some(destination) => {
            let marker = arguments.marker(&shown);
            let text = arguments.reviewable(&shown) + &text;
            post(destination, marker, text, time).await?;
        }
    }
    match shown.plan() {
        None => Err(Failure::Invalid(String::new())),
        Some(plan) => Ok(arguments.fail_on.status(plan, &BY_DEFAULT)),
    }
}

impl Shown {
    fn plan(&self) -> Option<&PlanDocument> {
        match self {
            Shown::Plan(plan) | Shown::Refused(plan, _) => Some(plan),
            Shown::Invalid(_) => None,
        }
    }

    fn beside(&self) -> Option<&Beside> {
        match self {
            Shown::Refused(_, beside) => Some(beside),
            Shown::Plan(_) | Shown::Invalid(_) => None,
        }
    }
}

impl Arguments {
    async fn shown(&self, common: &Common) -> Result<Shown, Failure> {
        if let Some(file) = &self.plan {
            let plan = plan_file::read(file)?;
            self.check_directory(&plan)?;
            return Ok(Shown::Plan(Box::new(plan)));
        }
        let planning = Planning {
            files: &self.files,
            selection: &self.selection,
            safety_arguments: &self.safety_arguments,
            base: Some(&self.base),
        };
        Ok(match planning.make(common).await? {
            Made::Plan(made) => match Beside::of(&made, &self.safety_arguments, common).await {
                Some(beside) => Shown::Refused(Box::new(made.document), beside),
                None => Shown::Plan(Box::new(made.document)),
            },
            Made::Invalid(loaded) => Shown::Invalid(loaded),
        })
    }

    fn check_directory(&self, plan: &PlanDocument) -> Result<(), Failure> {
        let seen = &plan.source.directory;
        match &self.plan_directory {
            Some(expected) if !plan_file::is_same_place(expected, Path::new(seen)) => {
                Err(Failure::Failed(format!(
                    "the plan was made from `{seen}`, and --directory asks for `{}`; nothing was posted",
                    expected.display()
                )))
            }
            _ => Ok(()),
        }
    }

    /// The directory as this job names it, or else as the plan does.
    fn directory(&self, shown: &Shown) -> String {
        match (&self.plan_directory, shown.plan()) {
            (Some(directory), _) => directory.to_string_lossy().into_owned(),
            (None, Some(plan)) => plan.source.directory.clone(),
            (None, None) => {
                let location = self.files.location();
                location.directory.to_string_lossy().into_owned()
            }
        }
    }

    fn marker(&self, shown: &Shown) -> Marker {
        let cluster_name = self.cluster_name.as_deref();
        forge_arguments::marker(&Comment::Plan, &self.directory(shown), cluster_name)
    }

    /// The hidden line that lets `apply --reviewed` recognize the plan. A plan file may be forged,
    /// so what a reader sees of it need not be what it does.
    fn reviewable(&self, shown: &Shown) -> String {
        match shown.plan() {
            Some(plan) if self.plan.is_none() => forge_arguments::hidden_line(plan),
            Some(_) | None => String::new(),
        }
    }

    /// A merge applies no plan file.
    fn occasion(&self) -> Occasion {
        match self.plan {
            Some(_) => Occasion::Apply,
            None => Occasion::Merge,
        }
    }

    fn text(&self, shown: &Shown, time: &str, common: &Common) -> Result<String, Failure> {
        let commit = self.place.head()?;
        let around = forge_arguments::circumstances(
            commit.as_deref(),
            self.cluster_name.as_deref(),
            common,
            time,
            self.occasion(),
        );
        let because = self.fails_because_of(shown);
        let around = Circumstances {
            unattended: shown.beside().map(Beside::shown),
            check: Some(self.check(shown, &because)),
            ..around
        };
        Ok(match shown {
            Shown::Plan(plan) | Shown::Refused(plan, _) => comment(plan, &around),
            Shown::Invalid(loaded) => {
                let found = finding_documents(&loaded.findings, &loaded.documents, Detail::Short);
                comment_on_findings(&self.directory(shown), &found.findings, &around)
            }
        })
    }
}

impl Arguments {
    /// What makes this job fail, as nouns.
    fn fails_because_of(&self, shown: &Shown) -> Vec<&'static str> {
        match shown.plan() {
            Some(plan) => {
                let met = self.fail_on.met(plan, &BY_DEFAULT);
                met.into_iter().map(FailOn::noun).collect()
            }
            None => vec!["invalid files"],
        }
    }

    fn check<'c>(&self, shown: &Shown, because: &'c [&'c str]) -> Check<'c> {
        let code = match shown.plan() {
            Some(plan) => self.fail_on.status(plan, &BY_DEFAULT).code(),
            None => Failure::Invalid(String::new()).code(),
        };
        match because.is_empty() {
            false => Check::Fails { code, because },
            true if self.fail_on.asks_for_nothing(&BY_DEFAULT) => Check::PassesAlways,
            true => Check::Passes,
        }
    }
}

async fn post(
    destination: Destination,
    marker: Marker,
    text: String,
    time: String,
) -> Result<(), Failure> {
    match destination.post(marker, text, time).await? {
        Outcome::Posted(posted) => tell(&posted),
        Outcome::MovedOn(commit) => {
            let by = commit
                .map(|commit| format!(" to {commit}"))
                .unwrap_or_default();
            output::warn(&format!(
                "The pull request has moved on{by}: nothing was posted."
            ));
        }
    }
    Ok(())
}

fn tell(posted: &Posted) {
    let Posted {
        how,
        comment,
        doubles,
        forged,
    } = posted;
    let how = match how {
        How::Created => "Posted",
        How::Updated => "Updated",
        How::Replaced => "Replaced the older comment by",
        How::Unchanged => "Already up to date:",
    };
    let comment = match &comment.url {
        Some(url) => url.clone(),
        None => format!("comment {}", comment.id),
    };
    output::progress(&format!("{how} {comment}"));
    if *doubles > 0 {
        output::progress(&format!("Deleted older doubles: {doubles}"));
    }
    if *forged > 0 {
        output::warn(&format!(
            "Left alone comments of other accounts with the same marker: {forged}"
        ));
    }
}

/// What they would write, and whether the operator runs.
pub(super) struct Beside {
    changes: usize,
    /// The holder of the operator's Lease.
    operator: Option<String>,
}

impl Beside {
    /// `None` if nothing is refused. Reads the operator's Lease of a live cluster; a file has none.
    pub(super) async fn of(
        made: &MadePlan,
        safety_arguments: &SafetyArguments,
        common: &Common,
    ) -> Option<Beside> {
        let MadePlan {
            plan,
            loaded,
            observed,
            document: _,
        } = made;
        if plan.refusals.is_empty() || plan.changes.is_empty() {
            return None;
        }
        let waivers = safety_arguments.waivers();
        let parted = unattended(plan, &loaded.desired, observed, &waivers);
        Some(Beside {
            changes: parted.applied.len(),
            operator: operator(common).await,
        })
    }

    pub(super) fn shown(&self) -> Unattended<'_> {
        let Beside { changes, operator } = self;
        Unattended {
            changes: *changes,
            operator: operator.as_deref(),
        }
    }
}

/// The operator that leads; `None` if its Lease cannot be read. The other Lease says no more: `watch`
/// and the operator hold it only while they write.
async fn operator(common: &Common) -> Option<String> {
    if !common.cluster_files.is_empty() {
        return None;
    }
    let cluster = common.target(Opening::Read).await.ok()?;
    match cluster.lock(LeaseName::Leader).await.ok()? {
        LockSeen::Record(record) if interruption::is_held(&record, cluster.now()) => {
            Some(record.holder)
        }
        _ => None,
    }
}
