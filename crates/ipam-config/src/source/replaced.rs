//! Reads the files of a location with some of them replaced, as if the new ones had been saved there,
//! and finds the Policies of the repository that one Git revision has and others do not. Must never
//! write.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::collected::{Collected, is_yaml, shown};
use super::git::{Git, GitFault};
use super::ignored::{Entry, IGNORE_FILE};
use super::repository::InRepository;
use super::revision::RevisionFaults;
use super::{Found, Location, collect};
use ipam_core::model::Finding;
use ipam_core::text::one_line;

/// A file as it would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Path in the directory, such as `racks/a.yaml`.
    pub path: String,
    /// Its text; `None` removes the file.
    pub text: Option<String>,
}

/// Reads a location as if these files were saved in it.
///
/// # Errors
/// Fails for a path that the directory would not have or not read, for a path that comes twice, and
/// for the removal of a file that is not there.
pub fn read_replaced(location: &Location, replacements: &[Replacement]) -> Result<Found, String> {
    let (mut collected, commit) = collect(location);
    // Its remark stays as it is.
    let mut ignored = std::mem::take(&mut collected.ignored);
    if location.directory.is_file() {
        let name = shown(&location.directory);
        return Err(format!("`{name}` is a file: only a directory has others"));
    }
    // Whether there are files is found anew below.
    collected.forget_emptiness();
    let mut seen = Vec::new();
    for Replacement { path, text } in replacements {
        let file = in_directory(path)?;
        if seen.contains(&file) {
            return Err(format!("`{}` comes twice", one_line(path)));
        }
        let name = shown(&location.directory.join(&file));
        if ignored.has(&file, Entry::File) {
            return Err(format!("`{name}` is not read: {IGNORE_FILE} ignores it"));
        }
        let was_there = collected.remove(&name);
        match text {
            Some(text) => collected.text(&name, text.clone().into_bytes()),
            None if was_there => {}
            None => return Err(format!("`{name}` is not there, so it cannot be removed")),
        }
        seen.push(file);
    }
    for Replacement { path, text } in replacements {
        let file = in_directory(path)?;
        if text.is_some() {
            check_place(location, &file, &collected, &seen)?;
        }
    }
    collected.refuse_nothing(&location.directory);
    collected.documents.files.sort();
    Ok(Found {
        documents: collected.documents,
        findings: collected.findings,
        commit,
    })
}

/// Refuses a file in a file, and a file in the place of a folder that stays: no directory has them.
/// `replaced` are the files that are not as they are on disk.
fn check_place(
    location: &Location,
    file: &Path,
    collected: &Collected,
    replaced: &[PathBuf],
) -> Result<(), String> {
    let directory = &location.directory;
    let on_disk = |path: &Path| match &location.revision {
        Some(_) => None,
        None => Some(directory.join(path)).filter(|_| !replaced.iter().any(|one| one == path)),
    };
    let folders = file.ancestors().skip(1);
    for folder in folders.filter(|folder| !folder.as_os_str().is_empty()) {
        let on_disk = on_disk(folder);
        let is_file = match on_disk.filter(|path| path.exists()) {
            Some(path) => path.is_file(),
            None => collected.has(&shown(&directory.join(folder))),
        };
        if is_file {
            return Err(format!(
                "`{}` cannot be there: `{}` is a file",
                shown(&directory.join(file)),
                shown(&directory.join(folder))
            ));
        }
    }
    let name = shown(&directory.join(file));
    match collected.has_in(&name) {
        true => Err(format!("`{name}` cannot be a file: it is a folder")),
        false => Ok(()),
    }
}

/// The path in its only spelling.
fn in_directory(path: &str) -> Result<PathBuf, String> {
    let mut names = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) if !name.to_string_lossy().starts_with('.') => names.push(name),
            Component::Normal(_)
            | Component::ParentDir
            | Component::RootDir
            | Component::Prefix(_) => return Err(not_read(path)),
        }
    }
    match is_yaml(&names) && !path.ends_with('/') {
        true => Ok(names),
        false => Err(not_read(path)),
    }
}

