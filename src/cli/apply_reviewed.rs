//! `apply --reviewed`: applies exactly the plan that the merged pull request showed, and tells the
//! outcome there. Must never know how a plan is made or carried out.

use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::apply_report::Report;
use super::failure::Failure;
use super::forge_arguments::{
    APPLIED, Comment, Forge, ForgeArguments, ci_environment, circumstances, marker, now,
    shown_plan, tells_of_an_apply,
};
use super::{Common, ExitStatus, output};
use crate::render::{LeftChange, Occasion, Verdict, apply_comment};
use forge::{
    Client, FilesInBranch, ForgeError, Marker, Merged, Outcome, Place, PullRequest, Renewal,
    Repository, default_branch, files_in_branch, find, merged_with, post,
};
use ipam_config::source::InClone;
use ipam_plan::plan::PlanDocument;

const NO_FORGE: &str = "--reviewed needs a forge: this is not a job of GitHub, GitLab, Gitea or Forgejo; pass --forge, --repository and --merge-commit, or the digest with --expect-digest";

const WAY_OUT: &str = "review the plan of `cilium-ipam plan`, and apply it with --expect-digest";

/// Flags for what a pull request has shown.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ReviewArguments {
    /// Apply only the plan that the merged pull request showed.
    ///
    /// Needs no confirmation, and posts the outcome in the pull request. Without changes, no comment
    /// is needed.
    #[arg(long, conflicts_with_all = ["expect_digest", "auto_approve", "directory"])]
    reviewed: bool,
    /// The name of the cluster in that comment.
    #[arg(
        long,
        hide_short_help = true,
        value_name = "NAME",
        requires = "reviewed"
    )]
    cluster_name: Option<String>,
    /// The commit that the merge made. Default: that of the CI job.
    #[arg(
        long,
        hide_short_help = true,
        value_name = "COMMIT",
        requires = "reviewed"
    )]
    merge_commit: Option<String>,
    /// The branch that is applied. If the directory has other files there by now, nothing is
    /// applied. Default: the repository's default branch.
    #[arg(
        long,
        hide_short_help = true,
        value_name = "NAME",
        requires = "reviewed"
    )]
    branch: Option<String>,
    #[command(flatten)]
    forge: ForgeArguments,
}

/// What the forge knows of a commit.
struct Evidence {
    branch: String,
    files: FilesInBranch,
    merged: Option<Merged>,
    /// Comments of the token's account for the directory. Only one counts: of several, the
    /// reviewers may have seen any.
    comments: Vec<forge::Comment>,
}

/// Where to find the evidence that the plan was reviewed.
struct Search {
    commit: String,
    branch: Option<String>,
    /// Paths whose content must be the same in the branch, from the top of the repository.
    paths: Vec<String>,
    marker: Marker,
}

impl Search {
    fn run(
        self,
        client: &Client,
        repository: &Repository,
        patience: Duration,
    ) -> Result<Evidence, ForgeError> {
        let Search {
            commit,
            branch,
            paths,
            marker,
        } = self;
        let branch = match branch {
            Some(branch) => branch,
            None => default_branch(client, repository, patience)?,
        };
        let files = files_in_branch(client, repository, &branch, &commit, &paths, patience)?;
        let merged = merged_with(client, repository, &branch, &commit, patience)?;
        let comments = match merged {
            Some(Merged { number, .. }) => find(client, repository, number, &marker, patience)?,
            None => Vec::new(),
        };
        Ok(Evidence {
            branch,
            files,
            merged,
            comments,
        })
    }
}

/// The plan that was reviewed, and the place for the outcome.
pub(super) struct Review {
    forge: Forge,
    directory: String,
    /// Paths whose content must be the same in the branch, from the top of the repository.
    paths: Vec<String>,
    cluster_name: Option<String>,
    commit: String,
    evidence: Evidence,
    /// The current plan, once it is made.
    plan: Mutex<Option<PlanDocument>>,
    report: OnceLock<Noted>,
}

/// What was written, and what was not.
struct Noted {
    /// Number of changes that were made, or of which that is unknown.
    written: usize,
    counts: String,
    left: Vec<LeftChange>,
}

impl ReviewArguments {
    pub(super) fn is_asked(&self) -> bool {
        self.reviewed
    }

