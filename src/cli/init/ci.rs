//! The repository around the directory, and the file of its CI system.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::new_files::NewFile;
use super::words::shell;
use super::yaml::yaml;
use crate::cli::failure::Failure;

/// The snapshot of the cluster that CI plans with, at the top of the repository.
const SNAPSHOT: &str = "cluster.json";

const GITHUB: &str = ".github/workflows/cilium-ipam.yaml";
const GITLAB: &str = ".gitlab-ci.yml";
/// Where `.gitlab-ci.yml` exists, it has to include this one.
const GITLAB_INCLUDED: &str = ".gitlab/cilium-ipam.gitlab-ci.yml";

/// A CI system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CiSystem {
    Github,
    Gitlab,
    None,
}

impl CiSystem {
    pub(super) fn name(self) -> &'static str {
        match self {
            CiSystem::Github => "github",
            CiSystem::Gitlab => "gitlab",
            CiSystem::None => "none",
        }
    }
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
        if self.top.join(GITHUB).symlink_metadata().is_ok() {
            // It checks another directory already.
            CiSystem::None
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
        let (name, text) = match ci {
            CiSystem::None => return Ok(None),
            CiSystem::Github => (GITHUB, self.github(fail_on)?),
            CiSystem::Gitlab => (self.gitlab_name(), self.gitlab(fail_on)?),
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
            CiSystem::Gitlab | CiSystem::Github | CiSystem::None => String::new(),
        }
    }

    /// The command that makes the snapshot for CI.
    pub(super) fn snapshot_step(&self, ci: CiSystem, flags: &str) -> Option<String> {
        let out = self.top.join(SNAPSHOT);
        match ci {
            CiSystem::None => None,
            CiSystem::Github | CiSystem::Gitlab => Some(format!(
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

    fn github(&self, fail_on: &str) -> Result<String, Failure> {
        let directory = self.word();
        let paths = [self.pattern("**"), SNAPSHOT.to_owned(), GITHUB.to_owned()];
        Ok(format!(
            r#"# Checks pull requests that change the pools. Needs no access to a cluster.
name: cilium-ipam
on:
  pull_request:
    paths: {paths}
permissions:
  contents: read
  pull-requests: write
jobs:
  check:
    runs-on: ubuntu-latest
    steps:
    - uses: actions/checkout@v5
      with:
        persist-credentials: false
    # Required: `cilium-ipam` in the PATH. Install it in a step before this one.
    - name: Version
      run: cilium-ipam version
    - name: Validate
      run: |
        cilium-ipam validate {directory} --strict
    # For this step, commit a snapshot: `cilium-ipam snapshot --out {SNAPSHOT}`. It has names,
    # labels and addresses of nodes, and no Secrets. The step fails with 2 if the plan has one of
    # the conditions of --fail-on.
    - name: Plan
      if: (success() || failure()) && hashFiles('{SNAPSHOT}') != ''
      run: |
        cilium-ipam plan {directory} --cluster-file {SNAPSHOT} \
          --fail-on {fail_on} -o markdown > plan.md || code=$?
        cat plan.md >> "$GITHUB_STEP_SUMMARY"
        exit "${{code:-0}}"
    # A pull request from a fork gets no token that may write: its plan is in the summary only.
    - name: Comment
      if: (success() || failure()) && hashFiles('{SNAPSHOT}') != '' && !github.event.pull_request.head.repo.fork
      run: |
        cilium-ipam comment {directory} --cluster-file {SNAPSHOT} --fail-on never
      env:
        GITHUB_TOKEN: ${{{{ github.token }}}}
"#,
            paths = inline(&paths)?,
        ))
    }

    fn gitlab(&self, fail_on: &str) -> Result<String, Failure> {
        let directory = self.word();
        let changes = [self.pattern("**/*"), SNAPSHOT.to_owned()];
        Ok(format!(
            r#"# Checks merge requests that change the pools. Needs no access to a cluster.
cilium-ipam:
  # Required: an image or a runner with `cilium-ipam` in the PATH.
  # image: registry.example/cilium-ipam-ci
  rules:
  - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    changes: {changes}
  script:
  - cilium-ipam version
  # The plan is made even if the files are faulty. The job fails with the first failure of the two.
  # For the plan, commit a snapshot: `cilium-ipam snapshot --out {SNAPSHOT}`. It has names, labels
  # and addresses of nodes, and no Secrets. The plan fails with 2 if it has one of the conditions of
  # --fail-on. For the comment, set the masked variable GITLAB_TOKEN: a project access token with the
  # scope `api` and the role Reporter.
  - |
    cilium-ipam validate {directory} --strict || code=$?
    if [ -f {SNAPSHOT} ]; then
      cilium-ipam plan {directory} --cluster-file {SNAPSHOT} \
        --fail-on {fail_on} -o markdown > plan.md || code=${{code:-$?}}
      if [ -n "${{GITLAB_TOKEN:-}}" ]; then
        cilium-ipam comment {directory} --cluster-file {SNAPSHOT} --fail-on never || code=${{code:-$?}}
      fi
    fi
    exit "${{code:-0}}"
  artifacts:
    when: always
    paths: [plan.md]
"#,
            changes = inline(&changes)?,
        ))
    }
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
