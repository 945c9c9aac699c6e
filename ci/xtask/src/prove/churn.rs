//! Events in a cluster during an apply: heartbeats, labels, agents that publish their blocks, nodes
//! that are deleted and registered again. It knows nothing of appliers and gives out no block.

use std::convert::Infallible;
use std::ops::AddAssign;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use testbed::{ControlPlane, Error, Random};
use xtask::{fleet, node};

/// Pause between two steps: short enough to hit every batch of writes, and long enough to leave the
/// processor to the appliers.
const PAUSE: Duration = Duration::from_millis(2);
/// Steps of a cycle.
const STEPS: usize = 100;
/// Of these, heartbeats.
const HEARTBEATS: usize = 70;
/// Of these, labels.
const LABELS: usize = 10;
/// Of these, agents.
const AGENTS: usize = 8;
/// Of these, deletions of CiliumNodes. In the rest, nodes register again.
const DELETED_CILIUM_NODES: usize = 4;

/// The events of some nodes. Only this thread deletes them.
pub struct Churn<'c> {
    plane: &'c ControlPlane,
    nodes: Vec<usize>,
    random: Random,
    counts: Counts,
}

/// Its counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Writes that only changed a resourceVersion.
    pub touched: usize,
    /// Nodes that were deleted and created again.
    pub recreated: usize,
    /// CiliumNodes that were created or deleted.
    pub cilium_nodes: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        let Self {
            touched,
            recreated,
            cilium_nodes,
        } = other;
        self.touched += touched;
        self.recreated += recreated;
        self.cilium_nodes += cilium_nodes;
    }
}

/// Runs `work` while these nodes have events.
pub fn beside<T>(lives: Vec<Churn<'_>>, action: impl FnOnce() -> Result<T>) -> Result<(T, Counts)> {
    thread::scope(|scope| {
        let (stops, threads): (Vec<Sender<Infallible>>, Vec<_>) = lives
            .into_iter()
            .map(|churn| {
                let (keep_on, stop) = mpsc::channel();
                (keep_on, scope.spawn(move || churn.until(&stop)))
            })
            .unzip();
        let result = action();
        drop(stops);
        let mut counts = Counts::default();
        for thread in threads {
            counts += thread
                .join()
                .map_err(|_| anyhow!("a thread of the nodes' life panicked"))??;
        }
        Ok((result?, counts))
    })
}

impl<'c> Churn<'c> {
    /// Of these nodes, which must exist.
    pub fn new(plane: &'c ControlPlane, nodes: Vec<usize>, random: Random) -> Self {
        Self {
            plane,
            nodes,
            random,
            counts: Counts::default(),
        }
    }

    /// Runs until the other end of the channel is dropped.
    fn until(mut self, stop: &Receiver<Infallible>) -> Result<Counts> {
        while stop.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            self.step()?;
        }
        Ok(self.counts)
    }

    fn step(&mut self) -> Result<()> {
        let Some(&node) = self.nodes.get(self.random.below(self.nodes.len())) else {
            return Ok(());
        };
        let kind = self.random.below(STEPS);
        if kind < HEARTBEATS {
            fleet::heartbeat(self.plane, [node], self.random.number())?;
            self.counts.touched += 1;
        } else if kind < HEARTBEATS + LABELS {
            let label =
                json!({"metadata": {"labels": {"touched": self.random.number().to_string()}}});
            self.plane.patch(&node::path(node), &label)?;
            self.counts.touched += 1;
        } else if kind < HEARTBEATS + LABELS + AGENTS {
            self.counts.cilium_nodes += self.agent(node)?;
        } else if kind < HEARTBEATS + LABELS + AGENTS + DELETED_CILIUM_NODES {
            self.counts.cilium_nodes += self.delete_cilium_node(node)?;
        } else {
            fleet::recreate_nodes(self.plane, [node])?;
            self.counts.recreated += 1;
        }
        Ok(())
    }

    /// The agent writes the block that its Node shows. No one else deletes the Node, so the block
    /// is still the node's.
    fn agent(&self, index: usize) -> Result<usize> {
        let node = self.plane.get(&node::path(index))?;
        let blocks = &node["spec"]["podCIDRs"];
        if blocks.is_null() {
            return Ok(0);
        }
        let mut cilium_node = node::cilium_node(index);
        cilium_node["spec"]["ipam"]["podCIDRs"] = blocks.clone();
        count(self.plane.create(node::CILIUM_NODES, &cilium_node), 409)
    }

    /// As the garbage collector does after the Node's deletion, and as people do.
    fn delete_cilium_node(&self, index: usize) -> Result<usize> {
        count(self.plane.delete(&node::cilium_node_path(index)), 404)
    }
}

/// One, or none if the server says that there is nothing to do.
fn count(result: Result<Value, Error>, nothing: u16) -> Result<usize> {
    match result {
        Ok(_) => Ok(1),
        Err(error) if error.status() == Some(nothing) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
