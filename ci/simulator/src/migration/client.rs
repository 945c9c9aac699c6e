//! One client of the simulated cluster. Others may act before each of its requests, and after it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::sabotage::{Broken, BrokenRule};
use super::world::{Kind, Objects, State, World, shown};
use crate::cluster::Yield;
use ipam_cilium::observed::{CLAIMS_NAME, MIGRATION_NAME, ObjectVersion, ObservedKind};
use ipam_cluster::{
    Cluster, ClusterError, LeaseName, ListVisitor, LockSeen, MIGRATION_LABEL, Moment, Operation,
    PodsOf, Seen, Target, Workloads, Write, WriteError, Written,
};

/// Who sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    Migrator(u64),
    Applier(u64),
}

/// A client.
pub(super) struct Client {
    pub(super) world: World,
    pub(super) sender: Sender,
    broken: Arc<Mutex<Broken>>,
}

impl Client {
    pub(super) fn new(world: &World, sender: Sender, rule: BrokenRule) -> Client {
        let rule = match sender {
            Sender::Migrator(_) => rule,
            Sender::Applier(_) => BrokenRule::None,
        };
        Client {
            world: world.clone(),
            sender,
            broken: Arc::new(Mutex::new(Broken::new(rule))),
        }
    }

    async fn others(&self) {
        let times = self.world.lock().rng.u32(1..3);
        Yield(times).await;
    }

    fn answer(&self, write: &Write) -> Result<Written, WriteError> {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.world.lock();
        let now = broken.before(write);
        let mut answer = Ok(Written {
            version: broken.version(),
        });
        for write in now {
            answer = state.written_by(self.sender, &write);
            let sender = self.sender;
            state.note(|| format!("{sender:?} {:?}: {answer:?}", write.target));
        }
        answer
    }
}

/// Waits for the simulated clock.
struct Until<'w> {
    world: &'w World,
    at: Timestamp,
}

impl Future for Until<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.world.lock().now >= self.at {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

pub(super) async fn sleep(world: &World, duration: Duration) {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    let at = world.lock().now.saturating_add(duration);
    let at = at.unwrap_or(Timestamp::MAX);
    Until { world, at }.await;
}

fn of_kind(objects: &Objects, kind: ObservedKind) -> Vec<Arc<Value>> {
    let kind = match kind {
        ObservedKind::Claims => Kind::Claims,
        ObservedKind::Migration => {
            let record = objects.get(&(Kind::Record, MIGRATION_NAME.to_owned()));
            return record.into_iter().cloned().collect();
        }
        ObservedKind::CiliumDaemonSet => Kind::DaemonSet,
        ObservedKind::CiliumConfig => Kind::Settings,
        ObservedKind::CiliumOperator => Kind::Operator,
        ObservedKind::ControllerPod => Kind::ControllerManager,
        ObservedKind::Node => Kind::Node,
        ObservedKind::CiliumNode => Kind::CiliumNode,
        ObservedKind::CiliumNodeConfig => Kind::NodeConfig,
        _ => return Vec::new(),
    };
    let of_kind = objects.iter().filter(|((of, _), _)| *of == kind);
    of_kind.map(|(_, object)| object.clone()).collect()
}

impl Cluster for Client {
    async fn list(
        &self,
        kind: ObservedKind,
        _namespace: &str,
        moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        self.others().await;
        let (version, objects) = {
            let state = self.world.lock();
            match moment {
                Moment::Of(version) if *version != state.version.to_string() => {
                    let mut history = state.history.iter();
                    let found = history.find(|(at, _)| at.to_string() == *version);
                    let (at, objects) = found.ok_or(ClusterError::Expired {
                        resource: kind.resource(),
                    })?;
                    (*at, of_kind(objects, kind))
                }
                _ => (state.version, of_kind(&state.objects, kind)),
            }
        };
        visitor.begun(&version.to_string())?;
        for object in objects {
            visitor.object(&object.to_string())?;
        }
        Ok(Seen::All)
    }

    fn cilium_namespace(&self) -> Option<&str> {
        None
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        self.others().await;
        let answer = self.answer(write);
        self.others().await;
        answer
    }

    async fn lock(&self, _: LeaseName) -> Result<LockSeen, ClusterError> {
        Ok(LockSeen::NotKept)
    }

    fn now(&self) -> Timestamp {
        self.world.lock().now
    }
}

impl Workloads for Client {
    async fn object(&self, target: &Target) -> Result<Option<Value>, ClusterError> {
        self.others().await;
        let state = self.world.lock();
        let object = key_of(target).and_then(|(kind, name)| state.get(kind, &name));
        Ok(object.map(|object| (*object).clone()))
    }

