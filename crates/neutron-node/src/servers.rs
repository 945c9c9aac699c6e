//! Servers of OpenStack, as their ports at Neutron show them.

use ipam_core::neutron::Id;
use neutron_cni::cni::CniError;
use neutron_cni::state::NodeState;
use openstack::{Neutron, NeutronError, Port, PortFilter};

/// How the ports of servers begin their `device_owner` (Nova).
const OF_SERVER: &str = "compute:";

/// The ports whose `device_id` is this server.
pub(super) fn ports_of(neutron: &impl Neutron, server: &Id) -> Result<Vec<Port>, NeutronError> {
    neutron.ports(&PortFilter {
        device: Some(&server.to_string()),
        ..PortFilter::default()
    })
}

/// A port by which Nova gives this server a network. Databases compare text in their own way.
pub(super) fn port_of<'p>(ports: &'p [Port], server: &Id) -> Option<&'p Port> {
    let is_of = |port: &&Port| {
        port.device_owner.starts_with(OF_SERVER)
            && port.device_id.parse::<Id>().as_ref() == Ok(server)
    };
    ports.iter().find(is_of)
}

/// Records whether Neutron shows this machine as a server. The firmware's id of a machine that is no
/// server of these credentials must not look like a server that is gone.
pub(super) fn record_own(node_state: &NodeState, neutron: &impl Neutron) -> Result<(), CniError> {
    let Some(machine) = NodeState::machine() else {
        return Ok(());
    };
    let ports = ports_of(neutron, &machine)?;
    let shown = port_of(&ports, &machine).map(|_| &machine);
    node_state.record_server(shown)
}
