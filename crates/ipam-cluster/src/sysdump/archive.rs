//! A zip archive of unknown origin, and which file of it has the objects of a kind. Files are read
//! in memory, within limits, and never extracted. It must never know what the objects mean.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use zip::ZipArchive;
use zip::result::ZipError;

use crate::file::ItemHead;
use crate::open_regular;
use ipam_cilium::observed::{ObservedKind, is_read};
use ipam_core::text::one_line;

/// How much of an archive is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Bytes of the list of files.
    pub(super) directory: u64,
    pub(super) files: usize,
    /// Unpacked bytes of one file.
    pub(super) file: u64,
    /// Unpacked bytes of all files that are read.
    pub(super) all: u64,
    /// Unpacked bytes of one file for each packed byte, beyond [`MIB`]. 5,000 Nodes with equal
    /// conditions have 20, and the format allows 1,032.
    pub(super) ratio: u64,
}

impl Limits {
    /// Those of a sysdump of the largest clusters: some files for each node, and each object of 5,000
    /// nodes with 20 KiB.
    pub(super) const SYSDUMP: Limits = Limits {
        directory: 64 * MIB,
        files: 200_000,
        file: 128 * MIB,
        all: 512 * MIB,
        ratio: 300,
    };
}

pub(super) const MIB: u64 = 1024 * 1024;

/// The first bytes of a zip archive, and of one without files.
const MAGIC: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// Whether a regular file begins as a zip archive does.
pub(super) fn is_archive(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = open_regular(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && MAGIC.contains(&&magic[..])
}

/// An open archive.
#[derive(Debug)]
pub(super) struct Archive {
    zip: ZipArchive<Metered<BufReader<File>>>,
    names: Vec<Name>,
    limits: Limits,
    /// Unpacked bytes that may still be read.
    left: u64,
}

/// A file of the archive.
#[derive(Clone, Debug)]
pub(super) struct Name {
    index: usize,
    /// The path without its folders.
    pub(super) base: String,
}

/// The text of a file, or its size in bytes if that is over a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unpacked {
    Text(String),
    TooLarge(u64),
}

impl Archive {
    /// # Errors
    /// Fails if the file is no whole archive, or is one that no sysdump can be.
    pub(super) fn open(path: &Path, limits: Limits) -> Result<Archive, String> {
        let file = open_regular(path).map_err(|error| error.to_string())?;
        let left = Arc::new(AtomicU64::new(limits.directory));
        let reader = Metered {
            inner: BufReader::new(file),
            left: left.clone(),
        };
        let zip = ZipArchive::new(reader).map_err(|error| unreadable(&error))?;
        if zip.has_duplicate_names() {
            return Err("it has two files of the same name".to_owned());
        }
        if zip.len() > limits.files {
            return Err(format!("it has more than {} files", limits.files));
        }
        // From here on, the sizes of files are the limit.
        left.store(u64::MAX, Ordering::Relaxed);
        let names = names(&zip)?;
        Ok(Archive {
            zip,
            names,
            limits,
            left: limits.all,
        })
    }

    pub(super) fn names(&self) -> &[Name] {
        &self.names
    }

    /// # Errors
    /// Fails if the file is damaged, encrypted, or not text.
    pub(super) fn text(&mut self, name: &Name) -> Result<Unpacked, String> {
        let fault = |problem: &str| format!("its file {} {problem}", one_line(&name.base));
        let file = self.zip.by_index(name.index);
        let mut file = file.map_err(|error| fault(&entry_fault(&error)))?;
        let by_ratio = file.compressed_size().saturating_mul(self.limits.ratio);
        let most = self.limits.file.min(self.left).min(by_ratio.max(MIB));
        if file.size() > most {
            return Ok(Unpacked::TooLarge(file.size()));
        }
        // The size that the archive states may be wrong.
        let mut bytes = Vec::new();
        let read = (&mut file).take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| fault(&format!("is damaged: {error}")))?;
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if size > most {
            return Ok(Unpacked::TooLarge(size));
        }
        self.left -= size;
        let text = String::from_utf8(bytes).map_err(|_| fault("is not UTF-8 text"))?;
        Ok(Unpacked::Text(text))
    }
}