    async fn pods(&self, of: &PodsOf) -> Result<Vec<Value>, ClusterError> {
        self.others().await;
        let state = self.world.lock();
        let pods = state.all(Kind::Pod).into_iter();
        let is_meant = |pod: &Value| match of {
            PodsOf::All => true,
            PodsOf::Node(node) => pod["spec"]["nodeName"] == node.as_str(),
        };
        let pods = pods.filter(|(_, pod)| is_meant(pod));
        let pods = pods.map(|(_, pod)| (*pod).clone()).collect();
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(broken.pods(pods))
    }

    /// Budgets are kept by the rules of evictions, not as objects.
    async fn budgets(&self) -> Result<Vec<Value>, ClusterError> {
        Ok(Vec::new())
    }

    async fn migration_records(&self) -> Result<Vec<Value>, ClusterError> {
        self.others().await;
        let state = self.world.lock();
        let records = state.all(Kind::Record).into_iter();
        let records =
            records.filter(|(_, one)| !one["metadata"]["labels"][MIGRATION_LABEL].is_null());
        Ok(records.map(|(_, object)| (*object).clone()).collect())
    }
}

/// Where the object of a target is stored.
fn key_of(target: &Target) -> Option<(Kind, String)> {
    Some(match target {
        Target::Node(name) => (Kind::Node, name.to_string()),
        Target::CiliumNode(name) => (Kind::CiliumNode, name.to_string()),
        Target::NodeConfig(_, _, name) => (Kind::NodeConfig, name.clone()),
        Target::Claims => (Kind::Claims, CLAIMS_NAME.to_owned()),
        Target::MigrationRecord(name) => (Kind::Record, name.clone()),
        Target::Pod(namespace, name) | Target::Eviction(namespace, name) => {
            (Kind::Pod, format!("{namespace}/{name}"))
        }
        _ => return None,
    })
}

impl State {
    /// Applies a write of a client, and notes what it means.
    fn written_by(&mut self, sender: Sender, write: &Write) -> Result<Written, WriteError> {
        let Some((kind, name)) = key_of(&write.target) else {
            let why = "the simulated cluster has no such objects".to_owned();
            return Err(WriteError::Forbidden(why));
        };
        let before = self.get(kind, &name);
        let version = match (&write.target, &write.operation) {
            (Target::Eviction(..), Operation::Create(eviction)) => self
                .evict(&name, eviction)
                .map(|()| ObjectVersion::default()),
            (Target::Pod(..), Operation::Delete(version)) => {
                (self.delete_pod(&name, &version.uid)).map(|()| ObjectVersion::default())
            }
            (_, Operation::Create(object)) => self.create(kind, &name, object.clone()),
            (_, Operation::Patch(patch) | Operation::Apply(patch)) => {
                self.patch(kind, &name, patch)
            }
            (_, Operation::Delete(version)) => self.delete(kind, &name, version),
        }?;
        if let Sender::Migrator(_) = sender {
            self.migrator_wrote(write, &name, before.as_deref());
        }
        if kind == Kind::Record
            && let Some(object) = self.get(kind, &name)
        {
            self.recorded(&object);
        }
        Ok(Written { version })
    }

    fn migrator_wrote(&mut self, write: &Write, name: &str, before: Option<&Value>) {
        let held = before.map(shown).unwrap_or_default();
        match (&write.target, &write.operation) {
            (Target::Node(_), Operation::Delete(_)) => {
                self.node_deleted(name, before.unwrap_or(&Value::Null));
            }
            (Target::Node(_), Operation::Create(_)) => {
                self.is_recorded(name, "create", "the Node was created")
            }
            (Target::CiliumNode(_), Operation::Delete(_)) => {
                self.is_recorded(name, "remove", "the CiliumNode was deleted");
            }
            (Target::Pod(..), Operation::Delete(_)) => self.pod_deleted(before),
            (Target::Eviction(..), _) => {
                let node = before.and_then(|pod| pod["spec"]["nodeName"].as_str());
                self.is_recorded(node.unwrap_or_default(), "drain", "a Pod was evicted");
            }
            (
                Target::Node(_) | Target::CiliumNode(_),
                Operation::Patch(body) | Operation::Create(body),
            )
            | (Target::NodeConfig(..), Operation::Patch(body) | Operation::Create(body)) => {
                let node = name.strip_prefix("cilium-ipam-").unwrap_or(name).to_owned();
                let mut written = shown(body);
                written.retain(|block| !held.contains(block));
                self.block_written(&node, &written);
            }
            _ => {}
        }
    }

    fn pod_deleted(&mut self, before: Option<&Value>) {
        let Some(pod) = before else { return };
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if pod["metadata"]["labels"]["app"] == "web" && pod["status"]["phase"] != "Succeeded" {
            self.violated(format!("a Pod of {node} was deleted past its budget"));
        }
        let was_ending = !pod["metadata"]["deletionTimestamp"].is_null();
        if pod["metadata"]["labels"]["k8s-app"] == "cilium" && !was_ending {
            self.agent_deleted(node);
        }
    }
}
