//! Snapshots of etcd, saved and restored with etcd's own tools.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::control_plane::{ETCD_DATA, NO_PEER};
use crate::error::{Error, Result};
use crate::etcdctl::{Etcdctl, run};
use crate::programs::{Program, Programs};

/// Far beyond what a test writes.
const BUMP: u64 = 1_000_000_000;

/// A saved snapshot.
#[derive(Debug, Clone)]
pub struct Snapshot {
    file: PathBuf,
}

/// What becomes of etcd's revision, which is the cluster's resourceVersion, when a snapshot is
/// restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revision {
    /// It goes back to that of the snapshot.
    AsSaved,
    /// It is raised beyond all that clients have seen, and everything before it counts as
    /// compacted, as etcd's documentation advises for Kubernetes.
    Bumped,
}

impl Snapshot {
    pub(crate) fn save(programs: &Programs, folder: &Path) -> Result<Self> {
        let number = std::fs::read_dir(folder)
            .map_err(Error::file(folder))?
            .count();
        let file = folder.join(format!("snapshot-{number}.db"));
        let path = file.display().to_string();
        Etcdctl::new(programs, folder).run(&["snapshot", "save", &path], &[])?;
        Ok(Self { file })
    }

    /// The keys of objects that were written after it, and so are lost when it is restored. No API
    /// server may write meanwhile.
    pub(crate) fn lost_keys(&self, programs: &Programs, folder: &Path) -> Result<BTreeSet<String>> {
        let mut command = programs.command(Program::Etcdutl, folder)?;
        command.args(["snapshot", "status", "--write-out=json"]);
        command.arg(&self.file);
        let printed = run("etcdutl", command, &[])?;
        let status: Value =
            serde_json::from_slice(&printed).map_err(|why| Error::unreadable("etcdutl", why))?;
        let saved = status["revision"]
            .as_u64()
            .ok_or_else(|| Error::unreadable("the status of a snapshot", "it has no revision"))?;
        let written = Etcdctl::new(programs, folder).revisions()?.into_iter();
        let later = written.filter(|(_, at)| *at > saved);
        Ok(later.map(|(key, _)| key).collect())
    }

    /// Puts it in the place of the data in a folder; etcd must not run.
    pub(crate) fn restore(
        &self,
        programs: &Programs,
        folder: &Path,
        revision: Revision,
    ) -> Result<()> {
        let data = folder.join(ETCD_DATA);
        std::fs::remove_dir_all(&data).map_err(Error::file(&data))?;
        let mut command = programs.command(Program::Etcdutl, folder)?;
        command
            .args(["snapshot", "restore"])
            .arg(&self.file)
            .arg("--data-dir")
            .arg(&data);
        command.arg(format!("--initial-cluster=default={NO_PEER}"));
        command.arg(format!("--initial-advertise-peer-urls={NO_PEER}"));
        if revision == Revision::Bumped {
            command
                .arg(format!("--bump-revision={BUMP}"))
                .arg("--mark-compacted");
        }
        run("etcdutl", command, &[]).map(drop)
    }
}
