//! A cluster that is kept in a file: a `v1 List` in JSON or YAML, as `kubectl get nodes,ciliumnodes,… -o json` prints it.
//!
//! Writes follow the API server's rules: UID and resourceVersion must fit, `spec.podCIDRs` is write-once, every write
//! gets a new resourceVersion. Objects that are not written stay byte for byte as they are in a JSON file.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{Read, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::merge_patch::merge;
use super::{Cluster, ClusterError, Listener, Seen, Write, WriteError, Written};
use crate::observed::{Head, ObservedKind};

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
    resource_version: u64,
}

impl State {
    fn object(&self, place: usize) -> Option<&Value> {
        self.changed.get(&place).or(self.identified.get(&place))
    }
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    kind: String,
    #[serde(borrow)]
    items: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemHead {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ItemMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemMetadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    labels: Option<ItemLabels>,
}

#[derive(Default, Deserialize)]
struct ItemLabels {
    #[serde(rename = "k8s-app")]
    app: Option<String>,
    component: Option<String>,
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
        names.retain(|(kind, _)| matches!(kind, ObservedKind::Node | ObservedKind::CiliumNode));
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

    fn patch_node(&self, write: &Write) -> Result<Written, WriteError> {
        let found =
            self.places.iter().position(|(kind, name, _)| *kind == ObservedKind::Node && *name == write.node.as_str());
        let Some(index) = found else {
            return Err(WriteError::Superseded(format!("nodes \"{}\" not found", write.node)));
        };
        let mut state = self.state();
        let mut node = match state.object(index) {
            Some(node) => node.clone(),
            None => serde_json::from_str(&self.json[self.places[index].2.clone()])
                .map_err(|error| WriteError::Refused(error.to_string()))?,
        };
        for key in ["uid", "resourceVersion"] {
            let wanted = write.patch.pointer(&format!("/metadata/{key}"));
            if wanted.is_some() && wanted != node.pointer(&format!("/metadata/{key}")) {
                return Err(WriteError::Superseded(format!("its {key} is another one by now")));
            }
        }
        let before = pod_cidrs(&node);
        merge(&mut node, &write.patch);
        let after = pod_cidrs(&node);
        if !before.is_empty() && before != after {
            return Err(WriteError::Refused(
                "node updates may not change podCIDR except from \"\" to valid".to_owned(),
            ));
        }
        state.resource_version += 1;
        let resource_version = state.resource_version.to_string();
        node["metadata"]["resourceVersion"] = json!(resource_version);
        state.changed.insert(index, node);
        Ok(Written { resource_version })
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
        text.push_str(&self.json[at..]);
        match self.format {
            Format::Json => Ok(text),
            Format::Yaml => json_to_yaml(&text),
        }
    }

    fn save(&self) -> Result<(), ClusterError> {
        let fault = |message: String| ClusterError::File { path: self.path.display().to_string(), message };
        let state = self.state();
        if state.changed.is_empty() {
            return Ok(());
        }
        let text = self.render(&state).map_err(fault)?;
        replace(&self.path, &text).map_err(|error| fault(error.to_string()))
    }
}

impl ItemHead {
    fn observed_kind(&self) -> Option<ObservedKind> {
        let labels = self.metadata.labels.as_ref();
        ObservedKind::of(&Head {
            api_version: &self.api_version,
            kind: &self.kind,
            name: &self.metadata.name,
            app: labels.and_then(|labels| labels.app.as_deref()),
            component: labels.and_then(|labels| labels.component.as_deref()),
        })
    }

    /// The object with the UID and resourceVersion that an API server would have given it on creation; the UID depends on
    /// kind and name only, so that the order of objects does not matter.
    fn with_identity(&self, item: &str) -> Result<Value, serde_json::Error> {
        let mut object: Value = serde_json::from_str(item)?;
        let ItemMetadata { name, namespace, uid, resource_version, .. } = &self.metadata;
        if uid.is_empty() {
            let digest = Sha256::digest(format!("{}/{namespace}/{name}", self.kind));
            let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            object["metadata"]["uid"] =
                json!(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]));
        }
        if resource_version.is_empty() {
            object["metadata"]["resourceVersion"] = json!("1");
        }
        Ok(object)
    }
}

impl Cluster for FileCluster {
    async fn list(
        &self,
        kind: ObservedKind,
        _namespace: &str,
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        listener.begun();
        let state = self.state();
        for (index, (_, _, place)) in self.places.iter().enumerate().filter(|(_, (of, _, _))| *of == kind) {
            match state.object(index) {
                Some(object) => listener.object(&object.to_string())?,
                None => listener.object(&self.json[place.clone()])?,
            }
        }
        Ok(Seen::All)
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        self.patch_node(write)
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        self.save()
    }
}

fn pod_cidrs(node: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let listed: Vec<String> =
        node.pointer("/spec/podCIDRs").and_then(Value::as_array).into_iter().flatten().filter_map(text).collect();
    if listed.is_empty() { node.pointer("/spec/podCIDR").and_then(text).into_iter().collect() } else { listed }
}

/// Opens the file, locked for writing where that is asked. The lock belongs to the file that the name leads to at the end:
/// a process that waited for the one before it must not write to what that one replaced.
fn open_file(path: &Path, opening: Opening) -> Result<(File, bool), ClusterError> {
    let fault = |error: &dyn std::fmt::Display| ClusterError::File {
        path: path.display().to_string(),
        message: error.to_string(),
    };
    let file = File::open(path).map_err(|error| fault(&error))?;
    if opening == Opening::Read {
        return Ok((file, false));
    }
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ClusterError::Locked { path: path.display().to_string() }),
        Err(TryLockError::Error(error)) => return Err(fault(&error)),
    }
    let same = same_file(&file, path).map_err(|error| fault(&error))?;
    if same == Identity::Replaced {
        return Err(ClusterError::Locked { path: path.display().to_string() });
    }
    Ok((file, true))
}

#[derive(PartialEq, Eq)]
enum Identity {
    Same,
    Replaced,
}

fn same_file(file: &File, path: &Path) -> std::io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    let (open, named) = (file.metadata()?, std::fs::metadata(path)?);
    Ok(if (open.dev(), open.ino()) == (named.dev(), named.ino()) { Identity::Same } else { Identity::Replaced })
}

/// Replaces a file in one step: a reader sees the old or the new content, never a part.
pub fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(text.as_bytes())?;
    if let Ok(metadata) = std::fs::metadata(&target) {
        temporary.as_file().set_permissions(metadata.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(&target).map_err(|error| error.error)?;
    Ok(())
}

fn yaml_to_json(text: &str) -> Result<String, String> {
    // As much as kubectl prints; depth and aliases, which kubectl hardly uses, keep their strict limits.
    let options = serde_yaml::options! {
        strict_booleans: true,
        budget: serde_yaml::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
    };
    let value: Value = serde_yaml::from_str_with_options(text, options)
        .map_err(|error| format!("it is neither JSON nor YAML: {}", error.without_snippet()))?;
    serde_json::to_string(&value).map_err(|error| error.to_string())
}

fn json_to_yaml(text: &str) -> Result<String, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    serde_yaml::to_string(&value).map_err(|error| error.to_string())
}

/// An item as `kubectl -o json` indents it inside its list.
fn pretty(object: &Value) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    serde::Serialize::serialize(object, &mut serializer)?;
    Ok(String::from_utf8_lossy(&bytes).replace('\n', "\n        "))
}
