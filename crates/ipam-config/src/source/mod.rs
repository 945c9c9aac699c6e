//! Reads every YAML file of a directory at any depth, from disk or from a Git revision. Never
//! writes, and never reads outside the directory.

mod collected;
mod events;
mod git;
mod git_history;
mod history;
mod ignored;
mod replaced;
mod repository;
mod revision;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use self::collected::{Collected, LARGEST_FILE, has_document, shown};
use self::ignored::{Entry, IGNORE_FILE, Ignored};
use crate::documents::Documents;
use ipam_core::model::Finding;

pub use collected::is_yaml;
pub use events::{DirectoryEvents, Stillness};
pub use git_history::Commit;
pub use history::{BranchStep, Content, FileChange, PathHistory, Repository, Step, Text};
pub use replaced::{Replacement, gone_policies, read_replaced};
pub use repository::InClone;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The directory, or one file.
    pub directory: PathBuf,
    /// The Git revision, in any form that `git rev-parse` accepts; `None` reads from disk.
    pub revision: Option<String>,
}

impl From<&Path> for Location {
    fn from(directory: &Path) -> Location {
        Location {
            directory: directory.to_owned(),
            revision: None,
        }
    }
}

impl Location {
    /// The directory to watch for changes: for a revision, the directory of Git.
    pub fn watched_directory(&self) -> PathBuf {
        let repository = self
            .revision
            .as_ref()
            .and_then(|revision| revision::git_directory(&self.directory, revision));
        repository.unwrap_or_else(|| self.directory.clone())
    }
}

/// The files of a location.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub documents: Documents,
    /// Faults of reading.
    pub findings: Vec<Finding>,
    /// The id of the commit, if a revision is given.
    pub commit: Option<String>,
}

/// Reads every YAML file that the ignore file does not exclude. Skips names that begin with a dot.
pub fn read(location: &Location) -> Found {
    let (collected, commit) = collect(location);
    Found {
        documents: collected.documents,
        findings: collected.findings,
        commit,
    }
}

/// What a location has, and the id of its commit.
fn collect(location: &Location) -> (Collected, Option<String>) {
    match &location.revision {
        Some(revision) => revision::read(&location.directory, revision),
        None => (read_directory(&location.directory), None),
    }
}

/// Refuses links that lead out of the directory.
fn read_directory(directory: &Path) -> Collected {
    let mut reading = Reading {
        directory: directory.to_owned(),
        root: directory.to_owned(),
        collected: Collected::default(),
        visited: BTreeSet::new(),
    };
    match std::fs::canonicalize(directory) {
        Ok(root) if !root.is_dir() => {
            reading.root = root.parent().unwrap_or(Path::new("/")).to_owned();
            reading.directory = reading.root.clone();
            reading.ignore_file();
            reading.file(directory, &root);
            let other = neighbour(&root, &mut reading.collected.ignored);
            let others: Vec<Vec<u8>> = other.into_iter().collect();
            reading.collected.refuse_one_of_several(directory, &others);
        }
        Ok(root) => {
            // Otherwise a link back to the root would read everything again.
            reading.visited.insert(root.clone());
            reading.root = root;
            reading.ignore_file();
            reading.folder(directory);
            reading.collected.refuse_nothing(directory);
        }
        Err(error) => {
            let name = shown(directory);
            let message = format!("`{name}` cannot be read: {error}");
            let help = "name the directory that has the pools, or write one: `cilium-ipam import` for a cluster with blocks, `cilium-ipam init` for a new one";
            reading
                .collected
                .fault("missing-directory", &name, message, help);
        }
    }
    reading.collected.documents.files.sort();
    reading.collected
}

/// Maximum number of entries to read around a single file, which may lie in a home directory.
const MOST_NEIGHBOURS: usize = 10_000;

