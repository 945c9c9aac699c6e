//! The repository around the directory, and the place of the file of its CI system.
//!
//! The pipeline for GitLab.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::ci_actions::{Actions, workflow};
use super::trial::NewFile;
use super::words::shell;
use super::yaml::yaml;
use crate::cli::failure::Failure;

/// The snapshot of the cluster that CI plans with, at the top of the repository.
pub(super) const SNAPSHOT: &str = "cluster.json";

const GITHUB: &str = ".github/workflows/cilium-ipam.yaml";
/// Forgejo reads it, too.
const GITEA: &str = ".gitea/workflows/cilium-ipam.yaml";
const GITLAB: &str = ".gitlab-ci.yml";
/// Where `.gitlab-ci.yml` exists, it has to include this one.
const GITLAB_INCLUDED: &str = ".gitlab/cilium-ipam.gitlab-ci.yml";

/// A CI system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CiSystem {
    Github,
    Gitlab,
    // Forgejo, too. A doc comment would make the help of all flags long.
    Gitea,
    None,
}

impl CiSystem {
    pub(super) fn name(self) -> &'static str {
        match self {
            CiSystem::Github => "github",
            CiSystem::Gitlab => "gitlab",
            CiSystem::Gitea => "gitea",
            CiSystem::None => "none",
        }
    }
}

/// What the files of all CI systems have in common.
pub(super) struct Jobs<'j> {
    /// The directory as a word of the shell.
    pub(super) directory: String,
    /// A list in YAML with the pattern of all files in it, for GitHub and Gitea.
    pub(super) all: String,
    /// The same for GitLab.
    pub(super) all_below: String,
    /// Conditions for `--fail-on`.
    pub(super) fail_on: &'j str,
}

/// The repository of the directory.
pub(super) struct Repository {
    /// Its top, relative to the working directory if that is in it.
    top: PathBuf,
    /// The directory of pools, from the top; empty if it is the top.
    directory: String,
}

impl Repository {
    /// The repository with the nearest `.git` upwards, or else the working directory, or else the
    /// folder of the directory.
    ///
    /// # Errors
    /// Fails if the directory's name cannot stand in a CI file.
    pub(super) fn around(directory: &Path) -> Result<Repository, Failure> {
        let absolute = std::path::absolute(directory)?;
        let here = std::env::current_dir()?;
        let is_top = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
        let of_git = absolute.ancestors().find(is_top);
        let top = of_git
            .or_else(|| absolute.starts_with(&here).then_some(here.as_path()))
            .or_else(|| absolute.parent())
            .unwrap_or(&here);
        let relative = absolute.strip_prefix(top).unwrap_or(directory);
        let relative = relative.to_string_lossy().replace('\\', "/");
        // GitHub replaces `${{ … }}` before a shell sees it.
        let given = directory.to_string_lossy();
        if given.contains(char::is_control)
            || relative.contains(char::is_control)
            || relative.contains("${{")
        {
            return Err(Failure::Failed(format!(
                "the directory `{}` cannot be named in a CI file: choose letters, digits, `-`, `_` and `.`",
                given.escape_debug()
            )));
        }
        let top = match here.strip_prefix(top) {
            Ok(below) => below.components().map(|_| "..").collect(),
            Err(_) => top.to_owned(),
        };
        Ok(Repository {
            top,
            directory: relative,
        })
    }

    /// The CI system that the repository uses already.
    pub(super) fn usual_ci(&self) -> CiSystem {
        let is_there = |file: &str| self.top.join(file).symlink_metadata().is_ok();
        if is_there(GITHUB) || is_there(GITEA) {
            // It checks another directory already.
            CiSystem::None
        } else if self.top.join(".gitea").is_dir() || self.top.join(".forgejo").is_dir() {
            CiSystem::Gitea
        } else if self.top.join(".github").is_dir() {
            CiSystem::Github
        } else if self.top.join(GITLAB).is_file() && !self.top.join(GITLAB_INCLUDED).exists() {
            CiSystem::Gitlab
        } else {
            CiSystem::None
        }
    }

    /// `fail_on` has the conditions for `plan --fail-on`.
    pub(super) fn ci_file(&self, ci: CiSystem, fail_on: &str) -> Result<Option<NewFile>, Failure> {
        let jobs = Jobs {
            directory: self.word(),
            all: inline(&[self.pattern("**")])?,
            all_below: inline(&[self.pattern("**/*")])?,
            fail_on,
        };
        let (name, text) = match ci {
            CiSystem::None => return Ok(None),
            CiSystem::Github => (GITHUB, workflow(&jobs, Actions::Github)),
            CiSystem::Gitea => (GITEA, workflow(&jobs, Actions::Gitea)),
            CiSystem::Gitlab => (self.gitlab_name(), pipeline(&jobs)),
        };
        Ok(Some(NewFile {
            path: self.top.join(name),
            text,
        }))
    }

