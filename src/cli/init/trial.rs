//! Validates and plans the new files before they are written.
//!
//! Writes new files, all of them or none.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::cli::failure::Failure;
use crate::render::{Detail, diagnostics, human};
use ipam_cilium::observed::{BlockAllocator, ModeSeen, Observed};
use ipam_config::documents::{Documents, SourceFile};
use ipam_controller::{Job, check_documents};
use ipam_core::model::{Finding, IpamMode, Severity};
use ipam_planner::plan::{BlockedReason, OperatorObstacle, PlanDocument};

/// Most reasons that `init` prints; the plan has all.
const TOLD: usize = 3;

/// What the files would do.
pub(super) struct Trial {
    /// The first line of the plan; `None` without a cluster.
    pub(super) headline: Option<String>,
    /// Errors and warnings of the plan.
    pub(super) diagnostics: String,
    /// Why nodes cannot get a block yet, with the way out.
    pub(super) blocked: BTreeSet<String>,
    /// Conditions for `plan --fail-on` in CI: those that need a person, unless the first plan has
    /// them already.
    pub(super) fail_on: String,
}

/// The conditions that the first plan of the files must not have.
pub(super) fn fail_on(plan: Option<&PlanDocument>) -> String {
    let is_new = |is_in: fn(&PlanDocument) -> bool| !plan.is_some_and(is_in);
    let conditions = [
        ("error", true),
        ("refused", true),
        ("policy", true),
        ("blocked", is_new(|plan| !plan.blocked.is_empty())),
        ("misplaced", is_new(|plan| !plan.misplaced.is_empty())),
    ];
    let conditions = conditions.into_iter().filter(|(_, is_new)| *is_new);
    let names: Vec<&str> = conditions.map(|(name, _)| name).collect();
    names.join(",")
}

impl Trial {
    /// # Errors
    /// Fails if the files would be invalid, such as with a CIDR that no Pod can have.
    pub(super) fn of(
        directory: &Path,
        files: &[NewFile],
        observed: Option<&Observed>,
        detail: Detail,
    ) -> Result<Trial, Failure> {
        let yaml = files
            .iter()
            .filter(|file| file.path.extension().is_some_and(|end| end == "yaml"));
        let documents = Documents {
            files: yaml
                .map(|file| SourceFile {
                    path: file.path.to_string_lossy().into(),
                    text: file.text.as_str().into(),
                })
                .collect(),
        };
        let loaded = check_documents(documents, Vec::new());
        let told = |findings: &[Finding]| {
            let is_told = |finding: &&Finding| finding.severity != Severity::Info;
            let findings: Vec<Finding> = findings.iter().filter(is_told).cloned().collect();
            diagnostics(&findings, &loaded.documents, detail)
        };
        if loaded.has_errors() {
            return Err(Failure::Unwritten(told(&loaded.findings)));
        }
        let Some(observed) = observed else {
            return Ok(Trial {
                headline: None,
                diagnostics: told(&loaded.findings),
                blocked: BTreeSet::new(),
                fail_on: fail_on(None),
            });
        };
        let plan = Job::files(&loaded).plan(observed);
        let document = PlanDocument::new(&plan, &directory.to_string_lossy());
        let reasons = plan.blocked.iter().map(|blocked| &blocked.reason);
        let distinct: BTreeSet<String> = reasons.map(told_reason).collect();
        let mut blocked: BTreeSet<String> = distinct.into_iter().take(TOLD).collect();
        if leaves_nodes_to_operator(observed) {
            let gives = BlockedReason::Operator(OperatorObstacle::Gives);
            blocked.insert(told_reason(&gives));
        }
        Ok(Trial {
            headline: human(&document, detail).lines().next().map(str::to_owned),
            diagnostics: told(&plan.findings),
            fail_on: fail_on(Some(&document)),
            blocked,
        })
    }
}

fn told_reason(reason: &BlockedReason) -> String {
    format!("{reason}; {}", reason.unblock())
}

/// In ipam `cluster-pool`, new nodes are usually not ours, even if all nodes have a block now.
fn leaves_nodes_to_operator(observed: &Observed) -> bool {
    let gives = |node| observed.block_allocator(node) == BlockAllocator::Operator;
    observed.cilium.mode() == ModeSeen::Known(IpamMode::ClusterPool)
        && observed.nodes.values().any(|node| gives(node))
}

/// Mode of a new file, before the process's umask.
#[cfg(unix)]
const MODE: u32 = 0o666;

/// A file to write.
#[derive(Debug)]
pub(in crate::cli) struct NewFile {
    pub(in crate::cli) path: PathBuf,
    pub(in crate::cli) text: String,
}

pub(in crate::cli) fn exists(path: &Path) -> Failure {
    Failure::Failed(format!(
        "{} exists; nothing was written: files are never replaced, so move it away or name another directory",
        path.display()
    ))
}

/// Writes all files, or none if one of them exists or cannot be written.
pub(in crate::cli) fn write_all(files: &[NewFile]) -> Result<(), Failure> {
    // A dangling link counts as a file.
    if let Some(file) = files
        .iter()
        .find(|file| file.path.symlink_metadata().is_ok())
    {
        return Err(exists(&file.path));
    }
    let mut made = Made::default();
    let outcome = made.all(files);
    if outcome.is_err() {
        made.remove();
    }
    outcome
}

/// What was made so far.
#[derive(Default)]
struct Made {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Made {
    fn all(&mut self, files: &[NewFile]) -> Result<(), Failure> {
        let mut staged = Vec::new();
        for file in files {
            let stage = self
                .folder_of(&file.path)
                .and_then(|folder| stage(&folder, &file.text));
            staged.push((
                stage.map_err(|error| unwritable(&file.path, &error))?,
                &file.path,
            ));
        }
        for (stage, path) in staged {
            match stage.persist_noclobber(path) {
                Ok(_) => self.files.push(path.clone()),
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
                    return Err(exists(path));
                }
                Err(error) => return Err(unwritable(path, &error.error)),
            }
        }
        Ok(())
    }

    /// The folder of a file. Makes it, and remembers each one that was missing.
    fn folder_of(&mut self, path: &Path) -> Result<PathBuf, Error> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let missing: Vec<&Path> = folder
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .collect();
        for folder in missing.into_iter().rev() {
            std::fs::create_dir(folder)?;
            self.folders.push(folder.to_owned());
        }
        Ok(folder.to_owned())
    }

    fn remove(&self) {
        // A failure to remove is not reported: the first failure is.
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
        for folder in self.folders.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

fn stage(folder: &Path, text: &str) -> Result<NamedTempFile, Error> {
    let mut builder = Builder::new();
    #[cfg(unix)]
    builder.permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(MODE));
    let mut file = builder.prefix(".cilium-ipam-new-").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn unwritable(path: &Path, error: &Error) -> Failure {
    Failure::Failed(format!(
        "{} cannot be written: {error}; nothing was written",
        path.display()
    ))
}
