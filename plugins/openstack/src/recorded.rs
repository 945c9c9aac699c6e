//! A Neutron in a file: ports and subnets in the JSON of Neutron's answers. Reads and writes pairs by
//! Neutron's rules, without a server. One process at a time.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::http::by_vm;
use crate::{NeutronError, Subnet, VmPorts};
use ipam_core::neutron::{Id, Pair, VmPort};

/// Default of Neutron's `max_allowed_address_pair`, which is also a field of the file.
const MOST_PAIRS: u64 = 10;

/// A Neutron in a file.
#[derive(Clone, Debug)]
pub struct RecordedNeutron {
    path: PathBuf,
}

impl RecordedNeutron {
    pub fn new(path: &Path) -> RecordedNeutron {
        RecordedNeutron {
            path: path.to_owned(),
        }
    }

    /// Checks that the file can be read.
    ///
    /// # Errors
    /// Fails if it does not exist, or is no JSON.
    pub fn check(&self) -> Result<(), NeutronError> {
        self.read().map(|_| ())
    }

    /// A subnet.
    ///
    /// # Errors
    /// Fails if the file has no such subnet, or cannot be read.
    pub fn subnet(&self, id: &Id) -> Result<Subnet, NeutronError> {
        let recording = self.read()?;
        let subnet = find(&recording, "subnets", id)
            .ok_or_else(|| NeutronError::NotFound(format!("subnet {id}")))?;
        self.typed(subnet)
    }

    /// The ports of some VMs, by VM.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn ports_of_vms(&self, vms: &[Id]) -> Result<BTreeMap<Id, Vec<VmPort>>, NeutronError> {
        Ok(by_vm(vms, self.ports()?))
    }

    fn ports(&self) -> Result<Vec<VmPort>, NeutronError> {
        let recording = self.read()?;
        let ports = recording["ports"].as_array().into_iter().flatten();
        ports.map(|port| self.typed(port)).collect()
    }

    fn typed<T: DeserializeOwned>(&self, object: &Value) -> Result<T, NeutronError> {
        serde_json::from_value(object.clone()).map_err(|why| self.fault(&why.to_string()))
    }

    fn read(&self) -> Result<Value, NeutronError> {
        let text = fs::read_to_string(&self.path).map_err(|why| self.fault(&why.to_string()))?;
        serde_json::from_str(&text).map_err(|why| self.fault(&why.to_string()))
    }

    fn write(&self, recording: &Value) -> io::Result<()> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = self.path.with_file_name(name);
        fs::write(&new, format!("{recording:#}\n"))?;
        fs::rename(&new, &self.path)
    }

    fn fault(&self, why: &str) -> NeutronError {
        NeutronError::Misconfigured(format!("{}: {why}", self.path.display()))
    }
}

impl VmPorts for RecordedNeutron {
    fn vm_port(&self, id: &Id) -> Result<VmPort, NeutronError> {
        let ports = self.ports()?.into_iter();
        let mut of_id = ports.filter(|port| port.id == *id);
        of_id.next().ok_or(NeutronError::NoSuchPort)
    }

    fn vm_ports_with_mac(&self, mac: &str) -> Result<Vec<VmPort>, NeutronError> {
        let mut ports = self.ports()?;
        ports.retain(|port| port.mac_address.eq_ignore_ascii_case(mac));
        Ok(ports)
    }

    fn replace_pairs(&self, id: &Id, pairs: &[Pair], revision: u64) -> Result<(), NeutronError> {
        let mut recording = self.read()?;
        let most = recording["max_allowed_address_pair"]
            .as_u64()
            .unwrap_or(MOST_PAIRS);
        if pairs.len() as u64 > most {
            return Err(NeutronError::TooManyPairs);
        }
        let ports = recording["ports"].as_array_mut().into_iter().flatten();
        let port = ports
            .into_iter()
            .find(|port| port["id"] == id.to_string())
            .ok_or(NeutronError::NoSuchPort)?;
        if port["revision_number"] != revision {
            return Err(NeutronError::Changed);
        }
        let own = port["mac_address"].as_str().unwrap_or_default();
        let pair = |pair: &Pair| {
            let mac = pair.mac_address.as_deref().unwrap_or(own);
            json!({"ip_address": pair.ip_address, "mac_address": mac})
        };
        port["allowed_address_pairs"] = pairs.iter().map(pair).collect();
        port["revision_number"] = (revision + 1).into();
        self.write(&recording)
            .map_err(|why| self.fault(&why.to_string()))
    }
}

fn find<'r>(recording: &'r Value, kind: &str, id: &Id) -> Option<&'r Value> {
    let objects = recording[kind].as_array()?;
    objects.iter().find(|object| object["id"] == id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const PORT: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";

    #[test]
    fn pairs_are_written_by_neutrons_rules_and_other_fields_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("neutron.json");
        let neutron = RecordedNeutron::new(&path);
        assert!(matches!(
            neutron.check(),
            Err(NeutronError::Misconfigured(_))
        ));
        let recording = json!({"max_allowed_address_pair": 2, "ports": [{
            "id": PORT, "device_id": PORT, "mac_address": "fa:16:3e:00:00:01", "revision_number": 3,
            "name": "vm-1", "allowed_address_pairs": [{"ip_address": "10.0.0.9", "mac_address": "x"}],
        }]});
        fs::write(&path, recording.to_string()).unwrap();
        let id: Id = PORT.parse().unwrap();
        let port = neutron.vm_port(&id).unwrap();
        let wanted: BTreeSet<_> = ["10.1.0.0/24".parse().unwrap()].into();
        let change = port.change(&wanted, |_| false).unwrap();
        let write = |pairs: &[Pair], revision| neutron.replace_pairs(&id, pairs, revision);
        assert_eq!(write(&change.pairs, 2), Err(NeutronError::Changed));
        let three = [&change.pairs[..], &change.pairs[..1]].concat();
        assert_eq!(write(&three, 3), Err(NeutronError::TooManyPairs));
        write(&change.pairs, 3).unwrap();
        let port = &neutron.read().unwrap()["ports"][0];
        assert_eq!(
            (&port["revision_number"], &port["name"]),
            (&json!(4), &json!("vm-1"))
        );
        let expected = json!([
            {"ip_address": "10.0.0.9", "mac_address": "x"},
            {"ip_address": "10.1.0.0/24", "mac_address": "fa:16:3e:00:00:01"},
        ]);
        assert_eq!(port["allowed_address_pairs"], expected);
        let other: Id = "882ec9ac-44f9-4318-8c67-a2fed2ccca4f".parse().unwrap();
        assert_eq!(neutron.vm_port(&other), Err(NeutronError::NoSuchPort));
        assert!(neutron.subnet(&other).is_err());
    }
}
