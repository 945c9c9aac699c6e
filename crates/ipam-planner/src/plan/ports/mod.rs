//! Which addresses the ports of VMs allow besides their own: the pod CIDRs of the node on that VM.
//!
//! Knows nothing of Neutron's API: it works on ports that were observed.

mod allowed;
mod document;
mod planner;
mod saved;
mod unplanned;

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::change::{Change, node_changes};
use ipam_cilium::observed::{Node, Observed};
use ipam_core::model::{Hazard, NodeName};
use ipam_core::neutron::{Id, Pair, PairsChange, VmPort};

pub(crate) use allowed::in_use as blocks_in_use;
pub(super) use planner::{PortsPlan, plan, unplanned};
pub(super) use saved::{is_gone, shows, unseen};

/// A change of the `allowed_address_pairs` of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortChange {
    /// The port.
    pub port: Id,
    /// The node on the VM of the port.
    pub node: NodeName,
    /// Ranges that the port comes to allow.
    pub added: BTreeSet<IpNet>,
    /// Those of the added ranges that the node holds only after another change of the plan.
    pub awaited: BTreeSet<IpNet>,
    /// Ranges that the port no longer allows.
    pub removed: BTreeSet<IpNet>,
    /// The whole list afterwards, with foreign pairs.
    pub pairs: Vec<Pair>,
    /// The revision of the port that was seen.
    pub revision: u64,
}

impl PortChange {
    pub(super) fn new(
        observed: &Observed,
        node: &Node,
        port: &VmPort,
        change: PairsChange,
    ) -> PortChange {
        let PairsChange {
            pairs,
            added,
            removed,
        } = change;
        let (port, revision) = (port.id.clone(), port.revision);
        let held = blocks_in_use(observed, node);
        let held: BTreeSet<IpNet> = held.into_iter().map(IpNet::from).collect();
        PortChange {
            port,
            node: node.name.clone(),
            awaited: added.difference(&held).copied().collect(),
            added,
            removed,
            pairs,
            revision,
        }
    }

    /// The change without the ranges that the node does not hold yet; `None` if nothing is left.
    pub fn without_awaited(&self) -> Option<PortChange> {
        let added: BTreeSet<IpNet> = self.added.difference(&self.awaited).copied().collect();
        if added.is_empty() && self.removed.is_empty() {
            return None;
        }
        // Added pairs are at the end.
        let foreign = self.pairs.len().saturating_sub(self.added.len());
        let of_others = self.pairs.iter().take(foreign).cloned();
        Some(PortChange {
            pairs: of_others
                .chain(added.iter().copied().map(Pair::of))
                .collect(),
            added,
            awaited: BTreeSet::new(),
            ..self.clone()
        })
    }

    /// The additions alone; `None` if there are none.
    pub(super) fn additions(&self) -> Option<PortChange> {
        if self.added.is_empty() {
            return None;
        }
        let kept = self.removed.iter().copied().map(Pair::of);
        Some(PortChange {
            removed: BTreeSet::new(),
            pairs: kept.chain(self.pairs.iter().cloned()).collect(),
            ..self.clone()
        })
    }

    /// A removed range may cut off Pods.
    pub fn hazard(&self) -> Hazard {
        if self.removed.is_empty() {
            Hazard::None
        } else {
            Hazard::Disruptive
        }
    }
}

/// The changes to send of these. A port comes to allow a block only with or after the change that
/// gives it to the node: without that change, the port's own is sent without the block.
pub fn without_awaited_pairs(changes: Vec<Change>) -> Vec<Change> {
    let nodes: BTreeSet<NodeName> = node_changes(&changes)
        .map(|change| change.node.clone())
        .collect();
    let must_wait = |port: &PortChange| !port.awaited.is_empty() && !nodes.contains(&port.node);
    let part = |change: Change| match change.as_port().filter(|port| must_wait(port)) {
        Some(port) => Some(Change::Port(Box::new(port.without_awaited()?))),
        None => Some(change),
    };
    changes.into_iter().filter_map(part).collect()
}
