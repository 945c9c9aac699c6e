//! What git tells about the past of a path: the commits that changed it, and what they changed.
//! Reads commit objects, follows first parents, and never reads a file's content.

use jiff::Timestamp;

use super::git::{EntryKind, Git, GitFault};

/// Limit of the commits that one git process compares. Each answer has its own timeout.
const COMPARED: usize = 2_000;

/// Limit of the commits of a merged branch that are read.
const MOST_OF_BRANCH: &str = "--max-count=1000";

/// A file that differs from the state before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangedFile {
    /// From the top of the repository.
    pub(super) path: String,
    /// Kind and object id of the changed file; `None` if the file was removed.
    pub(super) now: Option<(EntryKind, String)>,
}

/// The ids of a file before and after a commit; `None` where it does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileStep {
    pub(super) commit: String,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl Git {
    /// The commits on the line of first parents that changed a path, the oldest first. An empty path
    /// is the whole repository.
    pub(super) fn changing(&self, commit: &str, path: &str) -> Result<Vec<String>, GitFault> {
        let mut arguments = vec!["rev-list", "--first-parent", commit, "--"];
        arguments.extend((!path.is_empty()).then_some(path));
        let mut ids = self.ids(&arguments)?;
        ids.reverse();
        Ok(ids)
    }

    /// The files below a path that each step changed, against the step before. The first step has
    /// none.
    pub(super) fn changed_files(
        &self,
        steps: &[String],
        path: &str,
    ) -> Result<Vec<Vec<ChangedFile>>, GitFault> {
        let mut changes = vec![Vec::new(); steps.len()];
        let mut arguments = vec![
            "diff-tree",
            "--stdin",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-abbrev",
            "--ignore-submodules=none",
            "--",
        ];
        arguments.extend((!path.is_empty()).then_some(path));
        let pairs: Vec<_> = steps.windows(2).collect();
        for (chunk, pairs) in pairs.chunks(COMPARED).enumerate() {
            // Git compares the first id of a line with the second one instead of with its parents.
            let input: String = pairs
                .iter()
                .map(|pair| format!("{} {}\n", pair[1], pair[0]))
                .collect();
            let answer = self.run(&arguments, input.as_bytes())?;
            let parsed = changes_of(&answer).ok_or(GitFault::Nonsense)?;
            let mut at = chunk * COMPARED + 1;
            for (commit, files) in parsed {
                while steps.get(at).ok_or(GitFault::Nonsense)? != &commit {
                    at += 1;
                }
                changes[at] = files;
            }
        }
        Ok(changes)
    }

    /// Where the line of first parents ends early, because the clone is shallow.
    pub(super) fn shallow_end(&self, commit: &str) -> Result<Option<String>, GitFault> {
        if self.line(&["rev-parse", "--is-shallow-repository"])? != "true" {
            return Ok(None);
        }
        let ends = self.ids(&[
            "rev-list",
            "--first-parent",
            "--max-parents=0",
            commit,
            "--",
        ])?;
        let Some(end) = ends.into_iter().next_back() else {
            return Ok(None);
        };
        // In a shallow clone, the commit object still names the parents that the clone lacks.
        let object = self.objects(&[&end], "commit")?;
        let has_parent = object[0]
            .split(|byte| *byte == b'\n')
            .take_while(|line| !line.is_empty())
            .any(|line| line.starts_with(b"parent "));
        Ok(has_parent.then_some(end))
    }

    /// The commits that a merge brought to its first parent and that touch a file, the newest first.
    pub(super) fn merged(
        &self,
        merge: &str,
        first_parent: &str,
        path: &str,
    ) -> Result<Vec<FileStep>, GitFault> {
        let without = format!("^{first_parent}");
        let commits = self.ids(&[
            "rev-list",
            "--topo-order",
            MOST_OF_BRANCH,
            merge,
            &without,
            "--",
            path,
        ])?;
        let commits: Vec<String> = commits.into_iter().filter(|id| id != merge).collect();
        let names: Vec<String> = commits
            .iter()
            .flat_map(|id| [format!("{id}^1:{path}"), format!("{id}:{path}")])
            .collect();
        let blobs = self.ids_of(&names)?;
        let steps = commits.into_iter().zip(blobs.chunks(2));
        Ok(steps
            .map(|(commit, blobs)| FileStep {
                commit,
                before: blobs[0].clone(),
                after: blobs[1].clone(),
            })
            .collect())
    }

    /// Files that a commit only moved into a directory: each old path.
    pub(super) fn moved_into(&self, commit: &str, path: &str) -> Result<Vec<String>, GitFault> {
        let parent = format!("{commit}^1");
        let answer = self.run(
            &[
                "diff-tree",
                "-r",
                "-z",
                "--find-renames=100%",
                "--diff-filter=R",
                "--name-status",
                &parent,
                commit,
            ],
            &[],
        )?;
        let parts: Vec<String> = answer
            .split(|byte| *byte == 0)
            .map(|part| String::from_utf8_lossy(part).into_owned())
            .collect();
        let moves = parts.chunks_exact(3);
        Ok(moves
            .filter(|parts| is_below(&parts[2], path))
            .map(|parts| parts[1].clone())
            .collect())
    }

    /// Sizes of objects in bytes; `None` for an object that is missing.
    pub(super) fn sizes(&self, ids: &[&str]) -> Result<Vec<Option<u64>>, GitFault> {
        let lines = self.checked(ids, "%(objectsize)")?;
        Ok(lines.iter().map(|line| line.parse().ok()).collect())
    }

    /// The ids of objects by names such as `HEAD:file`; `None` for those that are missing.
    fn ids_of(&self, names: &[String]) -> Result<Vec<Option<String>>, GitFault> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let lines = self.checked(&names, "%(objectname)")?;
        let id = |line: String| {
            line.bytes()
                .all(|byte| byte.is_ascii_hexdigit())
                .then_some(line)
        };
        Ok(lines.into_iter().map(id).collect())
    }

    fn checked(&self, names: &[&str], format: &str) -> Result<Vec<String>, GitFault> {
        if names.iter().any(|name| name.contains('\n')) {
            return Err(GitFault::Nonsense);
        }
        let input: String = names.iter().map(|name| format!("{name}\n")).collect();
        let format = format!("--batch-check={format}");
        let answer = self.run(&["cat-file", &format], input.as_bytes())?;
        let lines: Vec<String> = String::from_utf8_lossy(&answer)
            .lines()
            .map(str::to_owned)
            .collect();
        if lines.len() == names.len() {
            Ok(lines)
        } else {
            Err(GitFault::Nonsense)
        }
    }

    fn ids(&self, arguments: &[&str]) -> Result<Vec<String>, GitFault> {
        let answer = self.run(arguments, &[])?;
        let text = String::from_utf8(answer).map_err(|_| GitFault::Nonsense)?;
        Ok(text.lines().map(str::to_owned).collect())
    }
}

