//! Neutron behind a server, or in a file. It decides nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use ipam_core::neutron::{Id, VmPort};
use openstack::{
    HttpNeutron, NetworkFacts, NeutronError, PairsPatch, RecordedNeutron, Subnet, write_pairs,
};

/// Where Neutron's answers come from.
pub(super) enum Client {
    /// A server. Boxed: it holds connections and a session.
    Server(Box<HttpNeutron>),
    File(RecordedNeutron),
}

impl Client {
    /// The same client, which gives up at another moment.
    pub(super) fn until(&self, until: Instant) -> Client {
        match self {
            Client::Server(neutron) => Client::Server(Box::new(neutron.until(until))),
            Client::File(recorded) => Client::File(recorded.clone()),
        }
    }

    pub(super) fn log_in(&self) -> Result<(), NeutronError> {
        match self {
            Client::Server(neutron) => neutron.log_in(),
            Client::File(recorded) => recorded.check(),
        }
    }

    pub(super) fn subnet(&self, id: &Id) -> Result<Subnet, NeutronError> {
        match self {
            Client::Server(neutron) => neutron.subnet(id),
            Client::File(recorded) => recorded.subnet(id),
        }
    }

    pub(super) fn ports_of_vms(
        &self,
        vms: &[Id],
    ) -> Result<BTreeMap<Id, Vec<VmPort>>, NeutronError> {
        match self {
            Client::Server(neutron) => neutron.ports_of_vms(vms),
            Client::File(recorded) => recorded.ports_of_vms(vms),
        }
    }

    pub(super) fn write_pairs(&self, port: &Id, patch: &PairsPatch) -> Result<(), NeutronError> {
        match self {
            Client::Server(neutron) => write_pairs(&**neutron, port, patch),
            Client::File(recorded) => write_pairs(recorded, port, patch),
        }
    }
}
