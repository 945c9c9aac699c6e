//! Which addresses the ports of VMs allow besides their own: the pod CIDRs of the node on that VM.
//!
//! Knows nothing of Neutron's API: it works on ports that were observed.

mod allowed;
mod document;
mod planner;
mod saved;
mod undo;

use std::collections::BTreeSet;

use ipnet::IpNet;

use ipam_cilium::observed::Node;
use ipam_core::model::{Hazard, NodeName};
use ipam_core::neutron::{Id, Pair, PairsChange, VmPort};

pub(crate) use allowed::in_use as blocks_in_use;
pub(super) use planner::{PortsPlan, plan, unplanned};
pub(super) use saved::{is_gone, shows, unseen};
pub(super) use undo::{inverted, undone};

/// A change of the `allowed_address_pairs` of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortChange {
    /// The port.
    pub port: Id,
    /// The node on the VM of the port.
    pub node: NodeName,
    /// Ranges that the port comes to allow.
    pub added: BTreeSet<IpNet>,
    /// Ranges that the port no longer allows.
    pub removed: BTreeSet<IpNet>,
    /// The whole list afterwards, with foreign pairs.
    pub pairs: Vec<Pair>,
    /// The revision of the port that was seen.
    pub revision: u64,
    /// Why the pairs change.
    pub cause: PortCause,
}

/// Why pairs change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortCause {
    /// The node holds other pod CIDRs than the port allows.
    Drift,
    /// The plan undoes an earlier apply.
    Undo,
}

impl PortChange {
    pub(super) fn new(
        node: &Node,
        port: &VmPort,
        change: PairsChange,
        cause: PortCause,
    ) -> PortChange {
        let PairsChange {
            pairs,
            added,
            removed,
        } = change;
        let (port, revision) = (port.id.clone(), port.revision);
        PortChange {
            port,
            node: node.name.clone(),
            added,
            removed,
            pairs,
            revision,
            cause,
        }
    }

    /// The additions alone, where the change also removes ranges.
    pub(super) fn additions(&self) -> Option<PortChange> {
        if self.added.is_empty() || self.removed.is_empty() || self.cause == PortCause::Undo {
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
