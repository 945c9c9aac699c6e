//! A cluster that is kept in a file: a `v1 List` in JSON or YAML, as `kubectl get nodes,ciliumnodes,… -o json` prints it.
//!
//! Writes follow the API server's rules: UID and resourceVersion must fit, `spec.podCIDRs` is write-once, every write
//! gets a new resourceVersion. Objects that are not written stay byte for byte as they are in a JSON file.

mod disk;
mod items;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::rules::{patched, version_of};
use super::write::guard;
use super::{
    Cluster, ClusterError, LeaseName, Listener, LockSeen, Moment, Operation, Seen, Target, Write, WriteError, Written,
};
use crate::claims::Claims;
use crate::model::grouped_digits;
use crate::observed::{CLAIMS_KEY, CLAIMS_NAME, OWN_NAMESPACE, ObjectVersion, ObservedKind};
use disk::open_file;
use items::{ItemHead, List};
use text::{json_to_yaml, pretty, yaml_to_json};

pub use disk::{replace, replace_private};

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
    places: Vec<(Place, Range<usize>)>,
    items: Range<usize>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Yaml,
}

/// What tells objects apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    kind: ObservedKind,
    namespace: String,
    name: String,
}

impl Place {
    fn new(kind: ObservedKind, namespace: &str, name: &str) -> Place {
        let namespace = match kind {
            ObservedKind::Service if namespace.is_empty() => "default",
            ObservedKind::Service | ObservedKind::CiliumNodeConfig => namespace,
            // Of a kind without namespaces it says nothing, and of the others there is one object.
            _ => "",
        };
        Place { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Of these kinds every object counts by itself, so a second one of the same name would hide the first.
    fn is_unique(&self) -> bool {
        use ObservedKind::{CiliumNode, CiliumNodeConfig, Claims, LoadBalancerPool, Node, PodIpPool, Service};
        matches!(self.kind, Node | CiliumNode | CiliumNodeConfig | Claims | LoadBalancerPool | PodIpPool | Service)
    }
}

#[derive(Debug, Default)]
struct State {
    /// Objects that were written, by place.
    changed: BTreeMap<usize, Value>,
    /// Objects with the identity that an API server would have given them; the file does not get it unless they are written.
    identified: BTreeMap<usize, Value>,
    /// Objects that the file did not have.
    created: Vec<(Place, Value)>,
    /// Objects that are gone, by place.
    deleted: BTreeSet<usize>,
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
        let (mut state, mut places, mut faults) = (State::default(), Vec::new(), Vec::new());
        for (index, item) in items.iter().enumerate() {
            if let Err(fault) = self.locate_item(item, &mut state, &mut places) {
                faults.push(format!("item {} of its list {fault}", index + 1));
            }
        }
        if let Some((first, more)) = faults.split_first() {
            let more = if more.is_empty() {
                String::new()
            } else {
                format!("; faulty items: {}", grouped_digits(faults.len()))
            };
            return Err(format!("{first}{more}"));
        }
        self.items = self.place_of(list.items);
        (self.places, self.state) = (places, Mutex::new(state));
        self.refuse_duplicates()
    }

    /// Where a part of the file stands in it.
    fn place_of(&self, raw: &RawValue) -> Range<usize> {
        let start = raw.get().as_ptr().addr() - self.json.as_ptr().addr();
        start..start + raw.get().len()
    }

    /// Notes an item if it is of a kind that is read.
    fn locate_item(
        &self,
        item: &RawValue,
        state: &mut State,
        places: &mut Vec<(Place, Range<usize>)>,
    ) -> Result<(), String> {
        let head = ItemHead::read(item.get())?;
        let version = head.metadata.resource_version.parse().unwrap_or(0);
        state.resource_version = state.resource_version.max(version);
        let Some(kind) = head.observed_kind()? else { return Ok(()) };
        if head.metadata.uid.is_empty() || head.metadata.resource_version.is_empty() {
            let object = head.with_identity(item.get()).map_err(|error| error.to_string())?;
            state.identified.insert(places.len(), object);
        }
        places.push((Place::new(kind, head.metadata.namespace(), &head.metadata.name), self.place_of(item)));
        Ok(())
    }

    fn refuse_duplicates(&self) -> Result<(), String> {
        let mut names: Vec<&Place> = self.places.iter().map(|(place, _)| place).filter(|p| p.is_unique()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                let kind = pair[0].kind.api_version_and_kind().1;
                Err(format!("{kind} `{}` is there twice", pair[0].name.escape_debug()))
            }
            None => Ok(()),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where an object of the file stands, unless it was deleted.
    fn index_of(&self, state: &State, place: &Place) -> Option<usize> {
        let mut places = self.places.iter().enumerate();
        places.find(|(index, (there, _))| there == place && !state.deleted.contains(index)).map(|(index, _)| index)
    }

    fn object_at(&self, state: &State, index: usize) -> Result<Value, WriteError> {
        match state.object(index) {
            Some(object) => Ok(object.clone()),
            None => serde_json::from_str(&self.json[self.places[index].1.clone()])
                .map_err(|error| WriteError::Refused(error.to_string())),
        }
    }

    fn patch(&self, place: &Place, patch: &Value) -> Result<Written, WriteError> {
        let mut state = self.state();
        if let Some(index) = state.created.iter().position(|(there, _)| there == place) {
            let object = patched(&state.created[index].1, patch)?;
            let object = state.next_version(object)?;
            let version = version_of(&object);
            state.created[index].1 = object;
            return Ok(Written { version });
        }
        let index = self.index_of(&state, place).ok_or_else(|| gone(place))?;
        let object = patched(&self.object_at(&state, index)?, patch)?;
        let object = state.next_version(object)?;
        let version = version_of(&object);
        state.changed.insert(index, object);
        Ok(Written { version })
    }

    fn create(&self, place: Place, object: &Value) -> Result<Written, WriteError> {
        let mut state = self.state();
        let is_created = state.created.iter().any(|(there, _)| *there == place);
        if is_created || self.index_of(&state, &place).is_some() {
            let message = format!("{} \"{}\" already exists", place.kind.resource(), place.name);
            return Err(WriteError::Superseded(message));
        }
        let mut object = object.clone();
        let uid = items::uid_of(object["kind"].as_str().unwrap_or_default(), "", &place.name);
        object["metadata"]["uid"] = json!(uid);
        object["metadata"]["creationTimestamp"] = json!(self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let object = state.next_version(object)?;
        let version = version_of(&object);
        state.created.push((place, object));
        Ok(Written { version })
    }

    fn delete(&self, place: &Place, version: &ObjectVersion) -> Result<Written, WriteError> {
        let mut state = self.state();
        let guard = json!({"metadata": guard(version)});
        if let Some(index) = state.created.iter().position(|(there, _)| there == place) {
            patched(&state.created[index].1, &guard)?;
            state.created.remove(index);
        } else {
            let index = self.index_of(&state, place).ok_or_else(|| gone(place))?;
            patched(&self.object_at(&state, index)?, &guard)?;
            state.deleted.insert(index);
        }
        Ok(Written { version: ObjectVersion::default() })
    }

    /// The file with all changes in place.
    fn render(&self, state: &State) -> Result<String, String> {
        let mut text = String::with_capacity(self.json.len() + state.changed.len() * 200);
        let mut at = 0;
        for (index, (_, place)) in self.places.iter().enumerate() {
            if state.deleted.contains(&index) {
                text.push_str(&self.json[at..place.start]);
                at = place.end + cut_comma(&mut text, &self.json[place.end..]);
            } else if let Some(object) = state.changed.get(&index) {
                text.push_str(&self.json[at..place.start]);
                text.push_str(&pretty(object).map_err(|error| error.to_string())?);
                at = place.end;
            }
        }
        let end = self.items.end - 1;
        text.push_str(self.json[at.min(end)..end].trim_end());
        for (_, object) in state.created.iter().filter(|(_, object)| is_worth_keeping(object)) {
            text.push_str(if text.trim_end().ends_with('[') { "\n        " } else { ",\n        " });
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
        let is_created = state.created.iter().any(|(_, object)| is_worth_keeping(object));
        if state.changed.is_empty() && state.deleted.is_empty() && !is_created {
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
        let of_kind = self.places.iter().enumerate().filter(|(_, (place, _))| place.kind == kind);
        for (index, (_, place)) in of_kind.filter(|(index, _)| !state.deleted.contains(index)) {
            match state.object(index) {
                Some(object) => listener.object(&object.to_string())?,
                None => listener.object(&self.json[place.clone()])?,
            }
        }
        for (_, object) in state.created.iter().filter(|(place, _)| place.kind == kind) {
            listener.object(&object.to_string())?;
        }
        Ok(Seen::All)
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        let place = match &write.target {
            Target::Node(name) => Place::new(ObservedKind::Node, "", name.as_str()),
            Target::CiliumNode(name) => Place::new(ObservedKind::CiliumNode, "", name.as_str()),
            Target::NodeConfig(_, namespace, name) => Place::new(ObservedKind::CiliumNodeConfig, namespace, name),
            Target::PodPool(name) => Place::new(ObservedKind::PodIpPool, "", name),
            Target::AddressPool(_, name) => Place::new(ObservedKind::LoadBalancerPool, "", name.as_str()),
            Target::Service(service) => Place::new(ObservedKind::Service, service.namespace(), service.name()),
            Target::Claims => Place::new(ObservedKind::Claims, OWN_NAMESPACE, CLAIMS_NAME),
            Target::Lease(_) | Target::Custom(..) | Target::Status(..) | Target::Event | Target::Port(_) => {
                return Err(WriteError::Refused("a file keeps none of these".to_owned()));
            }
        };
        match &write.operation {
            // Nothing tells who owns a field here, and what an apply does not name stays, as with a patch.
            Operation::Patch(patch) | Operation::Apply(patch) => self.patch(&place, patch),
            Operation::Create(object) => self.create(place, object),
            Operation::Delete(version) => self.delete(&place, version),
        }
    }

    async fn lock(&self, _: LeaseName) -> Result<LockSeen, ClusterError> {
        Ok(LockSeen::NotKept)
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        self.save()
    }
}

fn gone(place: &Place) -> WriteError {
    WriteError::Superseded(format!("{} \"{}\" not found", place.kind.resource(), place.name))
}

/// Takes away the comma before an item that is cut out; of the first item the one behind it, whose length is the answer.
fn cut_comma(before: &mut String, behind: &str) -> usize {
    before.truncate(before.trim_end().len());
    if before.ends_with(',') {
        before.pop();
        return 0;
    }
    let rest = behind.trim_start();
    let skipped = behind.len() - rest.len();
    rest.strip_prefix(',').map_or(0, |rest| skipped + 1 + (rest.len() - rest.trim_start().len()))
}

/// Claims that are over leave nothing behind in a file that had none.
fn is_worth_keeping(created: &Value) -> bool {
    created["data"][CLAIMS_KEY] != json!(Claims::default().to_json())
}
