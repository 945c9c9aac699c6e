//! A cluster in a file: a `v1 List` in JSON or YAML, as `kubectl get nodes,ciliumnodes,… -o json`
//! prints it.
//!
//! Writes follow the API server's rules: UID and resourceVersion must match, `spec.podCIDRs` is
//! write-once, every write gets a new resourceVersion. In a JSON file, the bytes of all other
//! objects stay as they are. A write lasts only when the file is saved.

mod disk;
mod item_splitter;
mod items;
mod observe_files;
mod one_list;
mod state;

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use disk::open_file;
use items::{ItemLocation, items_of, with_heads};
use jiff::Timestamp;
use one_list::one_list;
use serde_json::Value;
use serde_json::value::RawValue;
use state::{Base, State};

use super::{
    Cluster, ClusterError, LeaseName, ListVisitor, LockSeen, Moment, Operation, Seen, Write,
    WriteError, Written,
};
use ipam_cilium::observed::ObservedKind;
use ipam_core::model::grouped_digits;
use ipam_core::text::one_line;

pub use disk::{check_output, open_regular, remove_leftovers_of, replace, replace_private};
pub(crate) use items::ItemHead;
pub use observe_files::observe_files;
pub(crate) use state::yaml_documents;

/// Why a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// To read only.
    Read,
    /// To read and write. No other process may write until this one ends.
    Write,
}

/// A cluster file in memory.
#[derive(Debug)]
pub struct FileCluster {
    path: PathBuf,
    /// The namespace of Cilium, if the user names it.
    cilium_namespace: Option<String>,
    format: Format,
    /// The whole file as JSON.
    json: String,
    locations: Vec<(ItemLocation, Range<usize>)>,
    /// Positions of the objects that can be written.
    index: BTreeMap<ItemLocation, usize>,
    items: Range<usize>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Yaml,
}

impl FileCluster {
    /// Reads a cluster file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is not a list, or another process is writing it.
    pub fn open(path: &Path, opening: Opening) -> Result<FileCluster, ClusterError> {
        let (mut file, lock) = open_file(path, opening)?;
        let mut text = String::new();
        file.read_to_string(&mut text)
            .map_err(|error| ClusterError::File {
                path: path.display().to_string(),
                message: error.to_string(),
            })?;
        let cluster = FileCluster::of_text(path, text)?;
        cluster.state().lock = lock;
        Ok(cluster)
    }