/// Another file with documents below a file's directory. Skips unreadable files, and follows no
/// link.
fn neighbour(file: &Path, ignored: &mut Ignored) -> Option<Vec<u8>> {
    let directory = file.parent()?;
    let mut is_ignored = |path: &Path, entry| {
        let below = path.strip_prefix(directory);
        below.is_ok_and(|below| ignored.has(below, entry))
    };
    let mut folders: Vec<PathBuf> = vec![directory.to_owned()];
    let mut left = MOST_NEIGHBOURS;
    while let Some(folder) = folders.pop() {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        for entry in entries.take(left) {
            left -= 1;
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            match entry.file_type() {
                _ if is_hidden => {}
                Ok(kind) if kind.is_dir() && !is_ignored(&entry.path(), Entry::Folder) => {
                    folders.push(entry.path());
                }
                Ok(kind) if kind.is_file() && !is_ignored(&entry.path(), Entry::File) => {
                    if let Some(text) = document(&entry.path(), file) {
                        return Some(text);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

fn document(path: &Path, file: &Path) -> Option<Vec<u8>> {
    if path == file || !is_yaml(path) {
        return None;
    }
    let mut text = Vec::new();
    let opened = File::open(path).ok()?;
    opened.take(LARGEST_FILE).read_to_end(&mut text).ok()?;
    has_document(&text).then_some(text)
}

struct Reading {
    /// As it was named.
    directory: PathBuf,
    root: PathBuf,
    collected: Collected,
    visited: BTreeSet<PathBuf>,
}

impl Reading {
    fn folder(&mut self, folder: &Path) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(folder, "listed", &error),
        };
        let mut paths = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) => paths.push(entry.path()),
                Err(error) => self.unreadable(folder, "listed to its end", &error),
            }
        }
        paths.sort();
        for path in paths {
            let hidden = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if !hidden {
                self.entry(&path);
            }
        }
    }

    fn ignore_file(&mut self) {
        let path = self.directory.join(IGNORE_FILE);
        if path.symlink_metadata().is_err() {
            return;
        }
        match std::fs::canonicalize(&path) {
            Ok(real) => {
                if self.is_inside(&path, &real)
                    && let Some(bytes) = self.bytes(&path, &real)
                {
                    self.collected.ignore_file(&shown(&path), bytes);
                }
            }
            Err(error) => self.unfollowed(&path, &error),
        }
    }

    fn entry(&mut self, path: &Path) {
        let real = std::fs::canonicalize(path);
        let entry = match &real {
            Ok(real) if real.is_dir() => Entry::Folder,
            _ => Entry::File,
        };
        let below = path.strip_prefix(&self.directory).unwrap_or(path);
        if self.collected.ignored.has(below, entry) {
            return;
        }
        let real = match real {
            Ok(real) => real,
            Err(error) => return self.unfollowed(path, &error),
        };
        let is_read = entry == Entry::Folder || is_yaml(path);
        if !is_read || !self.is_inside(path, &real) {
            return;
        }
        match entry {
            Entry::File => self.file(path, &real),
            Entry::Folder if self.visited.insert(real) => self.folder(path),
            Entry::Folder => {}
        }
    }

    fn is_inside(&mut self, path: &Path, real: &Path) -> bool {
        let is_inside = real.starts_with(&self.root);
        if !is_inside {
            let name = shown(path);
            let message = format!("`{name}` links outside the directory");
            let help = "copy the file into the directory";
            self.collected.fault("link-outside", &name, message, help);
        }
        is_inside
    }

    fn file(&mut self, path: &Path, real: &Path) {
        if let Some(bytes) = self.bytes(path, real) {
            self.collected.text(&shown(path), bytes);
        }
    }

    /// The bytes of a file; `None` with a finding if they cannot be read.
    fn bytes(&mut self, path: &Path, real: &Path) -> Option<Vec<u8>> {
        let name = shown(path);
        // Never opens a pipe or a device: reading it may not end.
        match std::fs::metadata(real) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => {
                let message = format!("`{name}` is not a regular file");
                let help = "remove it, or replace it with a file";
                self.collected
                    .fault("unreadable-file", &name, message, help);
                return None;
            }
            Err(error) => {
                self.unreadable(path, "read", &error);
                return None;
            }
        }
        let mut bytes = Vec::new();
        let limited =
            File::open(real).and_then(|file| file.take(LARGEST_FILE + 1).read_to_end(&mut bytes));
        match limited {
            Ok(_) => Some(bytes),
            Err(error) => {
                self.unreadable(path, "read", &error);
                None
            }
        }
    }

    /// Only a warning for a dangling link that is not named like a YAML file: editors use such
    /// links as lock files.
    fn unfollowed(&mut self, path: &Path, error: &std::io::Error) {
        let name = shown(path);
        let message = format!("`{name}` cannot be followed: {error}");
        if error.kind() == std::io::ErrorKind::NotFound && !is_yaml(path) {
            return self.collected.warn(
                "dangling-link",
                &name,
                message,
                "remove the link, or fix it",
            );
        }
        self.collected.fault(
            "unreadable-file",
            &name,
            message,
            "remove the link, or fix it",
        );
    }

    fn unreadable(&mut self, path: &Path, what: &str, error: &std::io::Error) {
        let name = shown(path);
        let message = format!("`{name}` cannot be {what}: {error}");
        self.collected.fault(
            "unreadable-file",
            &name,
            message,
            "allow reading it, or remove it",
        );
    }
}
