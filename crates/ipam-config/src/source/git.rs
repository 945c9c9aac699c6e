//! Reads a repository with the `git` program. Never writes or fetches, and never runs a hook, a
//! filter or a remote helper.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

#[cfg(doc)]
use super::collected::LARGEST_TOTAL;

/// Timeout of one answer of git.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest answer, in bytes: [`LARGEST_TOTAL`] for the files, and as much again for their list.
const LONGEST_ANSWER: u64 = 512 * 1024 * 1024;

/// Longest text of stderr that is read, in bytes.
const LONGEST_COMPLAINT: u64 = 64 * 1024;

/// Variables that point git to another repository than that of the folder. A hook has some of them
/// set. Variables that add objects, as in a hook before a push, do no harm.
const REDIRECTS: [&str; 10] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE",
];

/// Why git gives no usable answer.
#[derive(Debug)]
pub(super) enum GitFault {
    /// The program `git` cannot be run.
    Missing(std::io::Error),
    /// Git failed with this message.
    Refused(String),
    /// The answer has an unexpected form.
    Nonsense,
    /// The name of the revision has several meanings.
    Ambiguous,
    /// The directory is inside git's own directory.
    InsideGit,
    /// The path has a symbolic link of a work tree.
    Link(PathBuf),
    /// The inner repository is inside the tracked files of the outer one.
    Shadowed { inner: PathBuf, outer: PathBuf },
    /// A bare repository whose name does not end in `.git`.
    BareName(PathBuf),
    /// Git's settings move the work tree or the repository to this path.
    Elsewhere(PathBuf),
    /// The answer is too long or too late.
    TooMuch,
}

/// A file of a tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub(super) kind: EntryKind,
    pub(super) id: String,
    /// In bytes; `None` for submodules and missing objects.
    pub(super) size: Option<u64>,
    /// From the top of the repository.
    pub(super) path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Link,
    Submodule,
}

impl EntryKind {
    pub(super) fn of_mode(mode: &str) -> EntryKind {
        match mode {
            "120000" => EntryKind::Link,
            "160000" => EntryKind::Submodule,
            _ => EntryKind::File,
        }
    }
}

/// Whether a repository has a work tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    WorkTree,
    Bare,
}

/// A repository, by the top of its work tree, or by its own path if it is bare.
pub(super) struct Git {
    pub(super) top: PathBuf,
    pub(super) form: Form,
}

impl Git {
    pub(super) fn run(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, GitFault> {
        let mut command = self.command(arguments);
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(GitFault::Missing)?;
        let Some((answer, complaint)) = communicate(&mut child, input) else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(GitFault::TooMuch);
        };
        let status = child.wait().map_err(GitFault::Missing)?;
        if complaint.contains(" is ambiguous") {
            return Err(GitFault::Ambiguous);
        }
        if status.success() {
            return Ok(answer);
        }
        let fatal = complaint
            .lines()
            .find(|line| line.starts_with("fatal: "))
            .or(complaint.lines().next());
        Err(GitFault::Refused(
            fatal
                .unwrap_or_default()
                .trim_start_matches("fatal: ")
                .to_owned(),
        ))
    }

