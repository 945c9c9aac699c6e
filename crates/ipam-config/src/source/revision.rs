//! Reads the files of a Git revision, or tells as findings why it cannot be read. Ignores the
//! files of the work tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::collected::{Collected, LARGEST_FILE, LARGEST_TOTAL, is_yaml, shown};
use super::git::{EntryKind, Git, GitFault, TreeEntry};
use super::ignored::{Entry, IGNORE_FILE};
use super::repository::InRepository;
use ipam_core::model::{Finding, Origin, Rule, Severity};
use ipam_core::text::{one_line, printable};

/// The directory with the refs of its repository.
pub(super) fn git_directory(directory: &Path, revision: &str) -> Option<PathBuf> {
    InRepository::of(directory, revision)
        .ok()?
        .git
        .directory()
        .ok()
        .map(PathBuf::from)
}

/// Reads every YAML file. Refuses links and submodules: their targets are not part of the revision.
pub(super) fn read(directory: &Path, revision: &str) -> (Collected, Option<String>) {
    let mut reading = Reading {
        directory,
        revision,
        collected: Collected::default(),
    };
    let commit = reading.commit();
    reading.collected.documents.files.sort();
    (reading.collected, commit)
}

struct Reading<'r> {
    directory: &'r Path,
    revision: &'r str,
    collected: Collected,
}

/// The path of an entry below a folder.
fn below<'e>(folder: &str, entry: &'e TreeEntry) -> &'e str {
    let below = entry.path.strip_prefix(folder).unwrap_or(&entry.path);
    below.trim_start_matches('/')
}

impl Reading<'_> {
    /// Reads the files and returns the id of the commit.
    fn commit(&mut self) -> Option<String> {
        let faults = RevisionFaults {
            directory: self.directory,
            revision: self.revision,
        };
        let opened = InRepository::of(self.directory, self.revision)
            .map_err(|fault| faults.no_repository(&fault));
        let InRepository { git, path } = self.kept(opened)?;
        let commit = git
            .commit(self.revision)
            .map_err(|fault| faults.no_commit(&fault));
        let commit = self.kept(commit)?;
        let read = git
            .files(&commit, &path)
            .and_then(|entries| self.files(&git, &path, entries))
            .and_then(|()| self.refuse_one_of_several(&git, &commit, &path));
        if let Err(fault) = read {
            self.collected.findings.push(*faults.unreadable(&fault));
        }
        self.refuse_nothing(&git, &path);
        let remark = self.collected.ignored.remark(self.directory);
        self.collected.findings.extend(remark);
        Some(commit)
    }

    /// The result, or `None` with its finding kept.
    fn kept<T>(&mut self, result: Result<T, Box<Finding>>) -> Option<T> {
        result
            .map_err(|finding| self.collected.findings.push(*finding))
            .ok()
    }

    fn files(&mut self, git: &Git, path: &str, entries: Vec<TreeEntry>) -> Result<(), GitFault> {
        self.ignore_file(git, path, &entries)?;
        let (mut wanted, mut total) = (Vec::new(), 0_u64);
        for entry in entries {
            let name = below(path, &entry).to_owned();
            if name.split('/').any(|part| part.starts_with('.'))
                || self.is_ignored(&name, entry.kind)
            {
                continue;
            }
            let file = if name.is_empty() {
                self.directory.to_owned()
            } else {
                self.directory.join(&name)
            };
            let shown = shown(&file);
            match entry.kind {
                EntryKind::Link | EntryKind::Submodule => self.refuse_link(&shown, entry.kind),
                EntryKind::File if !is_yaml(&file) => {}
                EntryKind::File if entry.size.is_some_and(|size| size > LARGEST_FILE) => {
                    self.collected.too_large(&shown)
                }
                EntryKind::File => {
                    total = total.saturating_add(entry.size.unwrap_or_default());
                    wanted.push((shown, entry.id));
                }
            }
        }
        if total > LARGEST_TOTAL {
            return Err(GitFault::TooMuch);
        }
        let ids: Vec<&str> = wanted.iter().map(|(_, id)| id.as_str()).collect();
        for (content, (name, _)) in git.contents(&ids)?.into_iter().zip(&wanted) {
            self.collected.text(name, content);
        }
        Ok(())
    }

    fn refuse_link(&mut self, shown: &Arc<str>, kind: EntryKind) {
        let what = if kind == EntryKind::Link {
            "a link"
        } else {
            "a submodule"
        };
        let message = format!("`{shown}` is {what}, and its target is not part of the revision");
        let help = "put the files themselves into the directory";
        self.collected
            .fault("link-in-revision", shown, message, help);
    }

    /// Reads the ignore file of a folder of the revision.
    fn ignore_file(
        &mut self,
        git: &Git,
        folder: &str,
        entries: &[TreeEntry],
    ) -> Result<(), GitFault> {
        let mut entries = entries.iter();
        let Some(entry) = entries.find(|entry| below(folder, entry) == IGNORE_FILE) else {
            return Ok(());
        };
        let name = shown(&self.directory.join(IGNORE_FILE));
        match entry.kind {
            EntryKind::Link | EntryKind::Submodule => self.refuse_link(&name, entry.kind),
            EntryKind::File if entry.size.is_some_and(|size| size > LARGEST_FILE) => {
                self.collected.too_large(&name);
            }
            EntryKind::File => {
                for content in git.contents(&[&entry.id])? {
                    self.collected.ignore_file(&name, content);
                }
            }
        }
        Ok(())
    }

    fn is_ignored(&mut self, below: &str, kind: EntryKind) -> bool {
        let entry = match kind {
            EntryKind::Submodule => Entry::Folder,
            EntryKind::File | EntryKind::Link => Entry::File,
        };
        self.collected.ignored.has(Path::new(below), entry)
    }

    /// As for a directory on disk.
    fn refuse_one_of_several(
        &mut self,
        git: &Git,
        commit: &str,
        path: &str,
    ) -> Result<(), GitFault> {
        if !is_yaml(Path::new(path)) {
            return Ok(());
        }
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_neighbour = |entry: &&TreeEntry| {
            entry.kind == EntryKind::File
                && entry.path != path
                && is_yaml(Path::new(&entry.path))
                && entry.size.is_some_and(|size| size <= LARGEST_FILE)
        };
        let entries = git.files(commit, folder)?;
        self.ignore_file(git, folder, &entries)?;
        let neighbours = entries.iter().filter(is_neighbour);
        let ids: Vec<&str> = neighbours
            .filter(|entry| !self.is_ignored(below(folder, entry), entry.kind))
            .map(|entry| entry.id.as_str())
            .collect();
        let others = git.contents(&ids)?;
        self.collected
            .refuse_one_of_several(self.directory, &others);
        Ok(())
    }

    /// Refuses a revision without YAML files. A path that the revision does not have looks the
    /// same.
    fn refuse_nothing(&mut self, git: &Git, path: &str) {
        if self.collected.documents.files.is_empty() && self.collected.findings.is_empty() {
            let (name, revision) = (shown(self.directory), one_line(self.revision));
            let place = if path.is_empty() {
                "at the top".to_owned()
            } else {
                format!("in `{}`", one_line(path))
            };
            let top = shown(&git.top);
            let message = format!(
                "the Git revision `{revision}` has no YAML files {place} of the repository `{top}`"
            );
            let help = "name the directory that has the pools, relative to the current directory; an empty directory never deletes everything";
            self.collected
                .fault("empty-directory", &name, message, help);
        }
    }
}

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