    /// Asks the forge what was reviewed.
    pub(super) async fn find(&self, directory: &Path, common: &Common) -> Result<Review, Failure> {
        let around = ci_environment()?;
        let forge = self.forge.open(&around, common.retry_timeout, NO_FORGE)?;
        let Some(commit) = self.merge_commit.clone().or(around.commit) else {
            return Err(Failure::Failed(
                "the commit of the merge is unknown: pass --merge-commit".to_owned(),
            ));
        };
        let InClone { path, links } = InClone::of(directory).map_err(Failure::Failed)?;
        // A link that is pointed elsewhere later leaves its old target as it is.
        let paths: Vec<String> = links.into_iter().chain([path]).collect();
        let directory = directory.to_string_lossy().into_owned();
        let search = Search {
            commit: commit.clone(),
            branch: self.branch.clone(),
            paths: paths.clone(),
            marker: marker(&Comment::Plan, &directory, self.cluster_name.as_deref()),
        };
        let failed = "the review was not found";
        let search =
            move |client: &_, repository: &_, patience| search.run(client, repository, patience);
        Ok(Review {
            evidence: forge.ask(failed, search).await?,
            forge,
            directory,
            paths,
            cluster_name: self.cluster_name.clone(),
            commit,
            plan: Mutex::default(),
            report: OnceLock::new(),
        })
    }
}

impl Review {
    /// Refuses the files of a commit that the branch has left behind: a job that ran late, or again
    /// after a revert.
    pub(super) fn check_files(&self) -> Result<(), Failure> {
        self.check_that_they_are_the_same(&self.evidence.files)
    }

    fn check_that_they_are_the_same(&self, files: &FilesInBranch) -> Result<(), Failure> {
        match files {
            FilesInBranch::Same => Ok(()),
            FilesInBranch::Changed(last) => Err(Failure::Unexpected {
                what: format!(
                    "the files of commit {} are outdated: branch {} has others in {} by commit {last}",
                    self.commit, self.evidence.branch, self.directory
                ),
                hint: "let the job of the newest commit apply them",
            }),
        }
    }

    /// Asks again. Another job may have held the lock for minutes.
    async fn check_files_now(&self) -> Result<(), Failure> {
        let branch = self.evidence.branch.clone();
        let (commit, paths) = (self.commit.clone(), self.paths.clone());
        let ask = move |client: &_, repository: &_, patience| {
            files_in_branch(client, repository, &branch, &commit, &paths, patience)
        };
        let files = self.forge.ask("the branch was not read", ask).await?;
        self.check_that_they_are_the_same(&files)
    }

    /// Refuses a plan that was not reviewed, unless there is nothing to apply and nothing was
    /// reviewed. To be called with the lock.
    pub(super) async fn check(&self, plan: PlanDocument) -> Result<(), Failure> {
        self.check_commit(&plan)?;
        let shown = self.check_shown(&plan);
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
        shown?;
        self.check_files_now().await
    }

    /// Refuses `--revision` with another commit.
    fn check_commit(&self, plan: &PlanDocument) -> Result<(), Failure> {
        match &plan.source.revision {
            Some(other) if *other != self.commit => Err(Failure::Failed(format!(
                "--revision names commit {other}, and the merge made commit {}: leave --revision out",
                self.commit
            ))),
            Some(_) | None => Ok(()),
        }
    }

    fn check_shown(&self, plan: &PlanDocument) -> Result<(), Failure> {
        let Evidence {
            branch,
            merged,
            comments,
            ..
        } = &self.evidence;
        let shown = comments.iter().find_map(|one| shown_plan(&one.body));
        if plan.changes.is_empty() && (plan.blocked.is_empty() || shown.is_none()) {
            return Ok(());
        }
        let why = match (merged, shown, &comments[..]) {
            (None, _, _) => format!(
                "commit {} came to branch {branch} with no pull request, so its plan was not reviewed",
                self.commit
            ),
            (Some(merged), Some(_), [_, _, ..]) => format!(
                "pull request {} has {} comments of ours for this directory: which one was reviewed is unknown",
                merged.number,
                comments.len()
            ),
            (Some(merged), Some(_), [comment]) if comment.may_be_edited() => format!(
                "the comment with the plan in pull request {} was edited after it was posted",
                merged.number
            ),
            (Some(merged), Some(_), [comment]) if !is_older(comment, merged) => format!(
                "the comment with the plan was posted after pull request {} was merged",
                merged.number
            ),
            (Some(_), Some(shown), _) if shown == plan.substance() => return Ok(()),
            (Some(merged), Some(_), _) => format!(
                "the plan is not the one that pull request {} showed: the files or the cluster have changed since",
                merged.number
            ),
            (Some(merged), None, _) => format!(
                "pull request {} has no comment of ours with a plan to apply",
                merged.number
            ),
        };
        Err(Failure::Unexpected {
            what: why,
            hint: WAY_OUT,
        })
    }

