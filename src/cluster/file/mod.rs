//! A cluster that is kept in a file: a `v1 List` in JSON or YAML, as `kubectl get nodes,ciliumnodes,… -o json` prints it.
//!
//! Writes follow the API server's rules: UID and resourceVersion must fit, `spec.podCIDRs` is write-once, every write
//! gets a new resourceVersion. Objects that are not written stay byte for byte as they are in a JSON file.

mod disk;
mod items;
mod text;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::rules::{patched, version_of};
use super::{Cluster, ClusterError, Listener, LockSeen, Moment, Operation, Seen, Target, Write, WriteError, Written};
use crate::claims::Claims;
use crate::observed::{CLAIMS_KEY, CLAIMS_NAME, ObservedKind};
use disk::open_file;
use items::{ItemHead, List};
use text::{json_to_yaml, pretty, yaml_to_json};

pub use disk::replace;

/// Why a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// To read.
    Read,
    /// To write too: no other process may do so until this one ends.
    Write,
}

/// A cluster file in memory.
#[derive(Debug)]
pub struct FileCluster {
    path: PathBuf,
    format: Format,
    /// Holds the lock as long as the cluster lives.
    _locked: Option<File>,
    /// The whole file as JSON.
    json: String,
    places: Vec<(ObservedKind, String, Range<usize>)>,
    items: Range<usize>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Yaml,
}

#[derive(Debug, Default)]
struct State {
    /// Objects that were written, by place.
    changed: BTreeMap<usize, Value>,
    /// Objects with the identity that an API server would have given them; the file does not get it unless they are written.
    identified: BTreeMap<usize, Value>,
    /// Objects that the file did not have.
    created: Vec<(ObservedKind, String, Value)>,
    resource_version: u64,
}

impl State {
    /// The object as it is after a write.
    fn next_version(&mut self, mut object: Value) -> Result<Value, WriteError> {
        let next = self.resource_version.checked_add(1);
        self.resource_version = next.ok_or_else(|| WriteError::Refused("no resourceVersion is left".to_owned()))?;
        object["metadata"]["resourceVersion"] = json!(self.resource_version.to_string());
        Ok(object)
    }

    fn object(&self, place: usize) -> Option<&Value> {
        self.changed.get(&place).or(self.identified.get(&place))
    }
}

