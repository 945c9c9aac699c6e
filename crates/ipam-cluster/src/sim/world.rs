//! The objects, their history, and what was done wrong.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::rules::{patched, version_of};
use super::super::{Operation, Target, Write, WriteError, Written};
use super::client::{Pace, SimClient};
use super::machines::Machine;
use super::server::{Server, Told};
use ipam_cilium::observed::{ANNOTATION_KEYS, CLAIMS_NAME, Head, ObservedKind};
use ipam_core::model::NodeName;
use ipam_core::net::Block;

/// How often what goes wrong, each in so many of a thousand requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The write is committed and the answer lost.
    pub lost_answer: u32,
    /// The write is lost before it is committed.
    pub lost_request: u32,
    /// The client gives up, and the write lands at some later time.
    pub late_landing: u32,
    /// A conflict for no reason.
    pub conflict: u32,
    /// A list from a cache that lags behind, with the resourceVersion of that time.
    pub stale_list: u32,
    /// A list that cannot be had.
    pub failed_list: u32,
    /// A collection of what has no owner any more that does not come yet.
    pub late_collection: u32,
    /// Notices that come seconds after what they tell of.
    pub late_notice: u32,
    /// A stream that cannot begin, because the server has forgotten that moment.
    pub forgotten_moment: u32,
    /// A notice that never comes. No server does this.
    pub lost_notice: u32,
    /// A bookmark that comes before what happened until then. No server does this.
    pub early_bookmark: u32,
}

/// How many earlier states a lagging cache may show.
const HISTORY: usize = 16;

/// A cluster in memory.
#[derive(Clone, Debug)]
pub struct SimWorld(Arc<Mutex<World>>);

pub(super) type Objects = BTreeMap<(ObservedKind, String), Value>;

pub(super) type Writers = BTreeMap<(String, Block), (Writer, u64)>;

#[derive(Debug)]
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) now: Timestamp,
    pub(super) faults: Faults,
    pub(super) version: u64,
    pub(super) objects: Objects,
    /// Earlier states with their resourceVersions, oldest first.
    pub(super) history: VecDeque<(u64, Objects)>,
    /// Writes that were given up and land later.
    pub(super) late: Vec<(Sender, Write)>,
    /// Who wrote each block that a node shows, and at which resourceVersion.
    pub(super) writers: Writers,
    /// What runs, whether the cluster shows it or not, by the node's name.
    pub(super) machines: BTreeMap<String, Machine>,
    pub(super) server: Server,
    pub(super) violations: Vec<String>,
    /// Objects that were made so far. No two have the same UID, even where the store went back in
    /// time in between.
    made: u64,
    clients: u32,
    log: Option<Vec<String>>,
}

/// What a client had seen and was asked for when it sent a write.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// resourceVersion of its last list of Nodes.
    pub(super) listed_at: u64,
    /// The pins of its files.
    pub(super) pins: Arc<BTreeMap<NodeName, Vec<Block>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Ours,
    Other,
}

impl SimWorld {
    /// A world with these objects, given as an API server would list them, UIDs and
    /// resourceVersions aside.
    pub fn new(seed: u64, faults: Faults, objects: Vec<Value>) -> SimWorld {
        let mut world = World {
            rng: Rng::with_seed(seed),
            now: Timestamp::UNIX_EPOCH,
            faults,
            version: 0,
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            late: Vec::new(),
            writers: BTreeMap::new(),
            machines: BTreeMap::new(),
            server: Server::default(),
            violations: Vec::new(),
            made: 0,
            clients: 0,
            log: None,
        };
        for object in objects {
            world.create(object);
        }
        SimWorld(Arc::new(Mutex::new(world)))
    }

    /// Somebody who works with it. `pins` are those of their files: a write that breaks one is a
    /// violation.
    pub fn client(&self, pins: Arc<BTreeMap<NodeName, Vec<Block>>>, pace: Pace) -> SimClient {
        let name = {
            let mut world = self.lock();
            world.clients += 1;
            world.clients
        };
        SimClient::new(name, self.clone(), pins, pace)
    }

