//! Reads the directory: every YAML file of it, at any depth. Only reads, and never outside the directory.

mod events;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;
use std::sync::Arc;

use crate::desired::{Documents, SourceFile};
use crate::model::{Finding, Origin, Rule, Severity};

pub use events::{DirectoryEvents, Stillness};

/// Largest file that is read, in bytes. Ten thousand pools fit into it several times.
const LARGEST_FILE: u64 = 8 * 1024 * 1024;

/// Every YAML file under a directory, or one file, with what could not be read. Names that begin with a dot are skipped, and
/// links that lead out of the directory are faults.
pub fn read_directory(directory: &Path) -> (Documents, Vec<Finding>) {
    let mut reading = Reading {
        root: directory.to_owned(),
        documents: Documents::default(),
        findings: Vec::new(),
        visited: BTreeSet::new(),
    };
    match std::fs::canonicalize(directory) {
        Ok(root) if root.is_file() => {
            reading.root = root.parent().unwrap_or(Path::new("/")).to_owned();
            reading.file(directory, &root);
        }
        Ok(root) => {
            // A link back to the root must not read everything again.
            reading.visited.insert(root.clone());
            reading.root = root;
            reading.folder(directory);
            reading.refuse_nothing(directory);
        }
        Err(error) => {
            let name = shown(directory);
            reading.fault(
                "missing-directory",
                &name,
                format!("`{name}` cannot be read: {error}"),
                "name the directory that holds the pools, such as `pools`",
            );
        }
    }
    reading.documents.files.sort();
    (reading.documents, reading.findings)
}

struct Reading {
    root: PathBuf,
    documents: Documents,
    findings: Vec<Finding>,
    visited: BTreeSet<PathBuf>,
}

fn shown(path: &Path) -> Arc<str> {
    path.to_string_lossy().replace('\\', "/").escape_debug().to_string().into()
}

impl Reading {
    fn fault(&mut self, rule: &'static str, file: &Arc<str>, message: impl Into<String>, help: &str) {
        let finding = Finding::new(Severity::Error, Rule(rule), message);
        self.findings.push(finding.at(&Origin::whole_file(file), "").help(help));
    }

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
            let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if !hidden {
                self.entry(&path);
            }
        }
    }

    fn entry(&mut self, path: &Path) {
        let real = match std::fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) => {
                let name = shown(path);
                return self.fault(
                    "unreadable-file",
                    &name,
                    format!("`{name}` cannot be followed: {error}"),
                    "remove the link, or mend it",
                );
            }
        };
        let is_yaml = path
            .extension()
            .is_some_and(|extension| ["yaml", "yml"].iter().any(|known| extension.eq_ignore_ascii_case(known)));
        if !real.is_dir() && !is_yaml {
            return;
        }
        if !real.starts_with(&self.root) {
            let name = shown(path);
            return self.fault(
                "link-outside",
                &name,
                format!("`{name}` leads out of the directory"),
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
                return self.fault("unreadable-file", &name, message, "move it away, or make it a file");
            }
            Err(error) => return self.unreadable(path, "read", &error),
        }
        let mut bytes = Vec::new();
        let limited = File::open(real).and_then(|file| file.take(LARGEST_FILE + 1).read_to_end(&mut bytes));
        if let Err(error) = limited {
            return self.unreadable(path, "read", &error);
        }
        if bytes.len() as u64 > LARGEST_FILE {
            let message = format!("`{name}` is larger than {} MiB", LARGEST_FILE / 1024 / 1024);
            return self.fault("file-too-large", &name, message, "split it; a file of pools is small");
        }
        match String::from_utf8(bytes) {
            Ok(text) => self.documents.files.push(SourceFile { path: name, text: text.into() }),
            Err(error) => self.not_utf8(&name, &error),
        }
    }

    fn not_utf8(&mut self, name: &Arc<str>, error: &FromUtf8Error) {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.split(|byte| *byte == b'\n').count();
        let before = valid.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let column = String::from_utf8_lossy(before).chars().count() + 1;
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let origin = Origin { line: number(line), column: number(column), ..Origin::whole_file(name) };
        let message = format!("`{name}` is not UTF-8: line {line}, column {column} is not");
        let finding = Finding::new(Severity::Error, Rule("not-utf8"), message);
        self.findings.push(finding.at(&origin, "").help("save the file as UTF-8"));
    }

    fn unreadable(&mut self, path: &Path, what: &str, error: &std::io::Error) {
        let name = shown(path);
        let message = format!("`{name}` cannot be {what}: {error}");
        self.fault("unreadable-file", &name, message, "allow reading it, or move it away");
    }

    /// A directory without documents is far more often a wrong path than a wish.
    fn refuse_nothing(&mut self, directory: &Path) {
        if self.documents.files.is_empty() && self.findings.is_empty() {
            let name = shown(directory);
            self.fault(
                "empty-directory",
                &name,
                format!("`{name}` has no YAML files"),
                "name the directory that holds the pools; an empty one never means that everything should go",
            );
        }
    }
}