    /// A git command at the top of this repository. Disables everything that could redirect it or
    /// run other programs.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        for name in REDIRECTS {
            command.env_remove(name);
        }
        // Otherwise `.git/info/grafts` replaces the parents of commits.
        command.env("GIT_GRAFT_FILE", "/dev/null");
        // Otherwise git takes a folder of files for a repository if it looks like a bare one.
        let bare = match self.form {
            Form::WorkTree => "safe.bareRepository=explicit",
            Form::Bare => "safe.bareRepository=all",
        };
        let settings = [
            "core.warnAmbiguousRefs=true",
            "core.fsmonitor=false",
            // Otherwise each complaint begins with a hint about the line above.
            "advice.graftFileDeprecated=false",
            bare,
        ];
        command
            .arg("--no-replace-objects")
            .args(settings.iter().flat_map(|setting| ["-c", setting]));
        command.arg("-C").arg(&self.top).args(arguments);
        // Otherwise a partial clone would fetch missing objects. Older versions of git know only
        // the second variable.
        command
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_ALLOW_PROTOCOL", "none")
            .env("GIT_TERMINAL_PROMPT", "0");
        command
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_LITERAL_PATHSPECS", "1")
            .env("LC_ALL", "C");
        command
    }

    pub(super) fn line(&self, arguments: &[&str]) -> Result<String, GitFault> {
        let answer =
            String::from_utf8(self.run(arguments, &[])?).map_err(|_| GitFault::Nonsense)?;
        Ok(answer.trim_end_matches('\n').to_owned())
    }

    /// The directory with the refs of all worktrees.
    pub(super) fn directory(&self) -> Result<String, GitFault> {
        self.line(&["rev-parse", "--path-format=absolute", "--git-common-dir"])
    }

    /// Refuses a repository whose top is elsewhere, such as by `core.worktree`.
    pub(super) fn require_top(&self) -> Result<(), GitFault> {
        let is_bare = self.line(&["rev-parse", "--is-bare-repository"])? == "true";
        let top = match (self.form, is_bare) {
            (Form::WorkTree, _) => "--show-toplevel",
            (Form::Bare, true) => "--absolute-git-dir",
            (Form::Bare, false) => return Err(GitFault::InsideGit),
        };
        let top = PathBuf::from(self.line(&["rev-parse", top])?);
        if top == self.top {
            Ok(())
        } else {
            Err(GitFault::Elsewhere(top))
        }
    }

    /// Whether the index, or a revision, has a path. The path is relative to the top.
    pub(super) fn tracks(&self, path: &Path, revision: &str) -> Result<bool, GitFault> {
        let path = path.to_str().ok_or(GitFault::Nonsense)?;
        let mut has = self.has(&["ls-files", "-z", "--", path])?;
        if !has && let Ok(commit) = self.commit(revision) {
            has = self.has(&["ls-tree", "-z", &commit, "--", path])?;
        }
        Ok(has)
    }

    /// Whether the answer is not empty. Returns false if git refuses the command.
    fn has(&self, arguments: &[&str]) -> Result<bool, GitFault> {
        match self.run(arguments, &[]) {
            Ok(answer) => Ok(!answer.is_empty()),
            Err(GitFault::Refused(_)) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// The id of the commit of a revision.
    pub(super) fn commit(&self, revision: &str) -> Result<String, GitFault> {
        // A leading dash would be an option. No revision begins with one.
        if revision.starts_with('-') || revision.contains('\0') {
            return Err(GitFault::Refused(
                "it is not a name of a revision".to_owned(),
            ));
        }
        // Without `--quiet`, which would hide that a name is ambiguous.
        let id = match self.line(&["rev-parse", "--verify", &format!("{revision}^{{commit}}")]) {
            Err(GitFault::Refused(_)) => {
                return Err(GitFault::Refused("the clone has no such commit".to_owned()));
            }
            answer => answer?,
        };
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(GitFault::Refused("it names no single commit".to_owned()));
        }
        Ok(id)
    }

    /// Every file below a path of a commit. The path is relative to the top; empty for all files.
    pub(super) fn files(&self, commit: &str, path: &str) -> Result<Vec<TreeEntry>, GitFault> {
        let mut arguments = vec!["ls-tree", "-r", "-z", "-l", "--full-tree", commit, "--"];
        arguments.extend((!path.is_empty()).then_some(path));
        let answer = self.run(&arguments, &[])?;
        let entries = answer
            .split(|byte| *byte == 0)
            .filter(|entry| !entry.is_empty());
        entries
            .map(|entry| entry_of(entry).ok_or(GitFault::Nonsense))
            .collect()
    }

    /// Contents of the files with these object ids, in the same order.
    pub(super) fn contents(&self, ids: &[&str]) -> Result<Vec<Vec<u8>>, GitFault> {
        self.objects(ids, "blob")
    }

    /// Contents of the objects with these ids, which have one type, in the order of `ids`.
    pub(super) fn objects(&self, ids: &[&str], kind: &str) -> Result<Vec<Vec<u8>>, GitFault> {
        let input: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let answer = self.run(&["cat-file", "--batch"], input.as_bytes())?;
        contents_of(&answer, ids, kind).ok_or(GitFault::Nonsense)
    }
}

