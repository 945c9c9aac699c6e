//! The objects of a simulated cluster that runs Pods, with the API server's rules for writes.
//!
//! It must never know what a migration does.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::books::Books;
use super::machines::Machine;
use super::people::Wanted;
use ipam_cilium::observed::ObjectVersion;
use ipam_cluster::WriteError;
use ipam_core::net::Block;

/// Earlier moments that a list may still show.
const HISTORY: usize = 80;

/// Kinds of objects, in the order of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    DaemonSet,
    Settings,
    Operator,
    ControllerManager,
    Claims,
    Record,
    Node,
    CiliumNode,
    NodeConfig,
    Pod,
}

/// Where the agents of a cluster read their blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ipam {
    ClusterPool,
    Kubernetes,
}

pub(super) type Objects = BTreeMap<(Kind, String), Arc<Value>>;

/// The cluster at one moment.
pub(super) struct State {
    pub(super) objects: Objects,
    pub(super) version: u64,
    made: u64,
    pub(super) now: Timestamp,
    pub(super) rng: Rng,
    pub(super) ipam: Ipam,
    pub(super) history: VecDeque<(u64, Objects)>,
    pub(super) machines: BTreeMap<String, Machine>,
    pub(super) wanted: BTreeMap<String, Wanted>,
    pub(super) books: Books,
    log: Option<Vec<String>>,
}

/// Shared by all clients and actors.
#[derive(Clone)]
pub(super) struct World(Arc<Mutex<State>>);

