//! Simulates Cilium's agents on Nodes of kwok or of hollow kubelets. Only behaviour that affects a
//! migration is simulated; [`agent_nodes`](crate::agent_nodes) runs the real agent:
//! - An agent reads its block once, when its Pod starts, and uses it until its Pod ends.
//!   [`settings`] decides where it reads the block.
//! - An agent is ready only with a block.
//! - An agent does not create its CiliumNode again while it runs.
//! - Pods get addresses of the block that their node's agent uses. Without an agent they wait.
//! - Pods whose addresses are outside the block of a starting agent lose their network.
//!
//! A Pod that loses its network is a [`Fault`], as are two agents or two Pods with the same
//! addresses. IPv4 only.

mod block;
mod node;
mod record;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::Client;
use crate::error::Result;
use crate::hollow::HollowKubelets;
use crate::oracle::AnnotateK8sNode;
use crate::wait::wait_until;

pub use block::Block;
pub(crate) use node::lacks_address;
use node::{NodeState, text};
use record::Record;
pub use record::{BlockUse, Fault};

/// Agents on hollow kubelets are ready once this condition of their Pod is true.
pub(crate) const AGENT_GATE: &str = "testbed/agent-has-a-block";
const PODS: &str = "/api/v1/pods";
/// Time in which the agents of a new cluster get their blocks; they take seconds.
const AGENTS_START: Duration = Duration::from_secs(120);
/// Interval at which agents that wait for a block look again.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const WORKERS: usize = 8;

/// Where agents get their blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlayedIpam {
    /// From the Node.
    Kubernetes(AnnotateK8sNode),
    /// From the CiliumNode, where an operator puts it.
    ClusterPool,
}

/// What runs the Pods.
#[derive(Debug, Clone)]
pub(crate) enum Kubelet {
    Kwok,
    /// The folder of the nodes.
    Hollow(PathBuf),
}

/// The agents of all nodes. Dropping it ends them; what they wrote stays.
#[derive(Debug)]
pub struct AgentPlayers {
    player: Arc<Player>,
    thread: Option<JoinHandle<()>>,
}

/// What every node's play has at hand.
#[derive(Debug)]
pub(crate) struct Player {
    pub(crate) client: Client,
    pub(crate) ipam: PlayedIpam,
    pub(crate) kubelet: Kubelet,
    record: Mutex<Record>,
    start: Instant,
    ends: AtomicBool,
}

impl Player {
    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }
}

impl AgentPlayers {
    /// Plays on Nodes of [`Kubelets::start_fleet`](crate::Kubelets::start_fleet).
    #[must_use]
    pub fn on_kwok(client: &Client, ipam: PlayedIpam) -> Self {
        Self::start(client, ipam, Kubelet::Kwok)
    }

    /// Plays on Nodes of hollow kubelets.
    #[must_use]
    pub fn on_hollow(client: &Client, ipam: PlayedIpam, kubelets: &HollowKubelets) -> Self {
        Self::start(client, ipam, Kubelet::Hollow(kubelets.folder().to_owned()))
    }

    fn start(client: &Client, ipam: PlayedIpam, kubelet: Kubelet) -> Self {
        let player = Arc::new(Player {
            client: client.clone(),
            ipam,
            kubelet,
            record: Mutex::default(),
            start: Instant::now(),
            ends: AtomicBool::new(false),
        });
        let (sender, receiver) = channel();
        let watching = player.clone();
        // It ends with its watch, at the latest when the API server does.
        thread::spawn(move || follow_pods(&watching, &sender));
        let playing = player.clone();
        let thread = thread::spawn(move || play(&playing, &receiver));
        Self {
            player,
            thread: Some(thread),
        }
    }

    /// Which block each agent used since when, in the order of their starts.
    #[must_use]
    pub fn uses(&self) -> Vec<BlockUse> {
        self.player.record().uses.clone()
    }