    /// What was done that must never be.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// Keeps a log from now on.
    pub fn keep_log(&self) {
        self.lock().log = Some(Vec::new());
    }

    /// What was logged: a line for each thing that happened, with the resourceVersion of the time.
    pub fn log(&self) -> Vec<String> {
        self.lock().log.clone().unwrap_or_default()
    }

    /// Nothing goes wrong any more, and writes that were under way land now or never.
    pub fn calm_down(&self) {
        let mut world = self.lock();
        world.faults = Faults::default();
        for (sender, write) in std::mem::take(&mut world.late) {
            let _ = world.write(&sender, &write);
        }
    }

    /// From now on this goes wrong.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Lets time pass.
    pub fn advance(&self, duration: SignedDuration) {
        let mut world = self.lock();
        world.now = world.now.saturating_add(duration).unwrap_or(Timestamp::MAX);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    /// Whether something that happens so often happens now.
    pub(super) fn happens(&mut self, per_mille: u32) -> Happens {
        if per_mille > 0 && self.rng.u32(..1_000) < per_mille {
            Happens::Now
        } else {
            Happens::Not
        }
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:>4}  {}", self.version, line()));
        }
    }

    pub(super) fn create(&mut self, object: Value) {
        self.create_by(object, Writer::Other);
    }

    fn create_by(&mut self, mut object: Value, writer: Writer) {
        let Some(key) = key_of(&object) else { return };
        self.made += 1;
        object["metadata"]["uid"] = json!(format!("uid-{}", self.made));
        self.put(key, object, writer);
    }

    /// Puts an object at the next resourceVersion.
    pub(super) fn put(&mut self, key: (ObservedKind, String), mut object: Value, writer: Writer) {
        self.remember();
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if shows_blocks(key.0) {
            let before: Vec<Block> = self.objects.get(&key).map(blocks).unwrap_or_default();
            for block in blocks(&object)
                .into_iter()
                .filter(|block| !before.contains(block))
            {
                self.writers
                    .insert((key.1.clone(), block), (writer, self.version));
                self.machine_reads(&key.1, block);
            }
        }
        self.note(|| {
            format!(
                "{} {} written by {writer:?}, shows {:?}",
                key.0.resource(),
                key.1,
                texts(&object)
            )
        });
        self.tell(&key, object.clone(), Told::There);
        self.objects.insert(key, object);
    }

    pub(super) fn remove(&mut self, key: &(ObservedKind, String)) {
        self.remember();
        self.version += 1;
        self.note(|| format!("{} {} is deleted", key.0.resource(), key.1));
        if let Some(mut object) = self.objects.remove(key) {
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.tell(key, object, Told::Gone);
        }
        self.writers
            .retain(|(name, _), _| !shows_blocks(key.0) || *name != key.1);
    }

    fn remember(&mut self) {
        self.history.push_back((self.version, self.objects.clone()));
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    /// A write of one of ours reaches the server.
    pub(super) fn write(&mut self, sender: &Sender, write: &Write) -> Result<Written, WriteError> {
        let (kind, name) = match &write.target {
            Target::Node(name) => (ObservedKind::Node, name.to_string()),
            Target::CiliumNode(name) => (ObservedKind::CiliumNode, name.to_string()),
            Target::Claims => (ObservedKind::Claims, CLAIMS_NAME.to_owned()),
            Target::Lease(_)
            | Target::Custom(..)
            | Target::Status(..)
            | Target::Event
            | Target::AddressPool(..)
            | Target::Service(_)
            | Target::NodeConfig(..)
            | Target::Port(_)
            | Target::PodPool(_) => {
                return Err(WriteError::Forbidden(
                    "there is none of these here".to_owned(),
                ));
            }
        };
        let key = (kind, name);
        self.note(|| {
            format!(
                "{} {} reaches the server: {:?}",
                key.0.resource(),
                key.1,
                write.operation
            )
        });
        match (&write.operation, self.objects.get(&key).cloned()) {
            (Operation::Create(_), Some(_)) => {
                Err(WriteError::Superseded("already exists".to_owned()))
            }
            (Operation::Create(object), None)
                if kind == ObservedKind::CiliumNode && !self.is_owned(object) =>
            {
                // Whose owner is gone is collected.
                self.note(|| format!("{} {} is collected at once", key.0.resource(), key.1));
                Ok(Written {
                    version: version_of(object),
                })
            }
            (Operation::Create(object), None) => {
                if kind == ObservedKind::CiliumNode {
                    blocks(object)
                        .into_iter()
                        .for_each(|block| self.judge_block(sender, &key.1, block));
                }
                self.create_by(object.clone(), Writer::Ours);
                let created = self.objects.get(&key).map(version_of);
                created.map_or_else(
                    || Err(WriteError::Refused("no such kind".to_owned())),
                    |version| Ok(Written { version }),
                )
            }
            (Operation::Apply(_) | Operation::Delete(_), _) => Err(WriteError::Refused(
                "neither is done to nodes or claims".to_owned(),
            )),
            (Operation::Patch(_), None) => Err(WriteError::Superseded("not found".to_owned())),
            (Operation::Patch(patch), Some(before)) => {
                let after = patched(&before, patch)?;
                if shows_blocks(kind) {
                    self.judge(sender, &key.1, patch, &before, &after);
                }
                // As with the real one, a patch that changes nothing does not move the version.
                if after != before {
                    self.put(key.clone(), after, Writer::Ours);
                }
                Ok(Written {
                    version: version_of(&self.objects[&key]),
                })
            }
        }
    }

    /// Whether the owner of a CiliumNode is there.
    pub(super) fn is_owned(&self, object: &Value) -> bool {
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let owner = &object["metadata"]["ownerReferences"][0]["uid"];
        let node = self.objects.get(&(ObservedKind::Node, name));
        node.is_some_and(|node| node["metadata"]["uid"] == *owner)
    }

    /// Whether agents read their CiliumNode, and nobody but us gives them blocks.
    pub(super) fn is_cluster_pool(&self) -> bool {
        let config = self
            .objects
            .get(&(ObservedKind::CiliumConfig, "cilium-config".to_owned()));
        config.is_some_and(|config| config["data"]["ipam"] == "cluster-pool")
    }
}

