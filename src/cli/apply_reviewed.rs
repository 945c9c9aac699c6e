//! `apply --reviewed`: applies exactly the plan that the merged pull request showed, and tells the
//! outcome there. Must never know how a plan is made or carried out.

use std::path::Path;
use std::sync::OnceLock;

use forge::{Outcome, Place, PullRequest, find, merged_with, post};

use super::apply_report::Report;
use super::failure::Failure;
use super::forge_arguments::{Forge, ForgeArguments, surroundings};
use super::review::{Comment, circumstances, marker, now, shown_plan};
use super::{Common, ExitStatus, output};
use crate::render::{Verdict, apply_comment};
use ipam_planner::plan::PlanDocument;

const NO_FORGE: &str = "--reviewed needs a forge: this is no job of GitHub, GitLab, Gitea or Forgejo; pass --forge, --repository and --merge-commit, or the digest with --expect-digest";

const WAY_OUT: &str = "review the plan of `cilium-ipam plan`, and apply it with --expect-digest";

/// Flags for what a pull request has shown.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ReviewArguments {
    /// Apply only the plan that our comment showed in the merged pull request, without
    /// confirmation, and tell the outcome there. Without changes, nothing is needed.
    #[arg(long, conflicts_with_all = ["expect_digest", "auto_approve", "directory"])]
    reviewed: bool,
    /// The name of the cluster in that comment.
    #[arg(long, value_name = "NAME", requires = "reviewed")]
    cluster_name: Option<String>,
    /// The commit that the merge made. Default: that of the CI job.
    #[arg(long, value_name = "COMMIT", requires = "reviewed")]
    merge_commit: Option<String>,
    #[command(flatten)]
    forge: ForgeArguments,
}

/// The plan that was reviewed, and the place for the outcome.
pub(super) struct Review {
    forge: Forge,
    directory: String,
    cluster_name: Option<String>,
    commit: String,
    pull_request: Option<u64>,
    /// The digest of the plan's substance.
    shown: Option<String>,
    /// The plan of now.
    plan: OnceLock<PlanDocument>,
    counts: OnceLock<String>,
}

impl ReviewArguments {
    pub(super) fn is_asked(&self) -> bool {
        self.reviewed
    }

    /// Asks the forge what was reviewed.
    pub(super) async fn find(&self, directory: &Path, common: &Common) -> Result<Review, Failure> {
        let around = surroundings()?;
        let forge = self.forge.open(&around, common.patience, NO_FORGE)?;
        let Some(commit) = self.merge_commit.clone().or(around.commit) else {
            return Err(Failure::Failed(
                "the commit of the merge is unknown: pass --merge-commit".to_owned(),
            ));
        };
        let directory = directory.to_string_lossy().into_owned();
        let marker = marker(&Comment::Plan, &directory, self.cluster_name.as_deref());
        let of_commit = commit.clone();
        let found = forge.ask(
            "the review was not found",
            move |client, repository, patience| {
                let number = merged_with(client, repository, &of_commit, patience)?;
                let comment = match number {
                    Some(number) => find(client, repository, number, &marker, patience)?,
                    None => None,
                };
                Ok((number, comment))
            },
        );
        let (pull_request, comment) = found.await?;
        let shown = comment.and_then(|comment| shown_plan(&comment.body).map(str::to_owned));
        Ok(Review {
            forge,
            directory,
            cluster_name: self.cluster_name.clone(),
            commit,
            pull_request,
            shown,
            plan: OnceLock::new(),
            counts: OnceLock::new(),
        })
    }
}

impl Review {
    /// Refuses a plan that was not reviewed, unless there is nothing to apply and nothing was reviewed.
    pub(super) fn check(&self, plan: PlanDocument) -> Result<(), Failure> {
        let plan = self.plan.get_or_init(|| plan);
        let substance = plan.substance();
        let why = match (&self.shown, self.pull_request) {
            _ if plan.changes.is_empty() && plan.blocked.is_empty() => return Ok(()),
            (Some(shown), _) if *shown == substance => return Ok(()),
            (None, _) if plan.changes.is_empty() => return Ok(()),
            (Some(_), Some(number)) => format!(
                "the plan is not the one that pull request {number} showed: the files or the cluster have changed since"
            ),
            (None, Some(number)) => {
                format!("pull request {number} has no comment of ours with a plan to apply")
            }
            (_, None) => format!(
                "commit {} came with no pull request, so its plan was not reviewed",
                self.commit
            ),
        };
        Err(Failure::Unexpected {
            what: why,
            hint: WAY_OUT,
        })
    }

    pub(super) fn note(&self, report: &Report) {
        let _ = self.counts.set(report.counts());
    }

    /// Tells the outcome in the pull request.
    pub(super) async fn tell(
        &self,
        outcome: Result<ExitStatus, Failure>,
        common: &Common,
    ) -> Result<ExitStatus, Failure> {
        let Some(number) = self.pull_request else {
            return outcome;
        };
        let told = self.post(number, self.text(&outcome, common)).await;
        match (outcome, told) {
            (Ok(status), told) => told.map(|()| status),
            // The first failure matters more.
            (Err(failure), told) => {
                if let Err(Failure::Failed(why)) = told {
                    output::warn(&why);
                }
                Err(failure)
            }
        }
    }

    fn text(&self, outcome: &Result<ExitStatus, Failure>, common: &Common) -> String {
        let time = now();
        let around = circumstances(
            Some(&self.commit),
            self.cluster_name.as_deref(),
            common,
            &time,
        );
        let counts = self.counts.get().map(String::as_str);
        let why = outcome.as_ref().err().map(|why| why.brief(common.detail()));
        let verdict = match (&why, counts) {
            (None, counts) => Verdict::Applied(counts.unwrap_or("There was nothing to apply.")),
            (Some(why), Some(counts)) => Verdict::InPart(why, counts),
            (Some(why), None) => Verdict::NotApplied(why),
        };
        apply_comment(&self.directory, verdict, self.plan.get(), &around)
    }

    async fn post(&self, number: u64, text: String) -> Result<(), Failure> {
        let marker = marker(
            &Comment::Outcome,
            &self.directory,
            self.cluster_name.as_deref(),
        );
        let failed = "the pull request was not told";
        let posting = self.forge.ask(failed, move |client, repository, patience| {
            let place = Place {
                repository: repository.clone(),
                pull_request: PullRequest::Number(number),
            };
            post(client, &place, &marker, &text, None, patience)
        });
        match posting.await? {
            Outcome::Posted(posted) => {
                let url = posted.comment.url.unwrap_or_default();
                output::warn(&format!("Told pull request {number}: {url}"));
            }
            Outcome::MovedOn(_) => {}
        }
        Ok(())
    }
}