    fn gitlab_name(&self) -> &'static str {
        match self.top.join(GITLAB).symlink_metadata().is_ok() {
            true => GITLAB_INCLUDED,
            false => GITLAB,
        }
    }

    /// What is missing until GitLab runs the written file.
    pub(super) fn include_hint(&self, ci: CiSystem) -> String {
        let included = self.top.join(GITLAB_INCLUDED).is_file();
        match ci {
            CiSystem::Gitlab if included => {
                format!("  Add to {GITLAB}:   include: [{{local: {GITLAB_INCLUDED}}}]\n")
            }
            CiSystem::Gitlab | CiSystem::Github | CiSystem::Gitea | CiSystem::None => String::new(),
        }
    }

    /// The command that makes the snapshot for CI.
    pub(super) fn snapshot_step(&self, ci: CiSystem, flags: &str) -> Option<String> {
        let out = self.top.join(SNAPSHOT);
        match ci {
            CiSystem::None => None,
            CiSystem::Github | CiSystem::Gitlab | CiSystem::Gitea => Some(format!(
                "cilium-ipam snapshot --out {}{flags}",
                shell(&out.to_string_lossy())
            )),
        }
    }

    /// The directory as a word of the shell.
    fn word(&self) -> String {
        match self.directory.is_empty() {
            true => ".".to_owned(),
            false => shell(&self.directory),
        }
    }

    /// A pattern of paths in the directory.
    fn pattern(&self, below: &str) -> String {
        match self.directory.is_empty() {
            true => below.to_owned(),
            false => format!("{}/{below}", self.directory),
        }
    }
}

/// The template with these words replaced by their values, whose own text stays as it is.
pub(super) fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(c) = rest.chars().next() {
        let found = values.iter().find(|(word, _)| rest.starts_with(word));
        let (piece, next) = rest.split_at(found.map_or(c.len_utf8(), |(word, _)| word.len()));
        text.push_str(found.map_or(piece, |(_, value)| value));
        rest = next;
    }
    text
}

/// A list of texts on one line. Only the characters of a JSON text need no YAML of their own.
fn inline(texts: &[String]) -> Result<String, Failure> {
    let texts: Result<Vec<String>, Failure> = texts
        .iter()
        .map(|text| match text.contains(['*', ',', '[', ']', '{', '}']) {
            true => Ok(serde_json::to_string(text).map_err(std::io::Error::from)?),
            false => yaml(text),
        })
        .collect();
    Ok(format!("[{}]", texts?.join(", ")))
}

const PIPELINE: &str = r#"# Checks the pools, shows the plan of a merge request as a comment, applies exactly that plan after the
# merge, and keeps an issue open while the cluster differs from the files.
#
# Variables, all of them masked:
# - GITLAB_TOKEN, for comments and the issue: a project access token with the scope `api` and the role
#   Reporter.
# - KUBECONFIG of the type "File", protected: with the rights of `cilium-ipam schema --rbac apply`.
# For the drift job, create a schedule under "Build", "Pipeline schedules".
.cilium-ipam:
  # Required: an image or a runner with `cilium-ipam` in the PATH.
  # image: registry.example/cilium-ipam-ci
  before_script:
  - cilium-ipam version

cilium-ipam-validate:
  extends: .cilium-ipam
  rules:
  - if: $CI_PIPELINE_SOURCE == "push"
    changes: CHANGES
  script:
  - |
    cilium-ipam validate DIRECTORY --strict -o junit > validate.xml
  artifacts:
    when: always
    reports:
      junit: validate.xml

cilium-ipam:
  extends: .cilium-ipam
  rules:
  - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    changes: CHANGES
  script:
  # The plan is made even if the files are faulty. The job fails with the first failure of the two.
  # For the plan, commit a snapshot: `cilium-ipam snapshot --out SNAPSHOT`. It has names, labels
  # and addresses of nodes, and no Secrets. The plan fails with 2 if it has one of the conditions of
  # --fail-on.
  - |
    cilium-ipam validate DIRECTORY --strict -o junit > validate.xml || code=$?
    if [ -f SNAPSHOT ]; then
      git fetch --quiet --depth 1 origin "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME"
      cilium-ipam plan DIRECTORY --base FETCH_HEAD --cluster-file SNAPSHOT \
        --fail-on FAIL_ON -o markdown > plan.md || code=${code:-$?}
      if [ -n "${GITLAB_TOKEN:-}" ]; then
        cilium-ipam comment DIRECTORY --base FETCH_HEAD --cluster-file SNAPSHOT \
          --fail-on FAIL_ON || code=${code:-$?}
      fi
    fi
    exit "${code:-0}"
  artifacts:
    when: always
    paths: [plan.md]
    reports:
      junit: validate.xml

# Applies the plan that the comment showed, and no other one, while the main branch has these files and
# a maintenance window of the Policy is open, if it has any. Tells the outcome in the merge request.
# Outside of the windows, run the job again in one, or wait for it: `wait` for `refuse`.
cilium-ipam-apply:
  extends: .cilium-ipam
  rules:
  - if: $CI_PIPELINE_SOURCE == "push" && $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
    changes: CHANGES
  environment: {name: cilium-ipam}
  resource_group: cilium-ipam
  script:
  - |
    cilium-ipam apply DIRECTORY --reviewed --maintenance-windows refuse \
      --lock-timeout 10m --undo-out undo.json --report-out applied.json
  artifacts:
    when: always
    paths: [undo.json, applied.json]

cilium-ipam-drift:
  extends: .cilium-ipam
  rules:
  - if: $CI_PIPELINE_SOURCE == "schedule"
  environment: {name: cilium-ipam, action: access}
  script:
  - |
    cilium-ipam drift DIRECTORY
"#;

/// The pipeline.
pub(super) fn pipeline(jobs: &Jobs<'_>) -> String {
    filled(
        PIPELINE,
        &[
            ("SNAPSHOT", SNAPSHOT),
            ("FAIL_ON", jobs.fail_on),
            ("CHANGES", &jobs.all_below),
            ("DIRECTORY", &jobs.directory),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_have_the_words_of_the_template() {
        let values = [("PATHS", "[DIRECTORY/é]"), ("DIRECTORY", "'a PATHS'")];
        let text = filled("é: PATHS, DIRECTORY.", &values);
        assert_eq!(text, "é: [DIRECTORY/é], 'a PATHS'.");
    }
}