fn not_read(path: &str) -> String {
    format!(
        "`{}` is not a path of a YAML file in the directory, such as `racks/a.yaml`; names that begin with a dot are not read",
        one_line(path)
    )
}

/// The API group of our objects, in a line that is no comment.
const OURS: &str = r"^[^#]*cilium-ipam\.io/v1alpha1";
const POLICY: &str = r#"^[^#]*kind["']?:[[:space:]]*["']?IPAMPolicy(["',}[:space:]]|$)"#;
const POOL: &str =
    r#"^[^#]*kind["']?:[[:space:]]*["']?(Cilium(LoadBalancer|Pod))?IPPool(["',}[:space:]]|$)"#;

/// Policies of the revision `base` beside or above pools, in folders where `head` has none or no pools
/// any more. The paths are those from the top of the repository.
///
/// # Errors
/// Fails if the repository or a revision cannot be read.
pub fn gone_policies(base: &Location, head: &Location) -> Result<Vec<String>, Box<Finding>> {
    let revision = base.revision.as_deref().unwrap_or("HEAD");
    let faults = RevisionFaults {
        directory: &base.directory,
        revision,
    };
    let InRepository { git, .. } = InRepository::of(&base.directory, revision)
        .map_err(|fault| faults.no_repository(&fault))?;
    let find = |revision: Option<&str>| {
        let commit = revision.map(|revision| git.commit(revision)).transpose()?;
        policies(&git, commit.as_deref())
    };
    let before = find(Some(revision)).map_err(|fault| faults.unreadable(&fault))?;
    let after = find(head.revision.as_deref()).map_err(|fault| faults.unreadable(&fault))?;
    let after: BTreeSet<&str> = after.iter().map(|file| folder(file)).collect();
    let is_gone = |file: &String| !after.contains(folder(file));
    Ok(before.into_iter().filter(is_gone).collect())
}

/// The folder of a file, with a slash at its end. That of the top is empty.
fn folder(file: &str) -> &str {
    file.rfind('/').map_or("", |slash| &file[..=slash])
}

/// The Policies with pools in their folder or below it; without a commit, those of the work tree.
fn policies(git: &Git, commit: Option<&str>) -> Result<BTreeSet<String>, GitFault> {
    let mut policies = files_with(git, commit, &[OURS, POLICY])?;
    let pools = files_with(git, commit, &[POOL])?;
    policies.retain(|policy| pools.iter().any(|pool| pool.starts_with(folder(policy))));
    Ok(policies)
}

