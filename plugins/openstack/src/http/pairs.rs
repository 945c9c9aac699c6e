//! Requests about pairs, and lists of VMs' ports.

use std::collections::BTreeMap;

use serde_json::json;

use crate::NeutronError;
use crate::http::HttpNeutron;
use crate::http::ask::Question;
use crate::keep_pairs::VmPorts;
use ipam_core::neutron::{Id, Pair, VmPort};

/// The fields of a port that are read.
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

impl VmPorts for HttpNeutron {
    fn vm_port(&self, id: &Id) -> Result<VmPort, NeutronError> {
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

    fn vm_ports_with_mac(&self, mac: &str) -> Result<Vec<VmPort>, NeutronError> {
        let mut ports = self.list_vm_ports(vec![("mac_address", mac.to_owned())])?;
        ports.retain(|port| port.mac_address.eq_ignore_ascii_case(mac));
        Ok(ports)
    }
}

impl HttpNeutron {
    /// The ports of some VMs, by VM. The caller limits their number, so that the request stays short.
    ///
    /// # Errors
    /// Fails if Neutron refuses or does not answer.
    pub fn ports_of_vms(&self, vms: &[Id]) -> Result<BTreeMap<Id, Vec<VmPort>>, NeutronError> {
        let wanted: Vec<_> = vms.iter().map(|vm| ("device_id", vm.to_string())).collect();
        Ok(by_vm(vms, self.list_vm_ports(wanted)?))
    }

    fn list_vm_ports(&self, mut query: Vec<(&str, String)>) -> Result<Vec<VmPort>, NeutronError> {
        query.extend(FIELDS.map(|field| ("fields", field.to_owned())));
        self.pages(query, |port: &VmPort| &port.id)
    }
}

/// The ports of each VM, by the id of the VM.
pub(crate) fn by_vm(vms: &[Id], ports: Vec<VmPort>) -> BTreeMap<Id, Vec<VmPort>> {
    let mut of_vms: BTreeMap<Id, Vec<VmPort>> =
        vms.iter().map(|vm| (vm.clone(), Vec::new())).collect();
    for port in ports {
        let vm = port
            .device_id
            .parse()
            .ok()
            .filter(|vm: &Id| vm.to_string() == port.device_id);
        if let Some(ports) = vm.and_then(|vm| of_vms.get_mut(&vm)) {
            ports.push(port);
        }
    }
    of_vms
}
