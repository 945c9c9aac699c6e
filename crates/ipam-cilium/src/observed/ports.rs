//! Ports of the VMs that nodes are, at OpenStack Neutron.

use std::collections::BTreeMap;

use super::{Node, Observed};
use ipam_core::neutron::{GuardedPort, Id};

/// Ports by the VM that has them, or why they could not be read.
pub type SeenPorts = BTreeMap<Id, Result<Vec<GuardedPort>, String>>;

impl Node {
    /// The VM that it is: `openstack:///ID`, or `openstack://REGION/ID` (cloud-provider-openstack
    /// `instances.go` @ 1.35).
    pub fn vm(&self) -> Option<Id> {
        self.provider_id
            .as_deref()?
            .strip_prefix("openstack://")?
            .rsplit('/')
            .next()?
            .parse()
            .ok()
    }
}

impl Observed {
    /// A port of a VM, with the node that the VM is.
    pub fn port(&self, id: &Id) -> Option<(&Node, &GuardedPort)> {
        let ports = self.ports.as_ref()?;
        self.nodes.values().find_map(|node| {
            let seen = ports.get(&node.vm()?)?.as_ref().ok()?;
            Some((&**node, seen.iter().find(|port| port.id == *id)?))
        })
    }
}
