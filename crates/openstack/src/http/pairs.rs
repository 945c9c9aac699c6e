//! The pairs of a port at Neutron, and how ports of VMs are found.

use std::collections::BTreeMap;

use serde_json::json;

use crate::http::HttpNeutron;
use crate::http::ask::Question;
use crate::{GuardedPorts, NeutronError};
use ipam_core::neutron::{GuardedPort, Id, Pair};

/// What is read of a port.
const FIELDS: [&str; 8] = [
    "id",
    "device_id",
    "device_owner",
    "mac_address",
    "fixed_ips",
    "allowed_address_pairs",
    "revision_number",
    "port_security_enabled",
];

impl GuardedPorts for HttpNeutron {
    fn guarded_port(&self, id: &Id) -> Result<GuardedPort, NeutronError> {
        let query = FIELDS.map(|field| ("fields", field.to_owned()));
        self.object(
            self.ask(&format!("/v2.0/ports/{id}"), &Question::Get(&query))?,
            "port",
        )
    }

    fn replace_pairs(&self, id: &Id, pairs: &[Pair], revision: u64) -> Result<(), NeutronError> {
        let body = json!({"port": {"allowed_address_pairs": pairs}});
        self.ask(&format!("/v2.0/ports/{id}"), &Question::Put(body, revision))
            .map(|_| ())
    }
}

impl HttpNeutron {
    /// The ports with this hardware address, one for each network at most; letter by letter, which
    /// databases do not compare.
    pub fn guarded_ports_with_mac(&self, mac: &str) -> Result<Vec<GuardedPort>, NeutronError> {
        let mut ports = self.guarded_ports(vec![("mac_address", mac.to_owned())])?;
        ports.retain(|port| port.mac_address.eq_ignore_ascii_case(mac));
        Ok(ports)
    }

    /// The ports of some VMs, by VM; letter by letter, too. So many at a time that the question
    /// stays short.
    ///
    /// # Errors
    /// Neutron's no.
    pub fn ports_of_vms(&self, vms: &[Id]) -> Result<BTreeMap<Id, Vec<GuardedPort>>, NeutronError> {
        let mut of_vms: BTreeMap<Id, Vec<GuardedPort>> =
            vms.iter().map(|vm| (vm.clone(), Vec::new())).collect();
        let wanted: Vec<_> = vms.iter().map(|vm| ("device_id", vm.to_string())).collect();
        for port in self.guarded_ports(wanted)? {
            let vm = port
                .device_id
                .parse()
                .ok()
                .filter(|vm: &Id| vm.to_string() == port.device_id);
            if let Some(ports) = vm.and_then(|vm| of_vms.get_mut(&vm)) {
                ports.push(port);
            }
        }
        Ok(of_vms)
    }

    fn guarded_ports(
        &self,
        mut query: Vec<(&str, String)>,
    ) -> Result<Vec<GuardedPort>, NeutronError> {
        query.extend(FIELDS.map(|field| ("fields", field.to_owned())));
        self.pages(query, |port: &GuardedPort| &port.id)
    }
}
