//! Snapshots of etcd, saved and restored with etcd's own tools.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::control_plane::{ETCD_DATA, NO_PEER};
use crate::error::{Error, Result};
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
    pub(crate) fn save(programs: &Programs, folder: &Path, endpoint: &str) -> Result<Self> {
        let number = std::fs::read_dir(folder)
            .map_err(Error::file(folder))?
            .count();
        let file = folder.join(format!("snapshot-{number}.db"));
        let mut command = programs.command(Program::Etcdctl, folder)?;
        command
            .arg(format!("--endpoints={endpoint}"))
            .args(["snapshot", "save"])
            .arg(&file);
        run("etcdctl", command)?;
        Ok(Self { file })
    }

    /// The keys of objects that were written after it, and so are lost when it is restored. No API
    /// server may write meanwhile.
    pub(crate) fn lost_keys(
        &self,
        programs: &Programs,
        folder: &Path,
        endpoint: &str,
    ) -> Result<BTreeSet<String>> {
        let mut command = programs.command(Program::Etcdutl, folder)?;
        command.args(["snapshot", "status", "--write-out=json"]);
        command.arg(&self.file);
        let status = json("etcdutl", command)?;
        let saved = status["revision"]
            .as_u64()
            .ok_or_else(|| Error::unreadable("the status of a snapshot", "it has no revision"))?;
        let mut command = programs.command(Program::Etcdctl, folder)?;
        command.arg(format!("--endpoints={endpoint}"));
        command.args(["get", "/registry/", "--prefix", "--keys-only"]);
        command.arg("--write-out=json");
        let keys = json("etcdctl", command)?;
        let later = keys["kvs"].as_array().into_iter().flatten();
        later
            .filter(|key| key["mod_revision"].as_u64().is_none_or(|at| at > saved))
            .map(|key| {
                let encoded = key["key"].as_str().unwrap_or_default();
                let decoded = STANDARD
                    .decode(encoded)
                    .map_err(|why| Error::unreadable("a key of etcd", why))?;
                Ok(String::from_utf8_lossy(&decoded).into_owned())
            })
            .collect()
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
        run("etcdutl", command).map(drop)
    }
}

fn json(program: &str, command: std::process::Command) -> Result<Value> {
    let printed = run(program, command)?;
    serde_json::from_slice(&printed).map_err(|why| Error::unreadable(program, why))
}

fn run(program: &str, mut command: std::process::Command) -> Result<Vec<u8>> {
    let output = command.output().map_err(Error::file(program))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Error::Failed {
        program: program.to_owned(),
        stderr,
    })
}
