//! The pairs of a port at Neutron, and how ports of VMs are found.

use serde_json::json;

use super::HttpNeutron;
use super::ask::Question;
use super::objects::object;
use crate::neutron::{GuardedPort, GuardedPorts, Id, NeutronError, Pair};

/// What is read of a port.
const FIELDS: [&str; 8] = [
    "id",
    "network_id",
    "device_id",
    "device_owner",
    "mac_address",
    "allowed_address_pairs",
    "revision_number",
    "port_security_enabled",
];

impl GuardedPorts for HttpNeutron {
    fn guarded_port(&self, id: &Id) -> Result<GuardedPort, NeutronError> {
        let query = FIELDS.map(|field| ("fields", field.to_owned()));
        object(self.ask(&format!("/v2.0/ports/{id}"), &Question::Get(&query))?, "port")
    }

    fn replace_pairs(&self, id: &Id, pairs: &[Pair], revision: u64) -> Result<(), NeutronError> {
        let body = json!({"port": {"allowed_address_pairs": pairs}});
        self.ask(&format!("/v2.0/ports/{id}"), &Question::Put(body, revision)).map(|_| ())
    }
}

impl HttpNeutron {
    /// The ports with this hardware address, one for each network at most; letter by letter, which databases do not compare.
    pub(in crate::plugin) fn guarded_ports_with_mac(&self, mac: &str) -> Result<Vec<GuardedPort>, NeutronError> {
        let mut ports = self.guarded_ports(("mac_address", mac))?;
        ports.retain(|port| port.mac_address.eq_ignore_ascii_case(mac));
        Ok(ports)
    }

    /// The ports of a VM; letter by letter, too.
    ///
    /// # Errors
    /// Neutron's no.
    pub fn ports_of_vm(&self, vm: &Id) -> Result<Vec<GuardedPort>, NeutronError> {
        let vm = vm.to_string();
        let mut ports = self.guarded_ports(("device_id", &vm))?;
        ports.retain(|port| port.device_id == vm);
        Ok(ports)
    }

    fn guarded_ports(&self, (key, value): (&str, &str)) -> Result<Vec<GuardedPort>, NeutronError> {
        let mut query = vec![(key, value.to_owned())];
        query.extend(FIELDS.map(|field| ("fields", field.to_owned())));
        object(self.ask("/v2.0/ports", &Question::Get(&query))?, "ports")
    }
}
