//! Neutron ports of the nodes' VMs.
//!
//! Observed subnets of OpenStack Neutron.

use std::collections::BTreeMap;

use super::{Node, Observed};
use ipam_core::net::Block;
use ipam_core::neutron::{Id, VmPort};

/// Ports by the id of their VM, or why they could not be read.
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
    /// The port with this id, and the node on the port's VM.
    pub fn port(&self, id: &Id) -> Option<(&Node, &VmPort)> {
        let ports = self.ports.as_ref()?;
        self.nodes.values().find_map(|node| {
            let seen = ports.get(&node.vm()?)?.as_ref().ok()?;
            Some((&**node, seen.iter().find(|port| port.id == *id)?))
        })
    }

    /// Number of nodes whose VM's ports were not read yet, or could not be read. None of them if the
    /// files ask for no ports.
    pub fn nodes_with_unread_ports(&self) -> usize {
        let Some(seen) = &self.ports else { return 0 };
        let vms = self.nodes.values().filter_map(|node| node.vm());
        vms.filter(|vm| !matches!(seen.get(vm), Some(Ok(_))))
            .count()
    }
}

/// Results of reading subnets, by id.
pub type SeenSubnets = BTreeMap<Id, SeenSubnet>;

/// Result of reading a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenSubnet {
    There {
        network: Id,
        /// CIDR of the subnet. Neutron never changes it (`allow_put` of `cidr`, neutron-lib
        /// `api/definitions/subnet.py` @ 5.0.1).
        range: Block,
    },
    /// Neutron has no subnet of this id, or hides it from these credentials.
    Missing,
    /// Reading the subnet failed, with the reason.
    Unread(String),
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::read_node::read_node;
    use super::super::view::NodeView;
    use super::*;

    fn node(number: u32) -> Arc<Node> {
        let text = format!(
            r#"{{"metadata": {{"name": "n{number}"}}, "spec": {{"providerID": "openstack:///{}"}}}}"#,
            id(number)
        );
        let view: NodeView<'_> = serde_json::from_str(&text).unwrap();
        Arc::new(read_node(&view).0.unwrap())
    }

    fn id(number: u32) -> Id {
        let text = format!("00000000-0000-4000-8000-{number:012}");
        text.parse().unwrap()
    }

    #[test]
    fn nodes_whose_ports_are_unknown_are_counted() {
        let nodes = (1..=4).map(node);
        let mut observed = Observed {
            nodes: nodes.map(|node| (node.name.clone(), node)).collect(),
            ..Observed::default()
        };
        assert_eq!(
            observed.nodes_with_unread_ports(),
            0,
            "no ports are asked for"
        );
        let failed = Err("it does not answer".to_owned());
        observed.ports = Some([(id(1), Ok(Vec::new())), (id(2), failed)].into());
        assert_eq!(observed.nodes_with_unread_ports(), 3);
    }
}
