//! `drift`: compares the cluster with the files, and keeps one issue open while they differ.

use super::base::{Made, Planning};
use super::fail_on::FailOnArguments;
use super::failure::Failure;
use super::files::{Files, SafetyArguments, SelectionArguments};
use super::forge_arguments::{Comment, ForgeArguments, ci_environment, circumstances, marker, now};
use super::{Common, ExitStatus, output};
use crate::render::{Occasion, drift_is_gone, drift_issue, printable};
use forge::{Issue, IssueKept, IssueWanted, keep_issue};
use ipam_plan::plan::{PlanDocument, PlanOutcome, Selection, Verdict};

const NO_FORGE: &str = "no repository is known: this is not a job of GitHub, GitLab, Gitea or Forgejo; pass --forge and --repository, or --dry-run to print the issue";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    files: Files,
    /// Name of the cluster for the readers. A directory has one issue for each name.
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// Print the text of the issue, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    forge: ForgeArguments,
    #[command(flatten)]
    fail_on: FailOnArguments,
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    safety_arguments: SafetyArguments,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    arguments.fail_on.suits(None)?;
    let around = ci_environment()?;
    // Before the plan, which may take long.
    let forge = match arguments.dry_run {
        true => None,
        false => Some(
            arguments
                .forge
                .open(&around, common.retry_timeout, NO_FORGE)?,
        ),
    };
    let planning = Planning {
        files: &arguments.files,
        selection: &arguments.selection,
        safety_arguments: &arguments.safety_arguments,
        base: None,
    };
    let plan = match planning.make(common).await? {
        Made::Plan(made) => made.document,
        Made::Invalid(loaded) => return Err(Failure::invalid(&loaded, common.detail())),
    };
    let verdict = plan.verdict();
    let differs = verdict.outcome != PlanOutcome::Matches;
    let text = arguments.text(&plan, &verdict, around.commit.as_deref(), common);
    match forge {
        None => output::data(&text)?,
        Some(forge) => {
            let (directory, cluster) = (&plan.source.directory, arguments.cluster_name.as_deref());
            let subject = subject(&plan);
            let marker = marker(&subject, directory, cluster);
            let title = title(&subject, directory, cluster);
            let keeping = move |client: &_, repository: &_, patience| {
                let wanted = match differs {
                    true => IssueWanted::Open {
                        title: &title,
                        text: &text,
                    },
                    false => IssueWanted::Closed { text: &text },
                };
                keep_issue(client, repository, &marker, wanted, patience)
            };
            let kept = forge.ask("the issue was not updated", keeping).await?;
            output::progress(&told(&kept, plan.selection.as_ref(), &verdict));
        }
    }
    Ok(arguments.fail_on.status(&plan, &[]))
}

impl Arguments {
    fn text(
        &self,
        plan: &PlanDocument,
        verdict: &Verdict,
        commit: Option<&str>,
        common: &Common,
    ) -> String {
        let time = now();
        let around = circumstances(
            commit,
            self.cluster_name.as_deref(),
            common,
            &time,
            Occasion::Apply,
        );
        match verdict.outcome {
            PlanOutcome::Matches => drift_is_gone(plan, &around),
            PlanOutcome::Refused | PlanOutcome::Changes | PlanOutcome::Differs => {
                drift_issue(plan, &around)
            }
        }
    }
}

/// The drift issue of the whole directory, or of the selected part.
fn subject(plan: &PlanDocument) -> Comment {
    match &plan.selection {
        None => Comment::Drift,
        Some(selection) => Comment::DriftOfPart(selection.flags()),
    }
}

/// Title of an issue: one line of plain text. Forges look for references in titles, too.
fn title(subject: &Comment, directory: &str, cluster: Option<&str>) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let plain = |name: &str| !name.is_empty() && name.bytes().all(is_plain);
    let files = match plain(directory) {
        true => directory,
        false => "the files",
    };
    let who = match (subject, cluster.filter(|name| plain(name))) {
        (Comment::DriftOfPart(_), None) => "A part of the cluster".to_owned(),
        (Comment::DriftOfPart(_), Some(name)) => format!("A part of cluster {name}"),
        (_, None) => "The cluster".to_owned(),
        (_, Some(name)) => format!("Cluster {name}"),
    };
    format!("{who} differs from {files}")
}

/// What became of the issue, and the verdict.
fn told(kept: &IssueKept, part: Option<&Selection>, verdict: &Verdict) -> String {
    let name = |issue: &Issue| match &issue.url {
        Some(url) => url.clone(),
        None => format!("issue {}", issue.number),
    };
    let who = match part {
        None => "The cluster",
        Some(_) => "The selected part of the cluster",
    };
    let issue = match kept {
        IssueKept::Opened(issue) => {
            format!("{who} differs from the files: opened {}", name(issue))
        }
        IssueKept::Updated(issue) => {
            let name = name(issue);
            format!("{who} still differs from the files: updated {name}")
        }
        IssueKept::Closed(issue) => format!("{who} matches the files: closed {}", name(issue)),
        IssueKept::None => format!("{who} matches the files; no issue is open"),
    };
    format!("{issue}\n{}", printable(&verdict.line()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_refers_to_nothing() {
        let title = |directory, cluster| title(&Comment::Drift, directory, cluster);
        assert_eq!(
            title("a/pools", Some("lab-1")),
            "Cluster lab-1 differs from a/pools"
        );
        assert_eq!(title("pools", None), "The cluster differs from pools");
        for hostile in ["@team", "#12", "a b", "a`b", ""] {
            let title = title(hostile, Some(hostile));
            assert_eq!(title, "The cluster differs from the files");
        }
    }
}