/// The names of all files.
///
/// # Errors
/// Fails if a name leads out of the archive: `cilium sysdump` writes no such names.
fn names<R: Read + Seek>(zip: &ZipArchive<R>) -> Result<Vec<Name>, String> {
    let mut names = Vec::new();
    for index in 0..zip.len() {
        let entry = zip.by_index_data(index);
        let entry = entry.map_err(|error| unreadable(&error))?;
        let raw = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let climbs = raw.starts_with('/') || raw.split(['/', '\\']).any(|part| part == "..");
        if climbs || entry.is_symlink() {
            return Err(format!(
                "it has a file outside its folder, `{}`: `cilium sysdump` writes none",
                one_line(&raw)
            ));
        }
        let base = raw.rsplit('/').next().unwrap_or_default();
        if !base.is_empty() {
            names.push(Name {
                index,
                base: base.to_owned(),
            });
        }
    }
    Ok(names)
}

fn unreadable(error: &ZipError) -> String {
    match error {
        ZipError::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            "the list of its files is too long".to_owned()
        }
        error => format!("it is not a whole zip archive ({error}): copy it again"),
    }
}

fn entry_fault(error: &ZipError) -> String {
    match error {
        ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) => {
            "is encrypted: decrypt the archive first".to_owned()
        }
        ZipError::CompressionMethodNotSupported(_) => {
            "is packed by another method than `cilium sysdump` uses".to_owned()
        }
        error => format!("is damaged: {error}"),
    }
}

/// A reader that fails after a number of bytes.
#[derive(Debug)]
struct Metered<R> {
    inner: R,
    /// Shared, because the archive owns its reader.
    left: Arc<AtomicU64>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        let read = self.inner.read(&mut buffer[..most])?;
        let read_bytes = u64::try_from(read).unwrap_or(left);
        self.left.store(left - read_bytes, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: Seek> Seek for Metered<R> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.inner.seek(position)
    }
}

/// The file in which `cilium sysdump` logs what it does, from cilium-cli 0.11 on.
pub(super) const LOG: &str = "cilium-sysdump.log";

/// The file with the objects of a kind, without `-DATE-TIME.yaml`; `None` for kinds that no version
/// of `cilium sysdump` collects.
pub(super) fn stem(kind: ObservedKind) -> Option<&'static str> {
    Some(match kind {
        ObservedKind::Claims
        | ObservedKind::Migration
        | ObservedKind::Departed(_)
        | ObservedKind::Definition(_)
        | ObservedKind::MoreDefinitions
        | ObservedKind::ServiceCidr
        | ObservedKind::SpeakerConfig
        | ObservedKind::KubeadmConfig
        | ObservedKind::RouterDaemonSet => return None,
        ObservedKind::CiliumDaemonSet => "cilium-daemonset",
        ObservedKind::CiliumConfig => "cilium-configmap",
        // It has the Pods of the DaemonSets.
        ObservedKind::ControllerPod
        | ObservedKind::ControllerDaemonSet
        | ObservedKind::CiliumAgentPod => "k8s-pods",
        ObservedKind::LoadBalancerPool => "ciliumloadbalancerippools",
        ObservedKind::PodIpPool => "ciliumpodippools",
        ObservedKind::Service => "k8s-services",
        ObservedKind::CiliumOperator => "cilium-operator-deployment",
        ObservedKind::CiliumNodeConfig => "ciliumnodeconfigs",
        ObservedKind::BgpPeeringPolicy => "ciliumbgppeeringpolicies",
        ObservedKind::BgpClusterConfig => "ciliumbgpclusterconfigs",
        ObservedKind::BgpPeerConfig => "ciliumbgppeerconfigs",
        ObservedKind::BgpAdvertisement => "ciliumbgpadvertisements",
        ObservedKind::L2AnnouncementPolicy => "ciliuml2announcementpolicies",
        ObservedKind::CiliumNode => "ciliumnodes",
        ObservedKind::Node => "k8s-nodes",
    })
}

