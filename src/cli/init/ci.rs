//! The repository around the directory, and the file for its CI system: a template with the names of
//! the directory. The program decides; each job has one command.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::words::shell;
use crate::cli::failure::Failure;
use crate::cli::new_files::NewFile;

/// The snapshot of the cluster that CI plans with, at the top of the repository.
const SNAPSHOT: &str = "cluster.json";

const GITHUB: &str = ".github/workflows/cilium-ipam.yaml";
/// Workflow for Gitea. Forgejo reads it, too.
const GITEA: &str = ".gitea/workflows/cilium-ipam.yaml";
const GITLAB: &str = ".gitlab-ci.yml";
/// If `.gitlab-ci.yml` exists, it has to include this file.
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

/// The repository of the directory.
pub(super) struct Repository {
    /// Top of the repository, relative to the working directory if it lies below that.
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
        // A shell would not protect `${{ … }}`: GitHub replaces it first.
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
            // The existing workflow checks another directory already.
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
        let (name, template, below) = match ci {
            CiSystem::None => return Ok(None),
            CiSystem::Github => (GITHUB, include_str!("ci/github.yaml"), "**"),
            // Without annotations and environments, and with an old `upload-artifact`: Gitea lacks
            // what the fourth version needs.
            CiSystem::Gitea => (GITEA, include_str!("ci/gitea.yaml"), "**"),
            CiSystem::Gitlab => (self.gitlab_name(), include_str!("ci/gitlab.yaml"), "**/*"),
        };
        // As a JSON list, the pattern needs no other quotes in YAML.
        let paths = serde_json::to_string(&[self.pattern(below)]).map_err(std::io::Error::from)?;
        let text = filled(
            template,
            &[
                ("SNAPSHOT", SNAPSHOT),
                ("FAIL_ON", fail_on),
                ("PATHS", &paths),
                ("DIRECTORY", &self.word()),
            ],
        );
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
fn filled(template: &str, values: &[(&str, &str)]) -> String {
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
