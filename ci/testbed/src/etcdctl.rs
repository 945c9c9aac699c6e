//! etcd's own client, for one etcd that runs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::control_plane::etcd_url;
use crate::error::{Error, Result};
use crate::programs::{Program, Programs};

/// All keys of Kubernetes.
const ALL: &str = "/registry/";

/// etcd's revision of the last write of a key.
pub(crate) type ModRevision = u64;

/// The client of the etcd in a folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Etcdctl<'p> {
    programs: &'p Programs,
    folder: &'p Path,
}

impl<'p> Etcdctl<'p> {
    pub(crate) fn new(programs: &'p Programs, folder: &'p Path) -> Etcdctl<'p> {
        Etcdctl { programs, folder }
    }

    /// Runs it; returns what it prints.
    ///
    /// # Errors
    /// Fails if it was not built, or fails.
    pub(crate) fn run(self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>> {
        let mut command = self.programs.command(Program::Etcdctl, self.folder)?;
        command
            .arg(format!("--endpoints={}", etcd_url(self.folder)))
            .args(arguments);
        run("etcdctl", command, input)
    }

    /// All keys with their last writes.
    ///
    /// # Errors
    /// As [`Etcdctl::run`].
    pub(crate) fn revisions(self) -> Result<BTreeMap<String, ModRevision>> {
        let entries = self.entries(&["--keys-only"])?.into_iter();
        entries
            .map(|(key, entry)| Ok((key, revision(&entry)?)))
            .collect()
    }

    /// All keys with their values and their last writes.
    ///
    /// # Errors
    /// As [`Etcdctl::run`].
    pub(crate) fn values(self) -> Result<BTreeMap<String, (Vec<u8>, ModRevision)>> {
        let entries = self.entries(&[])?.into_iter();
        entries
            .map(|(key, entry)| Ok((key, (decoded(&entry["value"])?, revision(&entry)?))))
            .collect()
    }

    fn entries(self, flags: &[&str]) -> Result<Vec<(String, Value)>> {
        let get = ["get", ALL, "--prefix", "--write-out=json"];
        let printed = self.run(&[&get, flags].concat(), &[])?;
        let mut answer: Value =
            serde_json::from_slice(&printed).map_err(|why| Error::unreadable("etcdctl", why))?;
        let entries = match answer["kvs"].take() {
            Value::Array(entries) => entries,
            _ => Vec::new(),
        };
        let named = |entry: Value| {
            let key = decoded(&entry["key"])?;
            Ok((String::from_utf8_lossy(&key).into_owned(), entry))
        };
        entries.into_iter().map(named).collect()
    }
}

fn revision(entry: &Value) -> Result<ModRevision> {
    let revision = entry["mod_revision"].as_u64();
    revision.ok_or_else(|| Error::unreadable("a key of etcd", "it has no revision"))
}

fn decoded(field: &Value) -> Result<Vec<u8>> {
    let encoded = field.as_str().unwrap_or_default();
    STANDARD
        .decode(encoded)
        .map_err(|why| Error::unreadable("a key of etcd", why))
}

/// Runs one of etcd's tools; returns what it prints.
///
/// # Errors
/// Fails if the tool does.
pub(crate) fn run(program: &str, mut command: Command, input: &[u8]) -> Result<Vec<u8>> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::file(program))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input).map_err(Error::file(program))?;
    }
    let output = child.wait_with_output().map_err(Error::file(program))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Error::Failed {
        program: program.to_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
