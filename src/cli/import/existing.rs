//! Compares the files that would be written with those that are there.
//!
//! `import --sysdump`: an archive of `cilium sysdump` in place of a cluster.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use similar::TextDiff;

use super::Arguments;
use crate::cli::Common;
use crate::cli::failure::Failure;
use crate::cli::init::trial::NewFile;
use crate::render::{Detail, diagnostics};
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_cluster::Sysdump;
use ipam_config::documents::Documents;
use ipam_config::source::{Location, read};
use ipam_core::model::{Finding, Rule, Severity};
use ipam_core::text::one_line;
use ipam_planner::proposal::Remark;

/// Lines around a difference.
const CONTEXT: usize = 3;

/// What the directory has already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// No file that a plan would read.
    None,
    /// The same files.
    Equal,
    /// Other files: their differences.
    Different(Vec<Difference>),
}

/// The unified difference of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Difference {
    /// The two lines that name the files. Of escaped text only.
    pub(in crate::cli) header: String,
    pub(in crate::cli) body: String,
}

impl Existing {
    /// Whether the files are written.
    pub(super) fn allows(&self, arguments: &Arguments) -> bool {
        *self == Existing::None && !arguments.dry_run
    }

    /// The whole difference.
    pub(super) fn difference(&self) -> Option<String> {
        match self {
            Existing::Different(differences) => Some(whole(differences)),
            Existing::None | Existing::Equal => None,
        }
    }
}

fn whole(differences: &[Difference]) -> String {
    let texts = differences.iter();
    texts
        .map(|one| format!("{}{}", one.header, one.body))
        .collect()
}

/// # Errors
/// Fails if a part of the directory cannot be read: it may have files.
pub(super) fn compare(
    directory: &Path,
    files: &[NewFile],
    detail: Detail,
) -> Result<Existing, Failure> {
    let found = match directory.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        _ => readable(directory, detail)?.files,
    };
    let found: Vec<PathBuf> = found
        .iter()
        .map(|file| PathBuf::from(&*file.path))
        .collect();
    let is_new = |path: &PathBuf| files.iter().all(|file| file.path != *path);
    let others: Vec<&PathBuf> = found.iter().filter(|path| is_new(path)).collect();
    let mut is_empty = others.is_empty();
    let mut differences = Vec::new();
    for file in files {
        let old = text(&file.path)?;
        is_empty &= old.is_none();
        differences.extend(difference(&file.path, old.as_deref(), &file.text, "import"));
    }
    for path in &others {
        differences.push(Difference {
            header: String::new(),
            body: format!(
                "Only in the directory: {}\n",
                one_line(&path.display().to_string())
            ),
        });
    }
    Ok(match (is_empty, differences.is_empty()) {
        (true, _) => Existing::None,
        (false, true) => Existing::Equal,
        (false, false) => Existing::Different(differences),
    })
}

/// What can be read of a directory. It may be empty.
fn readable(directory: &Path, detail: Detail) -> Result<Documents, Failure> {
    let found = read(&Location::from(directory));
    let is_fault = |finding: &Finding| {
        finding.severity == Severity::Error && finding.rule != Rule("empty-directory")
    };
    let faults: Vec<Finding> = found.findings.into_iter().filter(is_fault).collect();
    match faults.is_empty() {
        true => Ok(found.documents),
        false => Err(Failure::Unwritten(diagnostics(
            &faults,
            &found.documents,
            detail,
        ))),
    }
}

/// The text of a file; `None` if it does not exist.
pub(in crate::cli) fn text(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        // A dangling link counts as a file.
        Err(error) if error.kind() == ErrorKind::NotFound && path.symlink_metadata().is_err() => {
            Ok(None)
        }
        Err(error) => Err(Failure::Failed(format!(
            "{} cannot be read: {error}; nothing was written",
            path.display()
        ))),
    }
}

/// The difference of one file to what `by` would write.
pub(in crate::cli) fn difference(
    path: &Path,
    old: Option<&str>,
    new: &str,
    by: &str,
) -> Option<Difference> {
    if old == Some(new) {
        return None;
    }
    let shown = path.display().to_string();
    let shown = one_line(&shown);
    let before = match old {
        Some(_) => &shown,
        None => "/dev/null",
    };
    let diff = TextDiff::from_lines(old.unwrap_or_default(), new);
    Some(Difference {
        header: format!("--- {before}\n+++ {shown} ({by})\n"),
        body: diff.unified_diff().context_radius(CONTEXT).to_string(),
    })
}

/// The flags, with the archive as their cluster.
///
/// # Errors
/// Fails if the file is not an archive.
pub(super) fn selected(archive: Option<&Path>, common: &Common) -> Result<Common, Failure> {
    let Some(archive) = archive else {
        return Ok(common.clone());
    };
    if archive.exists() && !Sysdump::is_archive(archive) {
        return Err(Failure::Failed(format!(
            "{} is not a zip archive as `cilium sysdump` writes it. For a List of objects, use --cluster-file",
            archive.display()
        )));
    }
    Ok(Common {
        cluster_file: Some(archive.to_owned()),
        ..common.clone()
    })
}

/// Takes away the blind spots that every archive has, for a remark. Others remain.
pub(super) fn take_uncollected(common: &Common, observed: &mut Observed) -> Option<Remark> {
    let archive = common.cluster_file.as_deref()?;
    if !Sysdump::is_archive(archive) {
        return None;
    }
    let spots = std::mem::take(&mut observed.blind_spots);
    let (collected, others): (Vec<_>, Vec<_>) = spots
        .into_iter()
        .partition(|spot| Sysdump::collects(spot.kind));
    observed.blind_spots = collected;
    let resources = others.iter().map(|spot| match spot.kind {
        ObservedKind::Claims => "claims of cilium-ipam",
        ObservedKind::Migration => "record of a migration",
        kind => kind.resource(),
    });
    Some(Remark::NotCollected(resources.collect()))
}
