//! Neutron ports of the nodes' VMs.

use std::collections::BTreeMap;

use super::{Node, Observed};
use ipam_core::neutron::{Id, VmPort};

/// Ports by VM, or why they could not be read.
pub type SeenPorts = BTreeMap<Id, Result<Vec<VmPort>, String>>;

impl Node {
    /// The id of the node's VM, from `openstack:///ID` or `openstack://REGION/ID`
    /// (cloud-provider-openstack `instances.go` @ 1.35).
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
    /// The port with this id, and its node.
    pub fn port(&self, id: &Id) -> Option<(&Node, &VmPort)> {
        let ports = self.ports.as_ref()?;
        self.nodes.values().find_map(|node| {
            let seen = ports.get(&node.vm()?)?.as_ref().ok()?;
            Some((&**node, seen.iter().find(|port| port.id == *id)?))
        })
    }
}
