//! A Neutron that answers at once. A request of a program that dies is done at once, later, or not.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use ipam_core::neutron::{Id, Pair, PortAddress, PortSecurity, VmPort};
use jiff::Timestamp;
use openstack::{
    Network, NetworkFacts, Neutron, NeutronError, NewPort, NextAttempt, Port, PortFilter, Retries,
    Subnet, VmPorts,
};

use super::machine::{SimulatedMachine, Step};

pub(super) const NETWORK: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";

/// A client on one machine.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) machine: Rc<SimulatedMachine>,
    pub(super) ports: Rc<RefCell<Ports>>,
}

/// The ports of the network. The lowest free address is given first.
#[derive(Default)]
pub(super) struct Ports {
    pub(super) all: Vec<Port>,
    /// Creations that Neutron executes later. They have no address yet.
    late: Vec<Port>,
    made: u32,
    /// Ports whose DELETE Neutron refuses, and whether a DELETE was refused already.
    undeletable: BTreeMap<Id, Struck>,
    /// Number of ports whose DELETE was refused.
    refused: u32,
    /// What the VM's port allows.
    pub(super) allowed: Vec<Pair>,
    revision: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Struck {
    NotYet,
    Once,
}

impl Ports {
    fn create(&mut self, new: &NewPort<'_>) -> Result<Port, NeutronError> {
        let requested = self.requested(new);
        self.execute(requested)
    }

    /// The port without its address.
    fn requested(&mut self, new: &NewPort<'_>) -> Port {
        self.made += 1;
        Port {
            id: format!("00000000-0000-4000-8000-{:012x}", self.made)
                .parse()
                .unwrap(),
            network_id: new.network.clone(),
            project_id: String::new(),
            device_id: new.device.to_owned(),
            device_owner: new.owner.to_owned(),
            name: new.name.to_owned(),
            description: new.description.to_owned(),
            mac_address: new.mac.clone().unwrap_or_default(),
            fixed_ips: Vec::new(),
            created_at: String::new(),
        }
    }

    fn execute(&mut self, mut port: Port) -> Result<Port, NeutronError> {
        let is_used = |one: &Port| one.mac_address == port.mac_address;
        if !port.mac_address.is_empty() && self.all.iter().any(is_used) {
            return Err(NeutronError::MacInUse);
        }
        let taken: BTreeSet<IpAddr> = self.all.iter().flat_map(addresses).collect();
        let address = (1..=250)
            .map(|host| IpAddr::from([10, 0, 0, host]))
            .find(|address| !taken.contains(address));
        port.fixed_ips = vec![PortAddress {
            subnet_id: port.network_id.clone(),
            ip_address: address.ok_or(NeutronError::Exhausted)?,
        }];
        port.created_at = Timestamp::now().to_string();
        self.all.push(port.clone());
        Ok(port)
    }

    /// Executes the creations that were requested and not executed.
    pub(super) fn execute_late(&mut self) {
        for port in std::mem::take(&mut self.late) {
            let _ = self.execute(port);
        }
    }

    fn delete(&mut self, id: &Id) -> Result<(), NeutronError> {
        if let Some(struck) = self.undeletable.get_mut(id) {
            self.refused += u32::from(*struck == Struck::NotYet);
            *struck = Struck::Once;
            return Err(NeutronError::Other("the port is in use".to_owned()));
        }
        self.all.retain(|port| port.id != *id);
        Ok(())
    }

    /// Refuses to delete a port until [`Ports::allow_deletion`].
    pub(super) fn refuse_deletion(&mut self, id: &Id) {
        self.undeletable.insert(id.clone(), Struck::NotYet);
    }

    pub(super) fn allow_deletion(&mut self) {
        self.undeletable.clear();
    }

    /// Number of ports whose DELETE was refused.
    pub(super) fn refused(&self) -> u32 {
        self.refused
    }

    /// Lets time pass.
    pub(super) fn age(&mut self, by: Duration) {
        for port in &mut self.all {
            let created: Timestamp = port.created_at.parse().unwrap();
            port.created_at = (created - by).to_string();
        }
    }
}

pub(super) fn addresses(port: &Port) -> impl Iterator<Item = IpAddr> {
    port.fixed_ips.iter().map(|fixed| fixed.ip_address)
}

impl Client {
    /// One request.
    fn ask<T>(
        &self,
        request: impl FnOnce(&mut Ports) -> Result<T, NeutronError>,
    ) -> Result<T, NeutronError> {
        let lost = || Err(NeutronError::Unavailable("no answer".to_owned()));
        match self.machine.step() {
            // Neutron needs no space on this disk.
            Step::Go | Step::Refused => request(&mut self.ports.borrow_mut()),
            Step::Dies if self.machine.happens_in_death() => {
                let _ = request(&mut self.ports.borrow_mut());
                lost()
            }
            Step::Dies | Step::Dead => lost(),
        }
    }
}

impl Retries for Client {
    fn next_attempt(&self, _: u32) -> NextAttempt {
        NextAttempt::Never
    }
}

impl Neutron for Client {
    fn create_port(&self, port: &NewPort<'_>) -> Result<Port, NeutronError> {
        let is_late = self.machine.happens_in_death();
        self.ask(|ports| {
            if is_late && self.machine.is_dead() {
                let requested = ports.requested(port);
                ports.late.push(requested);
                return Err(NeutronError::Unavailable("no answer".to_owned()));
            }
            ports.create(port)
        })
    }

    fn ports(&self, filter: &PortFilter<'_>) -> Result<Vec<Port>, NeutronError> {
        let is = |wanted: Option<&str>, has: &str| wanted.is_none_or(|wanted| wanted == has);
        self.ask(|ports| {
            let mut found = ports.all.clone();
            found.retain(|port| {
                is(filter.name, &port.name)
                    && is(filter.device, &port.device_id)
                    && is(filter.owner, &port.device_owner)
                    && is(filter.mac, &port.mac_address)
            });
            Ok(found)
        })
    }

    fn delete_port(&self, id: &Id) -> Result<(), NeutronError> {
        self.ask(|ports| ports.delete(id))
    }
}

impl NetworkFacts for Client {
    fn subnet(&self, id: &Id) -> Result<Subnet, NeutronError> {
        Ok(Subnet {
            network: id.clone(),
            range: "10.0.0.0/24".parse().unwrap(),
            gateway: None,
            routes: Vec::new(),
            nameservers: Vec::new(),
        })
    }

    fn network(&self, _: &Id) -> Result<Network, NeutronError> {
        Ok(Network { mtu: None })
    }
}

impl VmPorts for Client {
    fn vm_port(&self, id: &Id) -> Result<VmPort, NeutronError> {
        self.ask(|ports| {
            Ok(VmPort {
                id: id.clone(),
                device_id: String::new(),
                device_owner: "compute:nova".to_owned(),
                mac_address: "fa:16:3e:00:00:01".to_owned(),
                fixed_ips: Vec::new(),
                pairs: ports.allowed.clone(),
                revision: ports.revision,
                security: PortSecurity::On,
            })
        })
    }

    fn vm_ports_with_mac(&self, _: &str) -> Result<Vec<VmPort>, NeutronError> {
        Ok(Vec::new())
    }

    fn replace_pairs(&self, _: &Id, pairs: &[Pair], revision: u64) -> Result<(), NeutronError> {
        self.ask(|ports| {
            if ports.revision != revision {
                return Err(NeutronError::Changed);
            }
            ports.revision += 1;
            ports.allowed = pairs.to_owned();
            Ok(())
        })
    }
}