    /// What no moment of a migration may show, in the order in which it happened. Empty is good.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        self.player.record().faults.clone()
    }

    /// The block that each running agent uses, by node.
    #[must_use]
    pub fn blocks(&self) -> BTreeMap<String, Block> {
        let record = self.player.record();
        let running = record.uses.iter().filter(|one| one.until.is_none());
        running.map(|one| (one.node.clone(), one.block)).collect()
    }

    /// Waits until agents of this many nodes use a block.
    ///
    /// # Errors
    /// Fails when they do not in time.
    pub fn wait_for(&self, nodes: usize) -> Result<BTreeMap<String, Block>> {
        wait_until("agents with a block", AGENTS_START, || {
            let blocks = self.blocks();
            Ok((blocks.len() == nodes).then_some(blocks))
        })
    }
}

impl Drop for AgentPlayers {
    fn drop(&mut self) {
        self.player.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What was seen of Pods.
enum Sight {
    All(Vec<Value>),
    There(Value),
    Gone(Value),
}

fn follow_pods(player: &Player, sender: &Sender<Sight>) {
    while !player.ends() {
        if let Err(error) = follow_once(player, sender) {
            if player.ends() {
                return;
            }
            eprintln!("testbed: the agents' watch of Pods starts again: {error}");
            thread::sleep(LOOK_EVERY);
        }
    }
}

fn follow_once(player: &Player, sender: &Sender<Sight>) -> Result<()> {
    let mut list = player.client.get(PODS)?;
    let from = text(&list, "/metadata/resourceVersion").to_owned();
    let items = match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    let _ = sender.send(Sight::All(items));
    player.client.watch(PODS, &from, |mut event| {
        let object = event["object"].take();
        let sight = match text(&event, "/type") {
            "ADDED" | "MODIFIED" => Sight::There(object),
            "DELETED" => Sight::Gone(object),
            _ => return ControlFlow::Break(()),
        };
        match sender.send(sight) {
            Ok(()) if !player.ends() => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    })
}

fn play(player: &Player, receiver: &Receiver<Sight>) {
    let mut nodes: BTreeMap<String, NodeState> = BTreeMap::new();
    let mut again = BTreeSet::new();
    while !player.ends() {
        let mut due = std::mem::take(&mut again);
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(sight) => take(sight, &mut nodes, &mut due),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Ok(sight) = receiver.try_recv() {
            take(sight, &mut nodes, &mut due);
        }
        again = step_all(player, &mut nodes, &due);
    }
}

fn take(sight: Sight, nodes: &mut BTreeMap<String, NodeState>, due: &mut BTreeSet<String>) {
    let node_of = |pod: &Value| text(pod, "/spec/nodeName").to_owned();
    let uid_of = |pod: &Value| text(pod, "/metadata/uid").to_owned();
    let mut there = |pod: Value, nodes: &mut BTreeMap<String, NodeState>| {
        let node = node_of(&pod);
        if !node.is_empty() {
            nodes
                .entry(node.clone())
                .or_default()
                .pods
                .insert(uid_of(&pod), pod);
            due.insert(node);
        }
    };
    match sight {
        Sight::There(pod) => there(pod, nodes),
        Sight::Gone(pod) => {
            let node = node_of(&pod);
            if let Some(state) = nodes.get_mut(&node) {
                state.pods.remove(&uid_of(&pod));
                due.insert(node);
            }
        }
        Sight::All(pods) => {
            for state in nodes.values_mut() {
                state.pods.clear();
            }
            for pod in pods {
                there(pod, nodes);
            }
            due.extend(nodes.keys().cloned());
        }
    }
}

/// Plays the nodes that something changed on; gives those that must be looked at again.
fn step_all(
    player: &Player,
    nodes: &mut BTreeMap<String, NodeState>,
    due: &BTreeSet<String>,
) -> BTreeSet<String> {
    let again = Mutex::new(BTreeSet::new());
    let work = Mutex::new(nodes.iter_mut().filter(|(name, _)| due.contains(*name)));
    let worker = || {
        loop {
            let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((name, state)) = next else { return };
            let stepped = state.step(name, player);
            // Before the end, all that fails is tried again, as agents and kubelets do.
            if let Err(error) = &stepped
                && !player.ends()
            {
                eprintln!("testbed: the agent of {name}: {error}");
            }
            if stepped.is_err() || state.waits() {
                let mut again = again.lock().unwrap_or_else(PoisonError::into_inner);
                again.insert(name.clone());
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..WORKERS.min(due.len()) {
            scope.spawn(worker);
        }
    });
    again.into_inner().unwrap_or_else(PoisonError::into_inner)
}
