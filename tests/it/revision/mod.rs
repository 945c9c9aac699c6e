//! Files of a Git revision, from real repositories.

mod applied;
mod reading;
mod untrusted;

use std::path::Path;

use crate::git::git;
use crate::support::Folder;

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";
const OTHER: &str = "{cidrs: [10.30.0.0/16], blockSize: 24}";

/// Commits everything; returns the commit id.
fn commit(folder: &Path) -> String {
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message", "m"]);
    git(folder, &["rev-parse", "HEAD"])
}

fn repository(files: &[(&str, &str)]) -> (Folder, String) {
    let folder = Folder::new(files);
    git(
        folder.path(),
        &["init", "--quiet", "--initial-branch", "main"],
    );
    let id = commit(folder.path());
    (folder, id)
}

fn rules(folder: &Folder, arguments: &[&str]) -> Vec<String> {
    let ran = folder
        .run(&[&["validate", "-o", "json"], arguments].concat())
        .expect(3)
        .json();
    let findings = ran["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|finding| finding["rule"].as_str().unwrap().to_owned())
        .collect()
}

/// The number of pools that `validate` reports for valid files.
fn pools_of(folder: &Folder, directory: &str, revision: &str) -> String {
    let valid = folder
        .run(&["validate", directory, "--revision", revision])
        .expect(0);
    valid.stdout.split(',').next().unwrap().to_owned()
}
