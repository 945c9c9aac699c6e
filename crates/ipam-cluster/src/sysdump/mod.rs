//! A cluster in an archive of `cilium sysdump`, to read only.
//!
//! An archive is evidence only of what it has: a kind whose file is missing is hidden, not empty.
//! It decides nothing, and extracts nothing.

mod archive;

use std::collections::BTreeMap;
use std::path::Path;

use archive::{LOG, has_stem, objects, stem};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::archive::{Archive, Limits, MIB, Name, Unpacked};
use crate::file::yaml_documents;
use crate::{
    Cluster, ClusterError, Extent, FileCluster, LeaseName, ListVisitor, LockSeen, Moment, Seen,
    Write, WriteError, Written,
};
use ipam_cilium::observed::ObservedKind;
use ipam_core::text::one_line;

/// The longest line of a log that a message quotes, in characters.
const QUOTED: usize = 300;

/// An archive of `cilium sysdump` in memory.
#[derive(Debug)]
pub struct Sysdump {
    objects: FileCluster,
    /// Kinds without a usable file.
    unseen: BTreeMap<ObservedKind, Seen>,
}

impl Sysdump {
    /// Whether a file is a zip archive.
    pub fn is_archive(path: &Path) -> bool {
        archive::is_archive(path)
    }

    /// Whether a version of `cilium sysdump` collects a kind.
    pub fn collects(kind: ObservedKind) -> bool {
        stem(kind).is_some()
    }

    /// Reads an archive.
    ///
    /// # Errors
    /// Fails if the archive is damaged, is one that `cilium sysdump` does not write, or has a file
    /// that cannot be read.
    pub fn open(path: &Path) -> Result<Sysdump, ClusterError> {
        Sysdump::within(Limits::SYSDUMP, path)
    }

    /// The same cluster, in which Cilium runs in this namespace.
    #[must_use]
    pub fn with_cilium_in(self, cilium_namespace: Option<String>) -> Sysdump {
        Sysdump {
            objects: self.objects.with_cilium_in(cilium_namespace),
            ..self
        }
    }

    fn within(limits: Limits, path: &Path) -> Result<Sysdump, ClusterError> {
        let fault = |message: String| ClusterError::File {
            path: path.display().to_string(),
            message,
        };
        let archive = Archive::open(path, limits).map_err(fault)?;
        let mut reading = Reading::new(archive).map_err(fault)?;
        let mut items = Vec::new();
        let mut unseen = BTreeMap::new();
        for kind in Extent::Examination.kinds() {
            match reading.kind(kind).map_err(fault)? {
                Ok(objects) => items.extend(objects),
                Err(seen) => {
                    unseen.insert(kind, seen);
                }
            }
        }
        if items.is_empty() {
            return Err(fault(
                "it has no file of `cilium sysdump`, such as `k8s-nodes-DATE-TIME.yaml`".to_owned(),
            ));
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let objects = FileCluster::of_text(path, list.to_string())?;
        Ok(Sysdump { objects, unseen })
    }
}

/// The archive while it is read.
struct Reading {
    archive: Archive,
    /// Parsed files that have objects of several kinds.
    parsed: BTreeMap<&'static str, Vec<Value>>,
    log: String,
}

impl Reading {
    fn new(mut archive: Archive) -> Result<Reading, String> {
        let is_log = |name: &&Name| name.base == LOG;
        let log = archive.names().iter().find(is_log).cloned();
        let log = match log.map(|log| archive.text(&log)).transpose()? {
            Some(Unpacked::Text(text)) => text,
            Some(Unpacked::TooLarge(_)) | None => String::new(),
        };
        Ok(Reading {
            archive,
            parsed: BTreeMap::new(),
            log,
        })
    }

