//! Reads the files: every YAML file of a directory, at any depth, as it lies there or as a Git
//! revision has it. Only reads, and never outside the directory.

mod collected;
mod events;
mod git;
mod repository;
mod revision;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use self::collected::{Collected, LARGEST_FILE, is_yaml, shown};
use crate::documents::Documents;
use ipam_core::model::Finding;

pub use events::{DirectoryEvents, Stillness};

/// Where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The directory, or one file.
    pub directory: PathBuf,
    /// The Git revision of which they are, in any form that `git rev-parse` understands; `None` is
    /// as they lie there.
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
    /// Where something moves when the files may have changed.
    pub fn to_listen_to(&self) -> PathBuf {
        let repository = self
            .revision
            .as_ref()
            .and_then(|revision| revision::git_directory(&self.directory, revision));
        repository.unwrap_or_else(|| self.directory.clone())
    }
}

/// What was found there.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The files.
    pub documents: Documents,
    /// What could not be read.
    pub findings: Vec<Finding>,
    /// The id of the commit of which they are, where a revision was asked for.
    pub commit: Option<String>,
}

/// Every YAML file there. Names that begin with a dot are skipped.
pub fn read(location: &Location) -> Found {
    match &location.revision {
        Some(revision) => revision::read(&location.directory, revision),
        None => {
            let Collected {
                documents,
                findings,
                ..
            } = read_directory(&location.directory);
            Found {
                documents,
                findings,
                commit: None,
            }
        }
    }
}

/// Links that lead out of the directory are faults.
fn read_directory(directory: &Path) -> Collected {
    let mut reading = Reading {
        root: directory.to_owned(),
        collected: Collected::default(),
        visited: BTreeSet::new(),
    };
    match std::fs::canonicalize(directory) {
        Ok(root) if !root.is_dir() => {
            reading.root = root.parent().unwrap_or(Path::new("/")).to_owned();
            reading.file(directory, &root);
        }
        Ok(root) => {
            // A link back to the root must not read everything again.
            reading.visited.insert(root.clone());
            reading.root = root;
            reading.folder(directory);
            reading.collected.refuse_nothing(directory);
        }
        Err(error) => {
            let name = shown(directory);
            let message = format!("`{name}` cannot be read: {error}");
            let help = "name the directory that holds the pools, such as `pools`";
            reading
                .collected
                .fault("missing-directory", &name, message, help);
        }
    }
    reading.collected.documents.files.sort();
    reading.collected
}

struct Reading {
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

    fn entry(&mut self, path: &Path) {
        let real = match std::fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) => return self.unfollowed(path, &error),
        };
        if !real.is_dir() && !is_yaml(path) {
            return;
        }
        if !real.starts_with(&self.root) {
            let name = shown(path);
            let message = format!("`{name}` leads out of the directory");
            return self.collected.fault(
                "link-outside",
                &name,
                message,
                "copy the file into the directory",
            );
        }
        if !real.is_dir() {
            self.file(path, &real);
        } else if self.visited.insert(real) {
            self.folder(path);
        }
    }

    fn file(&mut self, path: &Path, real: &Path) {
        let name = shown(path);
        // Only a regular file is opened: a pipe or a device may never end.
        match std::fs::metadata(real) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => {
                let message = format!("`{name}` is not a regular file");
                return self.collected.fault(
                    "unreadable-file",
                    &name,
                    message,
                    "move it away, or make it a file",
                );
            }
            Err(error) => return self.unreadable(path, "read", &error),
        }
        let mut bytes = Vec::new();
        let limited =
            File::open(real).and_then(|file| file.take(LARGEST_FILE + 1).read_to_end(&mut bytes));
        if let Err(error) = limited {
            return self.unreadable(path, "read", &error);
        }
        self.collected.text(&name, bytes);
    }

    /// A link that leads nowhere may be anything: editors lock files with such links. Only a name
    /// of YAML says that something is missing.
    fn unfollowed(&mut self, path: &Path, error: &std::io::Error) {
        let name = shown(path);
        let message = format!("`{name}` cannot be followed: {error}");
        if error.kind() == std::io::ErrorKind::NotFound && !is_yaml(path) {
            return self.collected.doubt(
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
            "allow reading it, or move it away",
        );
    }
}
