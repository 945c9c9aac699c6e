//! The past of a directory or a file in its Git repository: which commit changed which file, and
//! the texts of these files. Follows first parents: a merge is one step. Follows no rename.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::collected::{LARGEST_FILE, is_yaml, shown};
use super::git::{EntryKind, Git, GitFault};
use super::git_history::{ChangedFile, Commit};
use super::repository::InRepository;
use super::revision::{RevisionFaults, error};
use ipam_core::model::Finding;
use ipam_core::text::{one_line, printable};

/// Limit of the texts in memory at once, in bytes.
const BATCH: u64 = 32 * 1024 * 1024;

/// Limit of the size of all texts of one history together, in bytes.
const MOST: u64 = 2 * 1024 * 1024 * 1024;

/// Limit of the git processes that search a batch for its unreadable object.
const MOST_SEARCHES: usize = 100;

/// A repository, up to one commit.
pub struct Repository {
    git: Git,
    directory: PathBuf,
    /// Path of the directory from the top of the repository.
    path: String,
    revision: String,
    /// The id of the last commit.
    pub commit: String,
}

/// The past of a path, the oldest step first. Between two steps, nothing changed.
#[derive(Clone, Debug, Default)]
pub struct PathHistory {
    pub steps: Vec<Step>,
}

/// A commit on the line of first parents that changed the path.
#[derive(Clone, Debug)]
pub struct Step {
    pub commit: String,
    pub changes: Vec<FileChange>,
}

/// A file that a commit changed or removed.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// Name of the file in messages.
    pub file: Arc<str>,
    /// From the top of the repository.
    pub path: String,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Removed,
    /// A file, by the object id of its content.
    Text(String),
    /// A link or a submodule, whose content is elsewhere.
    Elsewhere(&'static str),
}

/// One commit of a merged branch, and the ids of a file's content around it.
#[derive(Clone, Debug)]
pub struct BranchStep {
    pub commit: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// The text of a file, or why it cannot be read.
pub type Text = Result<String, String>;

impl Repository {
    /// Largest file with documents, in bytes.
    pub const LARGEST_FILE: u64 = LARGEST_FILE;

    /// Opens the repository of a directory. The directory may be missing today.
    ///
    /// # Errors
    /// Fails if there is no repository, no such revision, or no git.
    pub fn open(directory: &Path, revision: &str) -> Result<Repository, Box<Finding>> {
        let faults = RevisionFaults {
            directory,
            revision,
        };
        let found = InRepository::of(directory, revision);
        let InRepository { git, path } = found.map_err(|fault| faults.no_repository(&fault))?;
        let commit = git
            .commit(revision)
            .map_err(|fault| faults.no_commit(&fault))?;
        Ok(Repository {
            git,
            directory: directory.to_owned(),
            path,
            revision: revision.to_owned(),
            commit,
        })
    }

    fn faults(&self) -> RevisionFaults<'_> {
        RevisionFaults {
            directory: &self.directory,
            revision: &self.revision,
        }
    }

    /// The YAML files of the directory.
    ///
    /// # Errors
    /// Fails if git cannot read the commits or their trees, or if they have no such file.
    pub fn of_directory(&self) -> Result<PathHistory, Box<Finding>> {
        let history = self.past(&self.path, &|file| self.named(file));
        let history = history.map_err(|fault| self.faults().unreadable(&fault))?;
        if history.steps.is_empty() {
            let (name, revision) = (shown(&self.directory), one_line(&self.revision));
            let message = format!(
                "the history of the Git revision `{revision}` has no YAML files in `{name}`"
            );
            let help = "name the directory that has the pools, or the one that had them, relative to the current directory";
            return Err(error("empty-directory", &name, message, help));
        }
        Ok(history)
    }

    /// The past of one file of the repository, by its path from the top.
    ///
    /// # Errors
    /// Fails if git cannot read the commits or their trees.
    pub fn of_file(&self, path: &str, name: &Arc<str>) -> Result<PathHistory, Box<Finding>> {
        let only = |file: &ChangedFile| (file.path == path).then(|| name.clone());
        let history = self.past(path, &only);
        history.map_err(|fault| self.faults().unreadable(&fault))
    }