/// Whether a path is this file or directory, or lies in it.
fn is_below(path: &str, top: &str) -> bool {
    let rest = path.strip_prefix(top);
    top.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

type ChangesOfCommit = (String, Vec<ChangedFile>);

/// `<commit>\0`, then for each file `:<mode> <mode> <id> <id> <status>\0<path>\0`.
fn changes_of(answer: &[u8]) -> Option<Vec<ChangesOfCommit>> {
    let mut commits: Vec<ChangesOfCommit> = Vec::new();
    let mut parts = answer.split(|byte| *byte == 0);
    while let Some(part) = parts.next() {
        let Some(head) = part.strip_prefix(b":") else {
            if !part.is_empty() {
                commits.push((String::from_utf8(part.to_vec()).ok()?, Vec::new()));
            }
            continue;
        };
        let path = String::from_utf8_lossy(parts.next()?).into_owned();
        let mut words = std::str::from_utf8(head).ok()?.split(' ').skip(1);
        let (mode, _, id, status) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let now = (status != "D").then(|| (EntryKind::of_mode(mode), id.to_owned()));
        commits.last_mut()?.1.push(ChangedFile { path, now });
    }
    Some(commits)
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub id: String,
    pub parents: Vec<String>,
    pub author: String,
    pub email: String,
    /// When it was committed, by the committer's clock; `None` if the commit has no readable time.
    pub committed: Option<Timestamp>,
    pub message: String,
}

/// Longest message that is kept, in bytes. The subject and the line of a pull request are far shorter.
const LONGEST_MESSAGE: usize = 64 * 1024;

impl Commit {
    /// Reads what is there: a missing header leaves its field empty.
    pub(super) fn read(id: &str, object: &[u8]) -> Commit {
        let mut commit = Commit {
            id: id.to_owned(),
            parents: Vec::new(),
            author: String::new(),
            email: String::new(),
            committed: None,
            message: String::new(),
        };
        let mut rest = object;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            if line.is_empty() {
                break;
            }
            commit.header(&String::from_utf8_lossy(line));
        }
        let message = &rest[..rest.len().min(LONGEST_MESSAGE)];
        commit.message = String::from_utf8_lossy(message).into_owned();
        commit
    }

    fn header(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("parent", id)) => self.parents.push(id.to_owned()),
            Some(("author", person)) => {
                let (name, rest) = person.split_once('<').unwrap_or((person, ""));
                let email = rest.rsplit_once('>').map_or(rest, |(email, _)| email);
                self.author = name.trim().to_owned();
                self.email = email.trim().to_owned();
            }
            Some(("committer", person)) => self.committed = time_of(person),
            _ => {}
        }
    }

    /// The first line of the message.
    pub fn subject(&self) -> &str {
        let lines = self.message.lines();
        lines
            .map(str::trim)
            .find(|line| !line.is_empty())
            .unwrap_or_default()
    }
}

