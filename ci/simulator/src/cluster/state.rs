//! The objects of a simulated cluster, their history, and the violations of its clients.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::client::{Clock, SimClient};
use super::machines::Machine;
use super::server::{ObjectState, Server};
use ipam_cilium::observed::{ANNOTATION_KEYS, Head, ObservedKind};
use ipam_cluster::Write;
use ipam_core::model::NodeName;
use ipam_core::net::Block;

/// Frequency of each fault, per thousand chances.
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
    /// A list that fails.
    pub failed_list: u32,
    /// A garbage collection that does not come yet.
    pub late_collection: u32,
    /// An event that comes seconds late.
    pub late_notice: u32,
    /// A bookmark that does not come yet, although nothing else is left to report.
    pub late_bookmark: u32,
    /// A stream that cannot begin because the server has forgotten that moment.
    pub forgotten_moment: u32,
    /// How often a stream gets a bookmark.
    pub bookmarks: Bookmarks,
    /// An event that never comes. No server does this.
    pub lost_notice: u32,
    /// A bookmark that comes before earlier events. No server does this.
    pub early_bookmark: u32,
}

/// How often a stream gets a bookmark while it has nothing else to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bookmarks {
    /// Soon after a change of any other kind.
    #[default]
    Often,
    /// Once, shortly before the server closes it, as kube-apiserver does.
    Rare,
}

/// Number of earlier states that a lagging cache may show.
const HISTORY: usize = 16;

/// A cluster in memory.
#[derive(Clone, Debug)]
pub struct SimCluster(Arc<Mutex<SimState>>);

/// Kind and name.
pub(super) type ObjectKey = (ObservedKind, String);

pub(super) type Objects = BTreeMap<ObjectKey, Value>;

pub(super) type Writers = BTreeMap<(String, Block), (Writer, u64)>;

#[derive(Debug)]
pub(super) struct SimState {
    pub(super) rng: Rng,
    pub(super) now: Timestamp,
    pub(super) faults: Faults,
    pub(super) version: u64,
    pub(super) objects: Objects,
    /// Earlier states with their resourceVersions, oldest first.
    pub(super) history: VecDeque<(u64, Objects)>,
    /// Writes that their clients gave up and that land later.
    pub(super) late: Vec<(Sender, Write)>,
    /// Who wrote each block that a node shows, and at which resourceVersion.
    pub(super) writers: Writers,
    /// The machines by name, whether the cluster shows them or not.
    pub(super) machines: BTreeMap<String, Machine>,
    pub(super) server: Server,
    pub(super) violations: Vec<String>,
    /// Number of objects ever created. No two have the same UID, even after a restore.
    made: u64,
    clients: u32,
    log: Option<Vec<String>>,
}

/// What a client knew when it sent a write.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// resourceVersion of its last list of Nodes.
    pub(super) listed_at: u64,
    /// The pins of its files.
    pub(super) pins: Arc<BTreeMap<NodeName, Vec<Block>>>,
    pub(super) taking: Taking,
}

/// Whether a client may take blocks away from nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// It undoes what an apply wrote.
    Allowed,
    Forbidden,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Ours,
    Other,
}

impl SimCluster {
    /// A cluster with these objects, as an API server lists them, without UIDs and
    /// resourceVersions.
    pub fn new(seed: u64, faults: Faults, objects: Vec<Value>) -> SimCluster {
        let mut state = SimState {
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
            state.create(object);
        }
        SimCluster(Arc::new(Mutex::new(state)))
    }

    /// A new client. A write that breaks one of its `pins` is a violation.
    pub fn client(&self, pins: Arc<BTreeMap<NodeName, Vec<Block>>>, clock: Clock) -> SimClient {
        let number = {
            let mut state = self.lock();
            state.clients += 1;
            state.clients
        };
        SimClient::new(number, self.clone(), pins, clock)
    }

    /// Descriptions of the broken rules.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// Starts the log.
    pub fn keep_log(&self) {
        self.lock().log = Some(Vec::new());
    }

    /// One line for each step, with the resourceVersion at that time.
    pub fn log(&self) -> Vec<String> {
        self.lock().log.clone().unwrap_or_default()
    }

    /// Ends all faults. Writes that are still on their way land now.
    pub fn disable_faults(&self) {
        let mut state = self.lock();
        state.faults = Faults::default();
        for (sender, write) in std::mem::take(&mut state.late) {
            let _ = state.write(&sender, &write);
        }
    }

    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Moves the clock forward.
    pub fn advance(&self, duration: SignedDuration) {
        let mut state = self.lock();
        state.now = state.now.saturating_add(duration).unwrap_or(Timestamp::MAX);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SimState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimState {
    /// Whether a fault of this frequency happens now.
    pub(super) fn chance(&mut self, per_mille: u32) -> Chance {
        if per_mille > 0 && self.rng.u32(..1_000) < per_mille {
            Chance::Hit
        } else {
            Chance::Miss
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

    pub(super) fn create_by(&mut self, mut object: Value, writer: Writer) {
        let Some(key) = key_of(&object) else { return };
        self.made += 1;
        object["metadata"]["uid"] = json!(format!("uid-{}", self.made));
        self.put(key, object, writer);
    }

    /// Stores an object at the next resourceVersion.
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
                self.agent_reads(&key.1, block);
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
        self.publish(&key, object.clone(), ObjectState::Present);
        self.objects.insert(key, object);
    }

    pub(super) fn remove(&mut self, key: &(ObservedKind, String)) {
        self.remember();
        self.version += 1;
        self.note(|| format!("{} {} is deleted", key.0.resource(), key.1));
        if let Some(mut object) = self.objects.remove(key) {
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.publish(key, object, ObjectState::Deleted);
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

    /// Whether agents read their CiliumNode, and only we give them blocks.
    pub(super) fn is_cluster_pool(&self) -> bool {
        let config = self
            .objects
            .get(&(ObservedKind::CiliumConfig, "cilium-config".to_owned()));
        config.is_some_and(|config| config["data"]["ipam"] == "cluster-pool")
    }
}

/// The outcome of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chance {
    Hit,
    Miss,
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
        cilium_app: label("io.cilium/app"),
    });
    let kind = kind.ok().flatten()?;
    Some((kind, text("/metadata/name").to_owned()))
}

/// The blocks that an object shows, sorted.
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

/// Whether objects of a kind show the blocks of nodes.
pub(super) fn shows_blocks(kind: ObservedKind) -> bool {
    matches!(kind, ObservedKind::Node | ObservedKind::CiliumNode)
}
