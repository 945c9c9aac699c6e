//! The changes of a plan.

mod edit;
mod node;
mod target;

use super::lb::{AddressPoolChange, ServiceChange};
use super::pod_pools::PodPoolChange;
use super::ports::PortChange;
use ipam_core::model::Hazard;

#[cfg(test)]
pub(super) use node::tests;

pub use edit::{CiliumNodeObject, Edit, NodeConfigEdit, NodeConfigObject};
pub use node::{Action, NodeChange, Reason, UnapprovedBlock};
pub use target::Target;

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A pool of LoadBalancer addresses.
    AddressPool(Box<AddressPoolChange>),
    /// The addresses that a Service asks for.
    Service(ServiceChange),
    /// A pool of Pods, or the nodes that use it.
    PodPool(Box<PodPoolChange>),
    /// The pairs of a VM's port.
    Port(Box<PortChange>),
    /// The blocks of a node.
    Node(Box<NodeChange>),
}

/// The order of a change among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// It may be sent together with others.
    Any,
    /// It is sent only after those before it succeeded: its effects were computed after theirs.
    AfterThoseBefore,
}

impl Change {
    /// The object.
    pub fn target(&self) -> Target {
        match self {
            Change::AddressPool(change) => Target::AddressPool(change.name.clone()),
            Change::Service(change) => Target::Service(change.service.clone()),
            Change::PodPool(change) => change.object.target(),
            Change::Port(change) => Target::Port(change.port.clone()),
            Change::Node(change) => Target::Node(change.node.clone()),
        }
    }

    /// The change of a node, if it is one.
    pub fn as_node(&self) -> Option<&NodeChange> {
        match self {
            Change::Node(change) => Some(change),
            Change::AddressPool(_) | Change::Service(_) | Change::PodPool(_) | Change::Port(_) => {
                None
            }
        }
    }

    /// The change of a port, if it is one.
    pub fn as_port(&self) -> Option<&PortChange> {
        match self {
            Change::Port(change) => Some(change),
            Change::AddressPool(_) | Change::Service(_) | Change::PodPool(_) | Change::Node(_) => {
                None
            }
        }
    }

    /// What it means for workloads.
    pub fn hazard(&self) -> Hazard {
        match self {
            Change::AddressPool(change) => change.hazard,
            Change::Service(change) => change.hazard,
            Change::PodPool(change) => change.hazard,
            Change::Port(change) => change.hazard(),
            Change::Node(change) => change.hazard,
        }
    }

    /// Its order among other changes.
    pub fn sequence(&self) -> Sequence {
        match self {
            Change::AddressPool(_) | Change::Service(_) | Change::PodPool(_) => {
                Sequence::AfterThoseBefore
            }
            Change::Port(_) | Change::Node(_) => Sequence::Any,
        }
    }

    /// Whether it gives a block to a node on which no Pod depends on it yet.
    pub fn gives_to_a_new_node(&self) -> bool {
        let is_new =
            |node: &NodeChange| node.action == Action::Assign && node.hazard == Hazard::None;
        self.as_node().is_some_and(is_new) && self.needs_approval().is_empty()
    }

    /// Blocks that a person must approve before they are written.
    pub fn needs_approval(&self) -> &[UnapprovedBlock] {
        self.as_node().map_or(&[], |change| &change.needs_approval)
    }

    /// Whether it can be undone.
    pub fn can_be_undone(&self) -> bool {
        match self {
            Change::AddressPool(_) | Change::Service(_) | Change::Port(_) => true,
            Change::PodPool(change) => change.lost_fields.is_empty(),
            Change::Node(change) => change.undo.is_some(),
        }
    }
}

/// The changes of nodes among these.
pub fn node_changes<'c>(
    changes: impl IntoIterator<Item = &'c Change>,
) -> impl Iterator<Item = &'c NodeChange> {
    changes.into_iter().filter_map(Change::as_node)
}
