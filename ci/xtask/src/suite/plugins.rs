//! Tells whether the programs of `plugins` can behave differently than when their tests passed last. The record of that
//! is one commit in the cache, so a machine without the cache runs the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::tally::Skip;

/// The path of these tests in `it`.
pub const TESTS: &str = "neutron::plugins::";

/// What these tests build, start and call, from the root of the repository.
const PATHS: [&str; 14] = [
    "plugins",
    "crates/http-server",
    "crates/ipam-core/src",
    "crates/retry",
    "ci/chart",
    "ci/guarded.sh",
    "ci/testbed",
    "tests/controlplane",
    "tests/it/neutron",
    "tests/it/running.rs",
    "tests/it/server.rs",
    "tests/it/support.rs",
    "Cargo.lock",
    "Cargo.toml",
];

/// The tests of the plugins in one work tree.
pub struct Plugins {
    root: PathBuf,
}

impl Plugins {
    /// Of the work tree with this root.
    pub fn of(root: PathBuf) -> Self {
        Self { root }
    }

    /// Why the tests can be left out; `None` if something has changed, or if that is unknown.
    pub fn unchanged(&self) -> Option<Skip> {
        let recorded = fs::read_to_string(self.record()).ok()?;
        let commit = recorded.trim();
        let is_clean = self
            .git(&["ls-files", "--others", "--exclude-standard"])
            .ok()?
            .is_empty()
            && self.git(&["diff", "--name-only", commit]).ok()?.is_empty();
        is_clean.then(|| Skip {
            what: "unchanged".to_owned(),
            test: format!("{TESTS}*"),
            why: format!("they passed at {commit}, and nothing that they run has changed"),
        })
    }

    /// Records that they passed, unless a commit cannot name what they ran.
    ///
    /// # Errors
    /// Fails if the cache cannot be written.
    pub fn passed(&self) -> Result<()> {
        let Ok(changes) = self.git(&["status", "--porcelain"]) else {
            return Ok(());
        };
        if !changes.is_empty() {
            return Ok(());
        }
        let commit = run(&self.root, &["rev-parse", "HEAD"])?;
        let record = self.record();
        let folder = record.parent().context("the record has no folder")?;
        fs::create_dir_all(folder).context("cannot create the cache")?;
        fs::write(record, commit).context("cannot write the cache")
    }

    fn record(&self) -> PathBuf {
        self.root.join(".cache/plugins-passed")
    }

    /// What git prints of [`PATHS`].
    fn git(&self, words: &[&str]) -> Result<String> {
        run(&self.root, &[words, &["--"], &PATHS].concat())
    }
}

fn run(root: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(words)
        .current_dir(root)
        .output()
        .context("git does not start")?;
    ensure!(
        output.status.success(),
        "`git {}` failed: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with one commit, whose tests have passed.
    fn passed() -> (tempfile::TempDir, Plugins) {
        let folder = tempfile::tempdir().unwrap();
        for path in ["plugins/a.rs", "docs/a.md"] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "a").unwrap();
        }
        fs::write(folder.path().join(".gitignore"), "/.cache\n").unwrap();
        git(folder.path(), &["init", "--quiet"]);
        commit(folder.path());
        let plugins = Plugins::of(folder.path().to_owned());
        assert_eq!(plugins.unchanged(), None, "without a record");
        plugins.passed().unwrap();
        (folder, plugins)
    }

    fn git(folder: &Path, words: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        run(folder, &[&identity, words].concat()).unwrap();
    }

    fn commit(folder: &Path) {
        git(folder, &["add", "."]);
        git(folder, &["commit", "--quiet", "--message", "a"]);
    }

    #[test]
    fn a_change_elsewhere_leaves_the_tests_out_and_one_of_a_plugin_does_not() {
        let (folder, plugins) = passed();
        assert!(plugins.unchanged().is_some());
        fs::write(folder.path().join("docs/a.md"), "b").unwrap();
        commit(folder.path());
        assert!(plugins.unchanged().is_some(), "a change of docs");

        fs::write(folder.path().join("plugins/a.rs"), "b").unwrap();
        assert_eq!(plugins.unchanged(), None, "not committed");
        plugins.passed().unwrap();
        assert_eq!(plugins.unchanged(), None, "no commit names this state");
        commit(folder.path());
        assert_eq!(plugins.unchanged(), None, "committed");
        plugins.passed().unwrap();
        assert!(plugins.unchanged().is_some());

        fs::write(folder.path().join("plugins/b.rs"), "b").unwrap();
        assert_eq!(plugins.unchanged(), None, "a new file");
    }

    #[test]
    fn a_record_that_names_no_commit_of_the_repository_counts_as_none() {
        let (_folder, plugins) = passed();
        for record in ["", "0123456789012345678901234567890123456789", "--help"] {
            fs::write(plugins.record(), record).unwrap();
            assert_eq!(plugins.unchanged(), None, "{record:?}");
        }
    }
}