impl FileCluster {
    /// Reads a cluster file.
    ///
    /// # Errors
    /// A file that cannot be read, is no list, or is being written by another process.
    pub fn open(path: &Path, opening: Opening) -> Result<FileCluster, ClusterError> {
        let fault = |message: String| ClusterError::File { path: path.display().to_string(), message };
        let (mut file, locked) = open_file(path, opening)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| fault(error.to_string()))?;
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        let format = if text.trim_start().starts_with('{') { Format::Json } else { Format::Yaml };
        let json = match format {
            Format::Json => text,
            Format::Yaml => yaml_to_json(&text).map_err(fault)?,
        };
        let _locked = locked.then_some(file);
        let mut cluster = FileCluster {
            path: path.to_owned(),
            format,
            _locked,
            json,
            places: Vec::new(),
            items: 0..0,
            state: Mutex::default(),
        };
        cluster.locate_items().map_err(fault)?;
        Ok(cluster)
    }

    fn locate_items(&mut self) -> Result<(), String> {
        let list: List<'_> = serde_json::from_str(&self.json).map_err(|error| format!("it is not a List: {error}"))?;
        if list.kind != "List" {
            return Err(format!(
                "it is a `{}`, not a `List` as `kubectl get nodes,ciliumnodes -o json` prints it",
                list.kind.escape_debug()
            ));
        }
        let items: Vec<&RawValue> = serde_json::from_str(list.items.get())
            .map_err(|error| format!("`items` is no list of objects: {error}"))?;
        let start = |raw: &RawValue| raw.get().as_ptr().addr() - self.json.as_ptr().addr();
        let place = |raw: &RawValue| start(raw)..start(raw) + raw.get().len();
        let mut state = State::default();
        let mut places = Vec::new();
        for item in &items {
            let head: ItemHead =
                serde_json::from_str(item.get()).map_err(|error| format!("an item is no object: {error}"))?;
            let version = head.metadata.resource_version.parse().unwrap_or(0);
            state.resource_version = state.resource_version.max(version);
            let Some(kind) = head.observed_kind() else { continue };
            if head.metadata.uid.is_empty() || head.metadata.resource_version.is_empty() {
                state
                    .identified
                    .insert(places.len(), head.with_identity(item.get()).map_err(|error| error.to_string())?);
            }
            places.push((kind, head.metadata.name, place(item)));
        }
        self.items = place(list.items);
        (self.places, self.state) = (places, Mutex::new(state));
        self.refuse_duplicates()
    }

    fn refuse_duplicates(&self) -> Result<(), String> {
        let mut names: Vec<(ObservedKind, &str)> =
            self.places.iter().map(|(kind, name, _)| (*kind, name.as_str())).collect();
        names.retain(|(kind, _)| matches!(kind, ObservedKind::Node | ObservedKind::CiliumNode | ObservedKind::Claims));
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                Err(format!("{} `{}` is there twice", pair[0].0.api_version_and_kind().1, pair[0].1.escape_debug()))
            }
            None => Ok(()),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn patch(&self, kind: ObservedKind, name: &str, patch: &Value) -> Result<Written, WriteError> {
        let gone = || WriteError::Superseded(format!("{} \"{name}\" not found", kind.resource()));
        let mut state = self.state();
        if let Some(index) = state.created.iter().position(|(of, called, _)| (*of, called.as_str()) == (kind, name)) {
            let object = patched(&state.created[index].2, patch)?;
            let object = state.next_version(object)?;
            let version = version_of(&object);
            state.created[index].2 = object;
            return Ok(Written { version });
        }
        let found = self.places.iter().position(|(of, called, _)| (*of, called.as_str()) == (kind, name));
        let index = found.ok_or_else(gone)?;
        let object = match state.object(index) {
            Some(object) => patched(object, patch)?,
            None => {
                let object = serde_json::from_str(&self.json[self.places[index].2.clone()])
                    .map_err(|error| WriteError::Refused(error.to_string()))?;
                patched(&object, patch)?
            }
        };
        let object = state.next_version(object)?;
        let version = version_of(&object);
        state.changed.insert(index, object);
        Ok(Written { version })
    }

    fn create(&self, kind: ObservedKind, name: &str, object: &Value) -> Result<Written, WriteError> {
        let mut state = self.state();
        let in_file = self.places.iter().map(|(kind, name, _)| (*kind, name.as_str()));
        let created = state.created.iter().map(|(kind, name, _)| (*kind, name.as_str()));
        if in_file.chain(created).any(|there| there == (kind, name)) {
            return Err(WriteError::Superseded(format!("{} \"{name}\" already exists", kind.resource())));
        }
        let mut object = object.clone();
        object["metadata"]["uid"] = json!(items::uid_of(object["kind"].as_str().unwrap_or_default(), "", name));
        let object = state.next_version(object)?;
        let version = version_of(&object);
        state.created.push((kind, name.to_owned(), object));
        Ok(Written { version })
    }

    /// The file with all changes in place.
    fn render(&self, state: &State) -> Result<String, String> {
        let mut text = String::with_capacity(self.json.len() + state.changed.len() * 200);
        let mut at = 0;
        for (index, (_, _, place)) in self.places.iter().enumerate() {
            let Some(object) = state.changed.get(&index) else { continue };
            text.push_str(&self.json[at..place.start]);
            text.push_str(&pretty(object).map_err(|error| error.to_string())?);
            at = place.end;
        }
        let end = self.items.end - 1;
        text.push_str(self.json[at..end].trim_end());
        let is_first = |index: usize| index == 0 && self.json[self.items.start + 1..end].trim().is_empty();
        for (index, (_, _, object)) in
            state.created.iter().filter(|(_, _, object)| is_worth_keeping(object)).enumerate()
        {
            text.push_str(if is_first(index) { "\n        " } else { ",\n        " });
            text.push_str(&pretty(object).map_err(|error| error.to_string())?);
        }
        text.push_str(&self.json[self.json[..end].trim_end().len()..]);
        match self.format {
            Format::Json => Ok(text),
            Format::Yaml => json_to_yaml(&text),
        }
    }

    fn save(&self) -> Result<(), ClusterError> {
        let fault = |message: String| ClusterError::File { path: self.path.display().to_string(), message };
        let state = self.state();
        if state.changed.is_empty() && !state.created.iter().any(|(_, _, object)| is_worth_keeping(object)) {
            return Ok(());
        }
        let text = self.render(&state).map_err(fault)?;
        replace(&self.path, &text).map_err(|error| fault(error.to_string()))
    }
}

impl Cluster for FileCluster {
    async fn list(
        &self,
        kind: ObservedKind,
        _namespace: &str,
        _moment: &Moment,
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        let state = self.state();
        listener.begun(&state.resource_version.to_string())?;
        for (index, (_, _, place)) in self.places.iter().enumerate().filter(|(_, (of, _, _))| *of == kind) {
            match state.object(index) {
                Some(object) => listener.object(&object.to_string())?,
                None => listener.object(&self.json[place.clone()])?,
            }
        }
        for (_, _, object) in state.created.iter().filter(|(of, _, _)| *of == kind) {
            listener.object(&object.to_string())?;
        }
        Ok(Seen::All)
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        let (kind, name) = match &write.target {
            Target::Node(name) => (ObservedKind::Node, name.as_str()),
            Target::Claims => (ObservedKind::Claims, CLAIMS_NAME),
            Target::Lock => return Err(WriteError::Refused("the file itself is locked".to_owned())),
        };
        match &write.operation {
            Operation::Patch(patch) => self.patch(kind, name, patch),
            Operation::Create(object) => self.create(kind, name, object),
        }
    }

    async fn lock(&self) -> Result<LockSeen, ClusterError> {
        Ok(LockSeen::NotKept)
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        self.save()
    }
}

/// Claims that are over leave nothing behind in a file that had none.
fn is_worth_keeping(created: &Value) -> bool {
    created["data"][CLAIMS_KEY] != json!(Claims::default().to_json())
}