/// `Name <email> <seconds> <zone>`
fn time_of(person: &str) -> Option<Timestamp> {
    let (_, after) = person.rsplit_once('>')?;
    let seconds = after.split_ascii_whitespace().next()?.parse().ok()?;
    Timestamp::from_second(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_by_commit() {
        let answer = b"c1\0:000000 100644 00 aa A\0pools/a b\n.yaml\0:100644 120000 aa bb T\0l\0c2\0:100644 000000 aa 00 D\0:odd\0";
        let file = |path: &str, now: Option<(EntryKind, &str)>| ChangedFile {
            path: path.to_owned(),
            now: now.map(|(kind, id)| (kind, id.to_owned())),
        };
        assert_eq!(
            changes_of(answer).unwrap(),
            [
                (
                    "c1".to_owned(),
                    vec![
                        file("pools/a b\n.yaml", Some((EntryKind::File, "aa"))),
                        file("l", Some((EntryKind::Link, "bb"))),
                    ]
                ),
                ("c2".to_owned(), vec![file(":odd", None)]),
            ]
        );
        assert_eq!(changes_of(b":000000 100644 00 aa A\0p\0"), None);
        assert_eq!(changes_of(b"c1\0:000000 100644 00\0p\0"), None);
    }

    #[test]
    fn a_path_lies_in_its_own_directory_only() {
        assert!(is_below("pools/a.yaml", "pools") && is_below("a", "") && is_below("a", "a"));
        assert!(!is_below("pools-2/a.yaml", "pools"));
    }
}

#[cfg(test)]
mod commit_tests {
    use super::*;

    #[test]
    fn headers_and_message_are_read() {
        let object = b"tree t\nparent p1\nparent p2\nauthor Ada L <ada@x> 1 +0000\ncommitter Bob <b@x> 1767225600 +0100\ngpgsig -----BEGIN\n parent fake\n\n\nPin worker-7 (#12)\n\nauthor Eve <e> 2 +0000\n";
        let commit = Commit::read("c", object);
        assert_eq!(commit.parents, ["p1", "p2"]);
        assert_eq!((&*commit.author, &*commit.email), ("Ada L", "ada@x"));
        assert_eq!(
            commit.committed.unwrap().to_string(),
            "2026-01-01T00:00:00Z"
        );
        assert_eq!(commit.subject(), "Pin worker-7 (#12)");
    }

    #[test]
    fn a_hostile_commit_is_read_as_far_as_it_goes() {
        let object = b"author \xff<<a>> 99999999999999999999 +0\ncommitter x 7 +0\n";
        let commit = Commit::read("c", object);
        assert_eq!((&*commit.author, &*commit.email), ("\u{fffd}", "<a>"));
        assert_eq!((commit.committed, commit.subject()), (None, ""));
        assert_eq!(Commit::read("c", b"").message, "");
    }
}