    /// The path of another file from the top of this repository.
    ///
    /// # Errors
    /// Fails if the file is not in this repository.
    pub fn path_of(&self, file: &Path) -> Result<String, Box<Finding>> {
        let faults = RevisionFaults {
            directory: file,
            revision: &self.revision,
        };
        let found = InRepository::of(file, &self.revision);
        let found = found.map_err(|fault| faults.no_repository(&fault))?;
        if found.git.top != self.git.top {
            let (name, top) = (shown(file), shown(&self.git.top));
            let message = format!("`{name}` is not in the repository `{top}` of the directory");
            let help = "name a file of the same repository";
            return Err(error("no-repository", &name, message, help));
        }
        Ok(found.path)
    }

    /// The name of a file for messages; `None` if the directory's reader would skip it.
    fn named(&self, file: &ChangedFile) -> Option<Arc<str>> {
        let below = file.path.strip_prefix(self.path.as_str())?;
        let below = below.trim_start_matches('/');
        let is_text = matches!(file.now, None | Some((EntryKind::File, _)));
        let is_hidden = below.split('/').any(|part| part.starts_with('.'));
        if is_hidden || (is_text && !is_yaml(Path::new(&file.path))) {
            return None;
        }
        let file = match below.is_empty() {
            true => self.directory.clone(),
            false => self.directory.join(below),
        };
        Some(shown(&file))
    }

    fn past(
        &self,
        path: &str,
        named: &dyn Fn(&ChangedFile) -> Option<Arc<str>>,
    ) -> Result<PathHistory, GitFault> {
        let commits = self.git.changing(&self.commit, path)?;
        let Some(first) = commits.first() else {
            return Ok(PathHistory::default());
        };
        let mut changes = self.git.changed_files(&commits, path)?;
        let at_first = self.git.files(first, path)?.into_iter();
        changes[0] = at_first
            .map(|entry| ChangedFile {
                path: entry.path,
                now: Some((entry.kind, entry.id)),
            })
            .collect();
        let steps = commits.into_iter().zip(changes);
        let steps = steps.map(|(commit, files)| Step {
            commit,
            changes: files
                .into_iter()
                .filter_map(|file| change(file, named))
                .collect(),
        });
        let steps = steps.filter(|step| !step.changes.is_empty()).collect();
        Ok(PathHistory { steps })
    }

    /// The first commit of a shallow clone, if the past is cut off there.
    ///
    /// # Errors
    /// Fails if git cannot read the commits.
    pub fn cut_off(&self) -> Result<Option<String>, Box<Finding>> {
        let end = self.git.shallow_end(&self.commit);
        end.map_err(|fault| self.faults().unreadable(&fault))
    }

    /// The directories from which a commit moved unchanged files into the directory.
    pub fn moved_from(&self, commit: &str) -> Vec<String> {
        let moved = self.git.moved_into(commit, &self.path).unwrap_or_default();
        let folder = |path: String| match path.rsplit_once('/') {
            Some((folder, _)) => folder.to_owned(),
            None => ".".to_owned(),
        };
        let mut folders: Vec<String> = moved.into_iter().map(folder).collect();
        folders.sort();
        folders.dedup();
        folders
    }

    /// Reads commits by their ids.
    ///
    /// # Errors
    /// Fails if git cannot read one.
    pub fn commits(&self, ids: &[&str]) -> Result<BTreeMap<String, Commit>, Box<Finding>> {
        let objects = self.git.objects(ids, "commit");
        let objects = objects.map_err(|fault| self.faults().unreadable(&fault))?;
        let read = ids.iter().zip(objects);
        Ok(read
            .map(|(id, object)| ((*id).to_owned(), Commit::read(id, &object)))
            .collect())
    }

    /// The commits that a merge brought and that touch a file, the newest first; none if git cannot
    /// tell.
    pub fn brought_by(&self, merge: &Commit, path: &str) -> Vec<BranchStep> {
        let Some(first_parent) = merge.parents.first() else {
            return Vec::new();
        };
        let steps = self.git.merged(&merge.id, first_parent, path);
        let steps = steps.unwrap_or_default().into_iter();
        steps
            .map(|step| BranchStep {
                commit: step.commit,
                before: step.before,
                after: step.after,
            })
            .collect()
    }

