//! Why a Git revision cannot be read, as findings. Reads nothing.

use std::path::Path;
use std::sync::Arc;

use super::collected::shown;
use super::git::GitFault;
use ipam_core::model::{Finding, Origin, Rule, Severity};
use ipam_core::text::{one_line, printable};

/// The directory and the revision that messages name.
#[derive(Clone, Copy)]
pub(super) struct RevisionFaults<'r> {
    pub(super) directory: &'r Path,
    pub(super) revision: &'r str,
}

impl RevisionFaults<'_> {
    pub(super) fn no_repository(self, fault: &GitFault) -> Box<Finding> {
        if let GitFault::Link(link) = fault {
            let name = shown(link);
            let message = format!(
                "`{name}` is a link in the work tree, and its target is not part of the revision"
            );
            return error(
                "link-in-revision",
                &name,
                message,
                "name the directory itself",
            );
        }
        let (rule, help) = match fault {
            GitFault::Missing(_) => (
                "git-missing",
                "install git in `PATH`, or omit --revision".to_owned(),
            ),
            GitFault::Shadowed { inner, outer } => {
                ("ambiguous-repository", shadow_help(inner, outer))
            }
            _ => ("no-repository", no_repository_help(fault).to_owned()),
        };
        self.finding(rule, fault, &help)
    }

    pub(super) fn no_commit(self, fault: &GitFault) -> Box<Finding> {
        let help = match fault {
            GitFault::Ambiguous => {
                "say which is meant: refs/heads/NAME, refs/tags/NAME, or a whole id"
            }
            _ => {
                "name a branch, a tag or a commit that the clone has; `git fetch` gets new ones, `git fetch --unshallow` old ones"
            }
        };
        self.finding("unknown-revision", fault, help)
    }

    pub(super) fn unreadable(self, fault: &GitFault) -> Box<Finding> {
        let help = "use a full clone instead of a partial one, or run `git fsck`";
        self.finding("unreadable-revision", fault, help)
    }

    fn finding(self, rule: &'static str, fault: &GitFault, help: &str) -> Box<Finding> {
        let (name, revision) = (shown(self.directory), one_line(self.revision));
        let why = match fault {
            GitFault::Missing(error) => format!(": git cannot be run: {error}"),
            GitFault::Refused(message) => format!(": {}", printable(message)),
            GitFault::Nonsense => ": git gave an unexpected answer".to_owned(),
            GitFault::Ambiguous => ": the name has several meanings".to_owned(),
            GitFault::TooMuch => ": the answer of git is too large or too late".to_owned(),
            GitFault::InsideGit => ": it is inside git's own directory".to_owned(),
            GitFault::Link(link) => format!(": `{}` is a link in the work tree", shown(link)),
            GitFault::Shadowed { inner, outer } => format!(
                ": it is in the repository `{}`, but the repository `{}` has files at that place",
                shown(inner),
                shown(outer)
            ),
            GitFault::BareName(bare) => {
                format!(
                    ": `{}` is a bare repository, but its name does not end in `.git`",
                    shown(bare)
                )
            }
            GitFault::Elsewhere(top) => {
                format!(": git finds the work tree `{}` instead", shown(top))
            }
        };
        let message = format!("`{name}` cannot be read at the Git revision `{revision}`{why}");
        error(rule, &name, message, help)
    }
}

/// An error about a whole file or directory.
pub(super) fn error(
    rule: &'static str,
    name: &Arc<str>,
    message: String,
    help: &str,
) -> Box<Finding> {
    let finding = Finding::new(Severity::Error, Rule(rule), message);
    Box::new(finding.at(&Origin::whole_file(name), "").help(help))
}

fn shadow_help(inner: &Path, outer: &Path) -> String {
    let (inner, outer) = (shown(inner), shown(outer));
    format!(
        "remove `{inner}/.git` if it should not be there; if its repository is meant, clone it elsewhere, or set GIT_CEILING_DIRECTORIES to `{outer}`"
    )
}

fn no_repository_help(fault: &GitFault) -> &'static str {
    match fault {
        GitFault::Refused(message) if message.contains("dubious ownership") => {
            "if you trust its owner: git config --global --add safe.directory DIRECTORY"
        }
        // Git names a path if it followed a `.git` file.
        GitFault::Refused(message) if message.starts_with("not a git repository: ") => {
            "the file `.git` points to no repository: run `git worktree repair` in its repository, or clone again"
        }
        GitFault::Refused(message) if !message.starts_with("not a git repository") => {
            "make `git rev-parse` work there first"
        }
        GitFault::InsideGit => "name a directory of the work tree, or the top of a bare repository",
        GitFault::BareName(_) => {
            "rename it so that the name ends in `.git`, or name a worktree of it"
        }
        GitFault::Elsewhere(_) => "unset `core.worktree`, or name a directory of that work tree",
        _ => "name a directory in a clone, or omit --revision",
    }
}