    /// The commit that the merge made.
    pub(super) fn commit(&self) -> &str {
        &self.commit
    }

    pub(super) fn note(&self, report: &Report) {
        let _ = self.report.set(Noted {
            written: report.written(),
            counts: report.counts(),
            left: report.left(),
        });
    }

    /// Tells the outcome in the pull request.
    pub(super) async fn tell(
        &self,
        outcome: Result<ExitStatus, Failure>,
        common: &Common,
    ) -> Result<ExitStatus, Failure> {
        let Some(Merged { number, .. }) = self.evidence.merged else {
            return outcome;
        };
        let why = outcome.as_ref().err().map(|why| why.brief(common.detail()));
        let verdict = verdict(why.as_deref(), self.report.get());
        let told = self.post(number, verdict, common).await;
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

    async fn post(
        &self,
        number: u64,
        verdict: Verdict<'_>,
        common: &Common,
    ) -> Result<(), Failure> {
        let cluster_name = self.cluster_name.as_deref();
        let marker = marker(&Comment::Outcome, &self.directory, cluster_name);
        let time = now();
        let around = circumstances(
            Some(&self.commit),
            cluster_name,
            common,
            &time,
            Occasion::Apply,
        );
        let has_written = !matches!(verdict, Verdict::NotApplied { .. });
        let text = {
            let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
            apply_comment(&self.directory, verdict, plan.as_ref(), &around)
        };
        let text = match has_written {
            true => format!("{APPLIED}{text}"),
            false => text,
        };
        let failed = "the pull request was not told";
        let posting = self.forge.ask(failed, move |client, repository, patience| {
            // What an earlier run of this job applied matters more.
            if !has_written
                && find(client, repository, number, &marker, patience)?
                    .first()
                    .is_some_and(|earlier| tells_of_an_apply(&earlier.body))
            {
                return Ok(None);
            }
            let place = Place {
                repository: repository.clone(),
                pull_request: PullRequest::Number(number),
            };
            let renewal = Renewal::InPlace;
            post(client, &place, &marker, &text, renewal, None, patience).map(Some)
        });
        if let Some(Outcome::Posted(posted)) = posting.await? {
            let url = posted.comment.url.unwrap_or_default();
            output::progress(&format!("Told pull request {number}: {url}"));
        }
        Ok(())
    }
}

/// `why` tells the failure.
fn verdict<'n>(why: Option<&'n str>, noted: Option<&'n Noted>) -> Verdict<'n> {
    match (why, noted) {
        (None, None) => Verdict::Applied("There was nothing to apply."),
        (None, Some(Noted { counts, .. })) => Verdict::Applied(counts),
        (
            Some(why),
            Some(Noted {
                written: 0, left, ..
            }),
        ) => Verdict::NotApplied { why, left },
        (Some(why), Some(Noted { counts, left, .. })) => Verdict::InPart { why, counts, left },
        (Some(why), None) => Verdict::NotApplied { why, left: &[] },
    }
}

/// Whether the reviewers could see this comment before the merge.
fn is_older(comment: &forge::Comment, merged: &Merged) -> bool {
    comment
        .created
        .is_some_and(|created| created <= merged.time)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write without an answer may have been made.
    #[test]
    fn an_apply_in_part_wrote_something_or_may_have() {
        let noted = |written| Noted {
            written,
            counts: String::new(),
            left: Vec::new(),
        };
        let (nothing, one) = (noted(0), noted(1));
        let failed = |noted| verdict(Some("it failed"), noted);
        assert!(matches!(failed(None), Verdict::NotApplied { .. }));
        assert!(matches!(failed(Some(&nothing)), Verdict::NotApplied { .. }));
        assert!(matches!(failed(Some(&one)), Verdict::InPart { .. }));
        assert!(matches!(verdict(None, Some(&nothing)), Verdict::Applied(_)));
    }
}