    /// Reads files as one cluster. Of several, no file takes writes, so no caller may write.
    ///
    /// # Errors
    /// Fails as [`FileCluster::open`] does, or if two files have one object.
    pub fn union(paths: &[impl AsRef<Path>]) -> Result<FileCluster, ClusterError> {
        if let [path] = paths {
            return FileCluster::open(path.as_ref(), Opening::Read);
        }
        let opened = paths.iter().map(|path| path.as_ref());
        let opened = opened.map(|path| FileCluster::open(path, Opening::Read));
        let files: Vec<FileCluster> = opened.collect::<Result<_, _>>()?;
        let (mut owners, mut items) = (BTreeMap::new(), Vec::new());
        for file in &files {
            let fault = |message: String| ClusterError::File {
                path: file.path.display().to_string(),
                message,
            };
            for location in file.index.keys() {
                if let Some(first) = owners.insert(location, &file.path) {
                    return Err(fault(format!(
                        "{} appears twice: it is in {}, too; remove it from one of the files",
                        location.named(),
                        one_line(&first.display().to_string())
                    )));
                }
            }
            let ranges = file.locations.iter().map(|(_, range)| range.clone());
            items.extend(ranges.map(|range| &file.json[range]));
        }
        let json = format!(r#"{{"kind":"List","items":[{}]}}"#, items.join(","));
        FileCluster::of_text(Path::new("the cluster files"), json)
    }

    /// The cluster of a list in JSON or YAML. `path` is the file that it was read from.
    ///
    /// # Errors
    /// Fails if the text is not a list.
    pub fn of_text(path: &Path, mut text: String) -> Result<FileCluster, ClusterError> {
        let fault = |message: String| ClusterError::File {
            path: path.display().to_string(),
            message,
        };
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        let format = if text.trim_start().starts_with('{') {
            Format::Json
        } else {
            Format::Yaml
        };
        let documents = match format {
            Format::Json => match FileCluster::located(path, format, text) {
                Ok(cluster) => return Ok(cluster),
                // Not one flat List, or faulty.
                Err((message, text)) => {
                    let documents = serde_json::Deserializer::from_str(&text).into_iter();
                    let documents: Result<Vec<Value>, _> = documents.collect();
                    documents.map_err(|_| fault(message))?
                }
            },
            Format::Yaml => yaml_documents(&text).map_err(fault)?,
        };
        let json = one_list(documents).map_err(fault)?;
        FileCluster::located(path, format, json).map_err(|(message, _)| fault(message))
    }

    /// The same cluster, in which Cilium runs in this namespace.
    #[must_use]
    pub fn with_cilium_in(self, cilium_namespace: Option<String>) -> FileCluster {
        FileCluster {
            cilium_namespace,
            ..self
        }
    }

    /// # Errors
    /// Fails with the fault and the text.
    fn located(path: &Path, format: Format, json: String) -> Result<FileCluster, (String, String)> {
        let mut cluster = FileCluster {
            path: path.to_owned(),
            cilium_namespace: None,
            format,
            json,
            locations: Vec::new(),
            index: BTreeMap::new(),
            items: 0..0,
            state: Mutex::default(),
        };
        match cluster.locate_items() {
            Ok(()) => Ok(cluster),
            Err(fault) => Err((fault, cluster.json)),
        }
    }

    fn locate_items(&mut self) -> Result<(), String> {
        let (items, text) = items_of(&self.json)?;
        let (mut state, mut locations) = (State::default(), Vec::new());
        let (mut number, mut faulty, mut first_fault) = (0, 0, None);
        with_heads(&items, |item, head| {
            number += 1;
            let located =
                head.and_then(|head| self.locate_item(item, &head, &mut state, &mut locations));
            if let Err(fault) = located {
                faulty += 1;
                first_fault.get_or_insert_with(|| format!("item {number} of its list {fault}"));
            }
        });
        if let Some(first) = first_fault {
            return Err(match faulty {
                1 => first,
                _ => format!("{first}; faulty items: {}", grouped_digits(faulty)),
            });
        }
        self.items = self.range_of(text);
        (self.locations, self.state) = (locations, Mutex::new(state));
        self.index_objects()
    }

    /// The byte range of a part of the file.
    fn range_of(&self, part: &str) -> Range<usize> {
        let start = part.as_ptr().addr() - self.json.as_ptr().addr();
        start..start + part.len()
    }

    /// Adds an item if plans read its kind.
    fn locate_item(
        &self,
        item: &RawValue,
        head: &ItemHead,
        state: &mut State,
        locations: &mut Vec<(ItemLocation, Range<usize>)>,
    ) -> Result<(), String> {
        if head.is_list() {
            return Err("is a List".to_owned());
        }
        let version = head.metadata.resource_version.parse().unwrap_or(0);
        state.resource_version = state.resource_version.max(version);
        let Some(kind) = head.observed_kind()? else {
            return Ok(());
        };
        let identified = head.identified(item.get());
        if let Some(object) = identified.map_err(|error| error.to_string())? {
            state
                .identified
                .insert(locations.len(), object.into_boxed_str());
        }
        locations.push((head.location(kind), self.range_of(item.get())));
        Ok(())
    }

    fn index_objects(&mut self) -> Result<(), String> {
        for (index, (location, _)) in self
            .locations
            .iter()
            .enumerate()
            .filter(|(_, (location, _))| location.is_unique())
        {
            if self.index.insert(location.clone(), index).is_some() {
                return Err(format!("{} appears twice", location.named()));
            }
        }
        Ok(())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Base for FileCluster {
    fn index(&self, location: &ItemLocation) -> Option<usize> {
        self.index.get(location).copied()
    }

    fn object(&self, index: usize) -> Result<Value, serde_json::Error> {
        serde_json::from_str(&self.json[self.locations[index].1.clone()])
    }
}

impl Cluster for FileCluster {
    async fn list(
        &self,
        kind: ObservedKind,
        _namespace: &str,
        _moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        let state = self.state();
        visitor.begun(&state.resource_version.to_string())?;
        let of_kind = self
            .locations
            .iter()
            .enumerate()
            .filter(|(_, (location, _))| location.kind == kind);
        for (index, (_, location)) in of_kind.filter(|(index, _)| !state.deleted.contains(index)) {
            let as_read = || &self.json[location.clone()];
            visitor.object(state.json(index).unwrap_or_else(as_read))?;
        }
        for (_, object) in state
            .created
            .iter()
            .filter(|(location, _)| location.kind == kind)
        {
            visitor.object(&object.to_string())?;
        }
        Ok(Seen::All)
    }

    fn cilium_namespace(&self) -> Option<&str> {
        self.cilium_namespace.as_deref()
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        let location = ItemLocation::of(&write.target)?;
        let mut state = self.state();
        match &write.operation {
            // A file records no owners of fields. Fields that an apply does not name stay, as with
            // a patch.
            Operation::Patch(patch) | Operation::Apply(patch) => {
                state.patch(self, &location, patch)
            }
            Operation::Create(object) => state.create(self, location, object, self.now()),
            Operation::Delete(version) => state.delete(self, &location, version),
        }
    }

    async fn lock(&self, _: LeaseName) -> Result<LockSeen, ClusterError> {
        Ok(LockSeen::NotKept)
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