/// Whether a file has this stem and a date: `ciliumnodes-20260102-030405.yaml`.
pub(super) fn has_stem(name: &str, stem: &str) -> bool {
    let date = name
        .strip_prefix(stem)
        .and_then(|rest| rest.strip_prefix('-'))
        .and_then(|rest| rest.strip_suffix(".yaml"));
    date.is_some_and(|date| {
        let is_number = |part: &str, digits| {
            part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let parts = date.split_once('-');
        parts.is_some_and(|(day, time)| is_number(day, 8) && is_number(time, 6))
    })
}

/// The objects of a kind in a parsed file, each with its kind.
///
/// # Errors
/// Fails with the reason if the file does not have all objects of the kind.
pub(super) fn objects(file: Vec<Value>, kind: ObservedKind) -> Result<Vec<Value>, String> {
    if file.iter().all(Value::is_null) {
        return Err("is empty: the collection of the sysdump was interrupted".to_owned());
    }
    let documents = file.into_iter().filter(|document| !document.is_null());
    let objects: Vec<Vec<Value>> = documents
        .map(|document| of_document(document, kind))
        .collect::<Result<_, String>>()?;
    Ok(objects.into_iter().flatten().collect())
}

fn of_document(file: Value, kind: ObservedKind) -> Result<Vec<Value>, String> {
    let (_, name) = kind.api_version_and_kind();
    let written = file["kind"].as_str().unwrap_or_default();
    let is_list = written == "List" || written.strip_suffix("List") == Some(name);
    if !is_list && written != name {
        return Err(format!(
            "has a `{}`, not a list of {}",
            written.escape_debug(),
            kind.resource()
        ));
    }
    if !is_list {
        return of_kind(vec![file], kind);
    }
    let rest = file["metadata"]["continue"].as_str();
    if rest.is_some_and(|token| !token.is_empty()) {
        return Err("has only the first part of the list".to_owned());
    }
    let version = file["apiVersion"].clone();
    let items = match file {
        Value::Object(mut file) => file.remove("items"),
        _ => None,
    };
    let items = match items {
        Some(Value::Array(items)) => items,
        // So does cilium-cli write an empty list of Kubernetes' own kinds.
        Some(Value::Null) => Vec::new(),
        _ => return Err("has a list without items".to_owned()),
    };
    // Items of a typed list have no kind.
    let mut objects = Vec::with_capacity(items.len());
    for (place, mut item) in items.into_iter().enumerate() {
        let Some(fields) = item.as_object_mut() else {
            return Err(format!("has no object as item {}", place + 1));
        };
        if fields.get("kind").is_none_or(|kind| kind == "") {
            fields.insert("kind".to_owned(), json!(name));
            fields.insert("apiVersion".to_owned(), version.clone());
        }
        objects.push(item);
    }
    of_kind(objects, kind)
}

/// The objects that are of the kind. Pods are selected by labels, as in a live cluster; other files
/// have no other objects.
fn of_kind(mut objects: Vec<Value>, kind: ObservedKind) -> Result<Vec<Value>, String> {
    let is_selection = matches!(
        kind,
        ObservedKind::ControllerPod | ObservedKind::CiliumAgentPod
    );
    let mut fault = None;
    let found = |object: &Value| ItemHead::of(object)?.observed_kind();
    objects.retain(|object| match found(object) {
        Ok(found) if found == Some(kind) => is_read(kind, object),
        Ok(_) if is_selection => false,
        Ok(_) => {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            fault = Some(format!(
                "has `{}`, which is not of {}",
                name.escape_debug(),
                kind.resource()
            ));
            false
        }
        Err(problem) => {
            fault = Some(format!("has an item that {problem}"));
            false
        }
    });
    match fault {
        None => Ok(objects),
        Some(fault) => Err(fault),
    }
}