/// Stdout and stderr of git; `None` if the answer is too long or too late.
fn communicate(child: &mut Child, input: &[u8]) -> Option<(Vec<u8>, String)> {
    let (stdin, stdout, stderr) = (
        child.stdin.take(),
        child.stdout.take()?,
        child.stderr.take()?,
    );
    let (sender, answers) = channel();
    let (error_sender, errors) = channel();
    let input = input.to_vec();
    // Git answers while it reads, so writing and reading must not block each other.
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    std::thread::spawn(move || sender.send(read(stdout, LONGEST_ANSWER)));
    std::thread::spawn(move || error_sender.send(read(stderr, LONGEST_COMPLAINT)));
    let answer = answers.recv_timeout(PATIENCE).ok()?.ok()?;
    let complaint = errors.recv_timeout(PATIENCE).ok()?.ok()?;
    let is_whole = answer.len() as u64 <= LONGEST_ANSWER;
    is_whole.then(|| (answer, String::from_utf8_lossy(&complaint).into_owned()))
}

/// Reads at most one byte more than the limit.
fn read(from: impl Read, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `<mode> <type> <id> <size>\t<path>`
fn entry_of(entry: &[u8]) -> Option<TreeEntry> {
    let at = entry.iter().position(|byte| *byte == b'\t')?;
    let (head, path) = (std::str::from_utf8(&entry[..at]).ok()?, &entry[at + 1..]);
    let mut words = head.split_ascii_whitespace();
    let kind = EntryKind::of_mode(words.next()?);
    let (_, id, size) = (
        words.next()?,
        words.next()?.to_owned(),
        words.next()?.parse().ok(),
    );
    Some(TreeEntry {
        kind,
        id,
        size,
        path: String::from_utf8_lossy(path).into_owned(),
    })
}

/// For each `<id> <type> <size>\n<contents>\n`.
fn contents_of(mut answer: &[u8], ids: &[&str], kind: &str) -> Option<Vec<Vec<u8>>> {
    let mut contents = Vec::new();
    for id in ids {
        let end = answer.iter().position(|byte| *byte == b'\n')?;
        let head = std::str::from_utf8(&answer[..end]).ok()?;
        let size: usize = head
            .strip_prefix(id)?
            .strip_prefix(' ')?
            .strip_prefix(kind)?
            .strip_prefix(' ')?
            .parse()
            .ok()?;
        answer = &answer[end + 1..];
        contents.push(answer.get(..size)?.to_vec());
        answer = answer.get(size + 1..)?;
    }
    Some(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_tree_are_read() {
        let file = entry_of(b"100644 blob 0a1b     120\tpools/a b\tc.yaml").unwrap();
        let path = "pools/a b\tc.yaml".to_owned();
        assert_eq!(
            file,
            TreeEntry {
                kind: EntryKind::File,
                id: "0a1b".to_owned(),
                size: Some(120),
                path
            }
        );
        let submodule = entry_of(b"160000 commit 0a1b       -\tpools/more").unwrap();
        assert_eq!(
            (submodule.kind, submodule.size),
            (EntryKind::Submodule, None)
        );
        assert_eq!(entry_of(b"nonsense"), None);
    }

    #[test]
    fn contents_are_cut_where_their_sizes_say() {
        let answer = b"aa blob 3\na\nb\nbb blob 0\n\n";
        assert_eq!(
            contents_of(answer, &["aa", "bb"], "blob").unwrap(),
            [b"a\nb".to_vec(), Vec::new()]
        );
        assert_eq!(contents_of(b"aa missing\n", &["aa"], "blob"), None);
        assert_eq!(contents_of(b"aa blob 9\nshort\n", &["aa"], "blob"), None);
        assert_eq!(
            contents_of(b"aa blob 18446744073709551615\nshort\n", &["aa"], "blob"),
            None
        );
    }
}
