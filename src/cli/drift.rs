//! `drift`: compares the cluster with the files, and keeps one issue open while they differ.

use forge::{Issue, IssueKept, IssueWanted, keep_issue};

use super::fail_on::{Conditions, FailOn, FailOnArguments};
use super::failure::Failure;
use super::files::Files;
use super::forge_arguments::{ForgeArguments, surroundings};
use super::planning::{Made, Planning};
use super::review::{Comment, circumstances, marker, now};
use super::safety_arguments::SafetyArguments;
use super::selection::SelectionArguments;
use super::{Common, ExitStatus, output};
use crate::render::{drift_is_gone, drift_issue};
use ipam_planner::plan::{FindingDocument, PlanDocument};

const NO_FORGE: &str = "no repository is known: this is no job of GitHub, GitLab, Gitea or Forgejo; pass --forge and --repository, or --dry-run to print the issue";

/// What keeps the issue open. A blocked change is no difference: it cannot be made today.
const DIFFERENCES: [FailOn; 4] = [
    FailOn::Changes,
    FailOn::Drift,
    FailOn::Misplaced,
    FailOn::Error,
];

/// Compare the cluster with the files, and keep one issue open in the repository while they differ.
///
/// They differ if a plan has changes, drift, misplaced blocks or errors, or if a part of the cluster
/// cannot be read. The issue is updated in place, and closed when they agree.
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
    let around = surroundings()?;
    // Before the plan, which may take long.
    let forge = match arguments.dry_run {
        true => None,
        false => Some(arguments.forge.open(&around, common.patience, NO_FORGE)?),
    };
    let planning = Planning {
        files: &arguments.files,
        selection: &arguments.selection,
        safety_arguments: &arguments.safety_arguments,
    };
    let plan = match planning.make(common).await? {
        Made::Plan(made) => made.document,
        Made::Invalid(loaded) => {
            return Err(Failure::Invalid(output::diagnostics(
                &loaded,
                common.detail(),
            )));
        }
    };
    let is_hidden = |finding: &FindingDocument| finding.rule == "blind-spot";
    let differs = DIFFERENCES.iter().any(|condition| plan.has(*condition))
        || plan.findings.iter().any(is_hidden);
    let text = arguments.text(&plan, differs, around.commit.as_deref(), common);
    match forge {
        None => output::data(&text)?,
        Some(forge) => {
            let directory = plan.source.directory.clone();
            let marker = marker(
                Comment::Drift,
                &directory,
                arguments.cluster_name.as_deref(),
            );
            let title = title(&directory, arguments.cluster_name.as_deref());
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
            tell(&forge.ask("the issue was not updated", keeping).await?);
        }
    }
    match arguments.fail_on.names(&plan, &[]) {
        true => Ok(ExitStatus::ChangesPending),
        false => Ok(ExitStatus::Done),
    }
}

impl Arguments {
    fn text(
        &self,
        plan: &PlanDocument,
        differs: bool,
        commit: Option<&str>,
        common: &Common,
    ) -> String {
        let time = now();
        let around = circumstances(commit, self.cluster_name.as_deref(), common, &time);
        match differs {
            true => drift_issue(plan, &around),
            false => drift_is_gone(&plan.source.directory, &around),
        }
    }
}

/// One line of plain text. Forges look for references in titles, too.
fn title(directory: &str, cluster: Option<&str>) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let plain = |name: &str| !name.is_empty() && name.bytes().all(is_plain);
    let cluster = cluster.filter(|name| plain(name));
    let cluster = cluster.map_or_else(
        || "The cluster".to_owned(),
        |name| format!("Cluster {name}"),
    );
    match plain(directory) {
        true => format!("{cluster} differs from {directory}"),
        false => format!("{cluster} differs from the files"),
    }
}

fn tell(kept: &IssueKept) {
    let name = |issue: &Issue| match &issue.url {
        Some(url) => url.clone(),
        None => format!("issue {}", issue.number),
    };
    output::warn(&match kept {
        IssueKept::Opened(issue) => {
            format!("The cluster differs from the files: opened {}", name(issue))
        }
        IssueKept::Updated(issue) => format!(
            "The cluster still differs from the files: updated {}",
            name(issue)
        ),
        IssueKept::Closed(issue) => {
            format!("The cluster is as the files say: closed {}", name(issue))
        }
        IssueKept::None => "The cluster is as the files say.".to_owned(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_refers_to_nothing() {
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