    /// The objects of a kind; why they are unknown, if no file has them.
    fn kind(&mut self, kind: ObservedKind) -> Result<Result<Vec<Value>, Seen>, String> {
        if kind == ObservedKind::ControllerDaemonSet {
            let pods = self.kind(ObservedKind::ControllerPod)?;
            return Ok(pods.map(|_| Vec::new()));
        }
        let Some(stem) = stem(kind) else {
            return Ok(Err(Seen::Hidden(
                "`cilium sysdump` does not collect them".to_owned(),
            )));
        };
        if let Some(file) = self.parsed.get(stem) {
            return Ok(objects(file.clone(), kind).map_err(Seen::Hidden));
        }
        let of_kind = |name: &&Name| has_stem(&name.base, stem);
        let found: Vec<Name> = self
            .archive
            .names()
            .iter()
            .filter(of_kind)
            .cloned()
            .collect();
        let name = match &found[..] {
            [] => return Ok(Err(self.missing(kind, stem))),
            [name] => name,
            [one, other, ..] => {
                return Err(format!(
                    "it has two files of {}, {} and {}: give one sysdump",
                    kind.resource(),
                    one_line(&one.base),
                    one_line(&other.base)
                ));
            }
        };
        let text = match self.archive.text(name)? {
            Unpacked::Text(text) => text,
            Unpacked::TooLarge(size) => {
                return Ok(Err(Seen::Hidden(format!(
                    "the file {} is too large: {} MiB, unpacked. Read the cluster itself",
                    one_line(&name.base),
                    size.div_ceil(MIB)
                ))));
            }
        };
        let file = yaml_documents(&text)
            .map_err(|error| format!("its file {}: {error}", one_line(&name.base)))?;
        drop(text);
        if kind == ObservedKind::ControllerPod {
            self.parsed.insert(stem, file.clone());
        }
        let hidden = |why| Seen::Hidden(format!("the file {} {why}", one_line(&name.base)));
        Ok(objects(file, kind).map_err(hidden))
    }

    /// A kind without a file. The log says if the server does not serve it.
    fn missing(&self, kind: ObservedKind, stem: &str) -> Seen {
        let resource = kind.resource();
        let plural = resource.strip_suffix(".cilium.io");
        let words = plural.unwrap_or(resource.split('.').next().unwrap_or(resource));
        // cilium-cli writes `failed to collect Cilium Pod IP pools`, or the plural itself.
        let squashed = |line: &str| line.to_lowercase().replace(' ', "");
        let is_failure = |line: &&str| {
            let line = squashed(line);
            line.contains("failedto") && line.contains(words)
        };
        let is_not_served = |line: &str| {
            let collection = format!("failedtocollect{words}");
            line.contains("the server could not find the requested resource")
                && squashed(line).contains(&collection)
        };
        let can_be_absent = plural.is_some() && kind != ObservedKind::CiliumNode;
        match self.log.lines().find(is_failure) {
            Some(line) if can_be_absent && is_not_served(line) => Seen::NotServed,
            Some(line) => {
                let line: String = line.trim().chars().take(QUOTED).collect();
                Seen::Hidden(format!(
                    "the sysdump has no file {stem}-DATE-TIME.yaml; its log says: {}",
                    one_line(&line)
                ))
            }
            None => Seen::Hidden(format!(
                "the sysdump has no file {stem}-DATE-TIME.yaml: collect it again, with a newer cilium-cli"
            )),
        }
    }
}

impl Cluster for Sysdump {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        match self.unseen.get(&kind) {
            Some(seen) => Ok(seen.clone()),
            None => self.objects.list(kind, namespace, moment, visitor).await,
        }
    }

    fn cilium_namespace(&self) -> Option<&str> {
        self.objects.cilium_namespace()
    }

    async fn write(&self, _: &Write) -> Result<Written, WriteError> {
        Err(WriteError::Refused("a sysdump is read-only".to_owned()))
    }

    async fn lock(&self, _: LeaseName) -> Result<LockSeen, ClusterError> {
        Ok(LockSeen::NotKept)
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

#[cfg(test)]
mod tests;