/// Whether something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happens {
    Now,
    Not,
}

fn key_of(object: &Value) -> Option<(ObservedKind, String)> {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let label = |name: &str| {
        object
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get(name)?.as_str())
    };
    let kind = ObservedKind::of(&Head {
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        name: text("/metadata/name"),
        namespace: text("/metadata/namespace"),
        app: label("k8s-app"),
        component: label("component"),
        cilium_app: label("io.cilium/app"),
    });
    let kind = kind.ok().flatten()?;
    Some((kind, text("/metadata/name").to_owned()))
}

/// Every block that an object shows.
pub(super) fn blocks(object: &Value) -> Vec<Block> {
    let annotations = ANNOTATION_KEYS
        .iter()
        .filter_map(|key| object["metadata"]["annotations"].get(key));
    let lists = [
        object.pointer("/spec/podCIDRs"),
        object.pointer("/spec/ipam/podCIDRs"),
    ];
    let listed = lists
        .into_iter()
        .flatten()
        .filter_map(Value::as_array)
        .flatten();
    let mut blocks: Vec<Block> = annotations
        .chain(listed)
        .filter_map(|text| Block::lenient(text.as_str()?).ok())
        .collect();
    blocks.sort();
    blocks.dedup();
    blocks
}

fn texts(object: &Value) -> Vec<String> {
    blocks(object).iter().map(ToString::to_string).collect()
}

/// Whether blocks of nodes are in it.
fn shows_blocks(kind: ObservedKind) -> bool {
    matches!(kind, ObservedKind::Node | ObservedKind::CiliumNode)
}