impl World {
    pub(super) fn new(seed: u64, ipam: Ipam, log: Option<Vec<String>>) -> World {
        World(Arc::new(Mutex::new(State {
            objects: BTreeMap::new(),
            version: 100,
            made: 0,
            now: Timestamp::UNIX_EPOCH,
            rng: Rng::with_seed(seed),
            ipam,
            history: VecDeque::new(),
            machines: BTreeMap::new(),
            wanted: BTreeMap::new(),
            books: Books::default(),
            log,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        let (version, now) = (self.version, self.now.as_second());
        if let Some(log) = &mut self.log {
            log.push(format!("{now:>5}s {version:>5}  {}", line()));
        }
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.log.clone().unwrap_or_default()
    }

    pub(super) fn chance(&mut self, per_mille: u32) -> bool {
        self.rng.u32(..1_000) < per_mille
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<Arc<Value>> {
        self.objects.get(&(kind, name.to_owned())).cloned()
    }

    pub(super) fn all(&self, kind: Kind) -> Vec<(String, Arc<Value>)> {
        let of_kind = self.objects.iter().filter(|((of, _), _)| *of == kind);
        of_kind
            .map(|((_, name), object)| (name.clone(), object.clone()))
            .collect()
    }

    pub(super) fn names(&self, kind: Kind) -> Vec<String> {
        self.all(kind).into_iter().map(|(name, _)| name).collect()
    }

    pub(super) fn advance(&mut self, milliseconds: i64) {
        let duration = SignedDuration::from_millis(milliseconds);
        self.now = self.now.saturating_add(duration).unwrap_or(Timestamp::MAX);
    }

    /// A number that no object had before.
    pub(super) fn fresh(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Stores a new object.
    pub(super) fn create(
        &mut self,
        kind: Kind,
        name: &str,
        mut object: Value,
    ) -> Result<ObjectVersion, WriteError> {
        if self.get(kind, name).is_some() {
            return Err(WriteError::Superseded("already exists".to_owned()));
        }
        let uid = format!("uid-{}", self.fresh());
        object["metadata"]["uid"] = json!(uid);
        if kind == Kind::Node {
            object["status"] = json!({});
        }
        self.note(|| format!("{kind:?} {name} is created: {}", brief(&object)));
        Ok(self.put(kind, name, object))
    }

    /// Applies a merge patch.
    pub(super) fn patch(
        &mut self,
        kind: Kind,
        name: &str,
        patch: &Value,
    ) -> Result<ObjectVersion, WriteError> {
        let Some(before) = self.get(kind, name) else {
            return Err(WriteError::Superseded("not found".to_owned()));
        };
        let guards = version_of(patch);
        is_current(&before, &guards)?;
        let mut after = (*before).clone();
        merge(&mut after, patch);
        let held = texts(&before["spec"]["podCIDRs"]);
        if kind == Kind::Node && !held.is_empty() && held != texts(&after["spec"]["podCIDRs"]) {
            return Err(WriteError::Refused(
                "node updates may not change podCIDR except from \"\" to valid".to_owned(),
            ));
        }
        if after == *before {
            return Ok(version_of(&before));
        }
        self.note(|| format!("{kind:?} {name} is patched: {}", brief(patch)));
        Ok(self.put(kind, name, after))
    }

    /// Deletes an object of this version; its empty parts may be anything.
    pub(super) fn delete(
        &mut self,
        kind: Kind,
        name: &str,
        version: &ObjectVersion,
    ) -> Result<ObjectVersion, WriteError> {
        let Some(object) = self.get(kind, name) else {
            return Err(WriteError::Superseded("not found".to_owned()));
        };
        is_current(&object, version)?;
        self.remove(kind, name);
        Ok(version_of(&object))
    }

    pub(super) fn put(&mut self, kind: Kind, name: &str, mut object: Value) -> ObjectVersion {
        self.remember();
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let version = version_of(&object);
        self.objects
            .insert((kind, name.to_owned()), Arc::new(object));
        version
    }

    pub(super) fn remove(&mut self, kind: Kind, name: &str) {
        if self.get(kind, name).is_none() {
            return;
        }
        self.remember();
        self.version += 1;
        self.note(|| format!("{kind:?} {name} is deleted"));
        self.objects.remove(&(kind, name.to_owned()));
    }

    fn remember(&mut self) {
        self.history.push_back((self.version, self.objects.clone()));
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    /// Blocks that an object of another node shows, or that another agent uses.
    pub(super) fn others_with(&self, name: &str, block: Block) -> Option<String> {
        let shown = self.objects.iter().filter_map(|((kind, other), object)| {
            let owner = match kind {
                Kind::Node | Kind::CiliumNode => other.as_str(),
                Kind::NodeConfig => other.strip_prefix("cilium-ipam-").unwrap_or(other),
                _ => return None,
            };
            let is_it = owner != name && shown(object).iter().any(|one| one.overlaps(block));
            is_it.then(|| format!("{kind:?} {other}"))
        });
        let used = self.machines.iter().filter_map(|(other, machine)| {
            let is_it = other != name && machine.in_use.iter().any(|one| one.overlaps(block));
            is_it.then(|| format!("the agent of {other}"))
        });
        shown.chain(used).next()
    }
}

/// The blocks that a Node, a CiliumNode or a CiliumNodeConfig shows.
pub(super) fn shown(object: &Value) -> Vec<Block> {
    let ranges = object["spec"]["defaults"].as_object();
    let ranges = ranges.into_iter().flatten();
    let ranges = ranges.filter(|(key, _)| key.ends_with("-range"));
    let ranges = ranges.filter_map(|(_, value)| Some(value.as_str()?.to_owned()));
    let mut listed = texts(&object["spec"]["podCIDRs"]);
    listed.extend(texts(&object["spec"]["ipam"]["podCIDRs"]));
    listed.extend(ranges);
    listed.iter().filter_map(|text| text.parse().ok()).collect()
}

pub(super) fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn version_of(object: &Value) -> ObjectVersion {
    let text = |key: &str| {
        let text = object["metadata"][key].as_str();
        text.unwrap_or_default().to_owned()
    };
    ObjectVersion {
        uid: text("uid"),
        resource_version: text("resourceVersion"),
    }
}

fn is_current(object: &Value, wanted: &ObjectVersion) -> Result<(), WriteError> {
    let seen = version_of(object);
    let is_equal = |wanted: &str, seen: &str| wanted.is_empty() || wanted == seen;
    match is_equal(&wanted.uid, &seen.uid)
        && is_equal(&wanted.resource_version, &seen.resource_version)
    {
        true => Ok(()),
        false => Err(WriteError::Superseded("it has changed".to_owned())),
    }
}

/// JSON merge patch, RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (key, value) in patch {
        match (value, target.as_object_mut()) {
            (Value::Null, Some(fields)) => drop(fields.remove(key)),
            (value, Some(fields)) => merge(fields.entry(key.clone()).or_insert(Value::Null), value),
            (_, None) => {}
        }
    }
}

fn brief(object: &Value) -> String {
    let text = object.to_string();
    text.chars().take(400).collect()
}