/// The files that have a line for each of these patterns. Attributes of files do not count: the work
/// tree may call each file binary.
fn files_with(
    git: &Git,
    commit: Option<&str>,
    patterns: &[&str],
) -> Result<BTreeSet<String>, GitFault> {
    let mut arguments = vec!["grep", "-l", "-z", "-a", "-E", "--full-name", "--all-match"];
    arguments.extend(patterns.iter().flat_map(|pattern| ["-e", pattern]));
    arguments.push(commit.unwrap_or("--untracked"));
    arguments.push("--");
    let answer = match git.run(&arguments, &[]) {
        // There is no such line.
        Err(GitFault::Refused(message)) if message.is_empty() => Vec::new(),
        answer => answer?,
    };
    let start = commit.map(|commit| format!("{commit}:"));
    let names = String::from_utf8_lossy(&answer);
    let names = names.split('\0').filter(|name| !name.is_empty());
    let path = |name: &str| {
        let start = start.as_deref().unwrap_or_default();
        name.strip_prefix(start).unwrap_or(name).to_owned()
    };
    // Files in other formats are never read as objects, such as a page with an example.
    let paths = names.map(path).filter(|path| is_yaml(Path::new(path)));
    Ok(paths.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::read;

    #[test]
    fn a_path_has_one_spelling_and_stays_in_the_directory() {
        for same in ["racks/a.yaml", "./racks//a.yaml", "racks/./a.yaml"] {
            assert_eq!(in_directory(same).unwrap(), Path::new("racks/a.yaml"));
        }
        assert!(in_directory("A.YAML").is_ok());
        for bad in [
            "",
            ".",
            "a",
            "a.txt",
            "/a.yaml",
            "../a.yaml",
            "a/../b.yaml",
            ".a.yaml",
            ".x/a.yaml",
            "a.yaml/",
        ] {
            assert!(in_directory(bad).is_err(), "{bad}");
        }
    }

    fn replaced(location: &Location, path: &str, text: Option<&str>) -> Result<Found, String> {
        let one = Replacement {
            path: path.to_owned(),
            text: text.map(str::to_owned),
        };
        read_replaced(location, &[one])
    }

    /// What a directory would say after the same edits on disk.
    #[test]
    fn it_reads_what_the_directory_would_be() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
        write("a.yaml", b"a: 1\n");
        write("b.yaml", b"\xff\n");
        let location = Location::from(folder.path());
        assert_eq!(read(&location).findings.len(), 1);
        for (path, text) in [
            ("b.yaml", Some("b: 2\n")),
            ("b.yaml", None),
            ("c.yml", Some("c: 3\n")),
            ("a.yaml", None),
        ] {
            let simulated = replaced(&location, path, text).unwrap();
            let file = folder.path().join(path);
            let before = std::fs::read(&file).ok();
            match text {
                Some(text) => std::fs::write(&file, text).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let saved = read(&location);
            assert_eq!(simulated.documents.files, saved.documents.files, "{path}");
            assert_eq!(simulated.findings, saved.findings, "{path}");
            match before {
                Some(before) => std::fs::write(&file, before).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
        }
        assert!(
            replaced(&location, "d.yaml", None)
                .unwrap_err()
                .contains("not there")
        );
        let large = "x".repeat(9 * 1024 * 1024);
        let found = replaced(&location, "d.yaml", Some(&large)).unwrap();
        assert!(
            found
                .findings
                .iter()
                .any(|one| one.rule.0 == "file-too-large")
        );
    }

    #[test]
    fn a_file_is_in_no_file_and_is_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(folder.path().join(name), "a: 1\n").unwrap();
        std::fs::create_dir(folder.path().join("b.yaml")).unwrap();
        ["a.yaml", "b.yaml/c.yaml", "readme"]
            .into_iter()
            .for_each(write);
        let location = Location::from(folder.path());
        let several = |files: &[(&str, Option<&str>)]| {
            let one = |(path, text): &(&str, Option<&str>)| Replacement {
                path: (*path).to_owned(),
                text: text.map(str::to_owned),
            };
            let all: Vec<_> = files.iter().map(one).collect();
            let found = read_replaced(&location, &all)?;
            Ok::<usize, String>(found.documents.files.len())
        };
        let text = Some("a: 1\n");
        for (files, why) in [
            (&[("a.yaml/b.yaml", text)][..], "a.yaml` is a file"),
            (&[("readme/b.yaml", text)], "readme` is a file"),
            (&[("b.yaml", text)], "is a folder"),
            (
                &[("n.yaml/x/b.yaml", text), ("n.yaml", text)],
                "n.yaml` is a file",
            ),
        ] {
            let error = several(files).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let moved = [("a.yaml", None), ("a.yaml/b.yaml", text)];
        assert_eq!(several(&moved), Ok(2));
        let moved = [("b.yaml", text), ("b.yaml/c.yaml", None)];
        assert_eq!(several(&moved), Ok(2));
    }

    #[test]
    fn an_ignored_file_cannot_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(IGNORE_FILE, "old\n");
        write("a.yaml", "a: 1\n");
        let location = Location::from(folder.path());
        let error = replaced(&location, "old/b.yaml", Some("b: 2\n")).unwrap_err();
        assert!(error.ends_with("ignores it"), "{error}");
    }

    #[test]
    fn a_directory_becomes_empty_and_full() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::from(folder.path());
        let rules = |found: &Found| {
            found
                .findings
                .iter()
                .map(|one| one.rule.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(rules(&read(&location)), ["empty-directory"]);
        let filled = replaced(&location, "a.yaml", Some("a: 1\n")).unwrap();
        assert!(filled.findings.is_empty());
        std::fs::write(folder.path().join("a.yaml"), "a: 1\n").unwrap();
        let emptied = replaced(&location, "a.yaml", None).unwrap();
        assert_eq!(rules(&emptied), ["empty-directory"]);
    }
}