    /// Gives the texts of these contents to `visit`, in portions. A text that cannot be read, or has
    /// more than `largest` bytes, has the reason instead.
    pub fn texts(&self, ids: &[String], largest: u64, mut visit: impl FnMut(Vec<(String, Text)>)) {
        let mut searches = MOST_SEARCHES;
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let sizes = each(&ids, &mut searches, &|ids| {
            let sizes = self.git.sizes(ids)?;
            Ok(sizes.into_iter().map(Ok).collect())
        });
        let (mut portion, mut in_portion, mut total) = (Vec::new(), 0, 0_u64);
        let mut unread: Vec<(String, Text)> = Vec::new();
        for (id, size) in ids.iter().zip(sizes) {
            let why = match size {
                Err(why) => why,
                Ok(None) => "the clone does not have its content".to_owned(),
                Ok(Some(size)) if size > largest => {
                    format!("it is larger than {} MiB", largest / 1024 / 1024)
                }
                Ok(Some(size)) if total + size > MOST => format!(
                    "the files of this history are larger than {} MiB together",
                    MOST / 1024 / 1024
                ),
                Ok(Some(size)) => {
                    if in_portion + size > BATCH {
                        visit(self.portion(&std::mem::take(&mut portion), &mut searches));
                        in_portion = 0;
                    }
                    (total, in_portion) = (total + size, in_portion + size);
                    portion.push(*id);
                    continue;
                }
            };
            unread.push(((*id).to_owned(), Err(why)));
        }
        visit(self.portion(&portion, &mut searches));
        visit(unread);
    }

    fn portion(&self, ids: &[&str], searches: &mut usize) -> Vec<(String, Text)> {
        let texts = each(ids, searches, &|ids| {
            let contents = self.git.contents(ids)?;
            let text = |bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned());
            Ok(contents.into_iter().map(text).collect())
        });
        ids.iter().map(|id| (*id).to_owned()).zip(texts).collect()
    }
}

fn change(
    file: ChangedFile,
    named: &dyn Fn(&ChangedFile) -> Option<Arc<str>>,
) -> Option<FileChange> {
    let name = named(&file)?;
    let content = match file.now {
        Some((EntryKind::Link, _)) => Content::Elsewhere("it is a link"),
        Some((EntryKind::Submodule, _)) => Content::Elsewhere("it is a submodule"),
        Some((EntryKind::File, id)) => Content::Text(id),
        None => Content::Removed,
    };
    Some(FileChange {
        file: name,
        path: file.path,
        content,
    })
}

/// What git says about objects, each with the reason if it cannot be read.
type Answers<T> = Result<Vec<Result<T, String>>, GitFault>;

/// Asks for all ids at once. If git fails, halves them until only those fail that git cannot read,
/// at most `left` times.
fn each<T>(
    ids: &[&str],
    left: &mut usize,
    ask: &dyn Fn(&[&str]) -> Answers<T>,
) -> Vec<Result<T, String>> {
    if ids.is_empty() {
        return Vec::new();
    }
    match ask(ids) {
        Ok(answers) => answers,
        Err(_) if ids.len() > 1 && *left > 0 => {
            *left -= 1;
            let (one, other) = ids.split_at(ids.len() / 2);
            let mut answers = each(one, left, ask);
            answers.extend(each(other, left, ask));
            answers
        }
        Err(fault) => {
            let why = match fault {
                GitFault::Refused(message) => format!("git says: {}", printable(&message)),
                _ => "git cannot read it".to_owned(),
            };
            ids.iter().map(|_| Err(why.clone())).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_unreadable_object_fails_as_long_as_searches_are_left() {
        let ask = |ids: &[&str]| match ids.contains(&"bad") {
            true => Err(GitFault::Nonsense),
            false => Ok(ids.iter().map(|id| Ok((*id).to_owned())).collect()),
        };
        let ids = ["a", "b", "bad", "c", "d"];
        let mut left = 10;
        let read: Vec<bool> = each(&ids, &mut left, &ask)
            .iter()
            .map(Result::is_ok)
            .collect();
        assert_eq!(read, [true, true, false, true, true]);
        let mut none = 0;
        assert!(each(&ids, &mut none, &ask).iter().all(Result::is_err));
    }
}
