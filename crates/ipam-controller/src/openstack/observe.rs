//! Reads the subnets of pools and the ports of VMs for one plan.
//!
//! The result names each unread subnet and port with the reason; it never omits one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use tokio::task::spawn_blocking;

use super::client::Client;
use super::{ABANDONED, OpenStack, PATIENCE};
use ipam_cilium::observed::{Observed, SeenPorts, SeenSubnet, SeenSubnets};
use ipam_core::net::Block;
use ipam_core::neutron::{Id, VmPort};
use ipam_desired::Desired;
use openstack::{NeutronError, Subnet};

/// VMs per request for ports: their ids fill about two kilobytes of the URL.
pub(super) const VMS_PER_REQUEST: usize = 50;

impl OpenStack {
    /// Adds what the files need from OpenStack to what was seen of the cluster.
    pub async fn observe_into(&self, desired: &Desired, observed: &mut Observed) {
        observed.subnets = self.subnets(desired).await;
        match (self.reads_ports(desired), &self.background) {
            (true, _) => observed.ports = Some(self.ports(observed).await),
            (false, Some(background)) => background.forget(),
            (false, None) => {}
        }
        let background = self.background.as_ref().map(|ports| ports.session());
        for session in std::iter::once(&*self.session).chain(background) {
            observed.findings.extend(session.insecure_settings());
        }
    }

    /// The ports of the nodes that are VMs.
    async fn ports(&self, observed: &Observed) -> SeenPorts {
        let wanted: BTreeSet<Id> = observed
            .nodes
            .values()
            .filter_map(|node| node.vm())
            .collect();
        if let Some(background) = &self.background {
            return background.of(&wanted);
        }
        let (session, vms) = (self.session.clone(), wanted.clone());
        let seen =
            spawn_blocking(move || session.with(|neutron| Ok(read_ports(neutron, &vms)))).await;
        let why = match seen {
            Ok(Ok(seen)) => return seen,
            Ok(Err(fault)) => fault.why(),
            Err(_) => ABANDONED.to_owned(),
        };
        wanted
            .into_iter()
            .map(|id| (id, Err(why.clone())))
            .collect()
    }

    async fn subnets(&self, desired: &Desired) -> SeenSubnets {
        let wanted: BTreeSet<Id> = desired
            .neutron_pools
            .values()
            .map(|pool| pool.subnet.clone())
            .collect();
        if wanted.is_empty() {
            return SeenSubnets::new();
        }
        if let Some(recent) = self.recent_subnets.of(&wanted) {
            return recent;
        }
        let (session, ids) = (self.session.clone(), wanted.clone());
        let seen =
            spawn_blocking(move || session.with(|neutron| Ok(read_subnets(neutron, &ids)))).await;
        let why = match seen {
            Ok(Ok(seen)) => {
                self.recent_subnets.keep(&seen);
                return seen;
            }
            Ok(Err(fault)) => fault.why(),
            Err(_) => ABANDONED.to_owned(),
        };
        wanted
            .into_iter()
            .map(|id| (id, SeenSubnet::Unread(why.clone())))
            .collect()
    }
}

/// After the first failure the remaining requests are skipped.
fn read_ports(neutron: &Client, vms: &BTreeSet<Id>) -> SeenPorts {
    let mut seen = SeenPorts::new();
    let mut failure: Option<String> = None;
    let vms: Vec<Id> = vms.iter().cloned().collect();
    for some in vms.chunks(VMS_PER_REQUEST) {
        let answer = match &failure {
            Some(why) => Err(why.clone()),
            None => ports_of_vms(neutron, some),
        };
        match answer {
            Ok(ports) => seen.extend(ports.into_iter().map(|(vm, ports)| (vm, Ok(ports)))),
            Err(why) => {
                seen.extend(some.iter().map(|vm| (vm.clone(), Err(why.clone()))));
                failure = Some(why);
            }
        }
    }
    seen
}

/// The ports of at most [`VMS_PER_REQUEST`] VMs.
pub(super) fn ports_of_vms(
    neutron: &Client,
    vms: &[Id],
) -> Result<BTreeMap<Id, Vec<VmPort>>, String> {
    neutron
        .until(Instant::now() + PATIENCE)
        .ports_of_vms(vms)
        .map_err(|error| error.to_string())
}

/// After the first failure the remaining requests are skipped.
fn read_subnets(neutron: &Client, wanted: &BTreeSet<Id>) -> SeenSubnets {
    let mut failure: Option<String> = None;
    let mut seen = SeenSubnets::new();
    for id in wanted {
        let answer = match &failure {
            Some(why) => SeenSubnet::Unread(why.clone()),
            None => match neutron.subnet(id) {
                Ok(subnet) => seen_subnet(&subnet),
                Err(NeutronError::NotFound(_)) => SeenSubnet::Missing,
                Err(error) => {
                    let why = error.to_string();
                    failure = Some(why.clone());
                    SeenSubnet::Unread(why)
                }
            },
        };
        seen.insert(id.clone(), answer);
    }
    seen
}

fn seen_subnet(subnet: &Subnet) -> SeenSubnet {
    match subnet.range.to_string().parse::<Block>() {
        Ok(range) => SeenSubnet::There {
            network: subnet.network.clone(),
            range,
        },
        Err(why) => SeenSubnet::Unread(format!("its range cannot be used for Pods: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_with_an_unusable_range_is_unread() {
        let network: Id = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f".parse().unwrap();
        let subnet = |range: &str| Subnet {
            network: network.clone(),
            range: range.parse().unwrap(),
            gateway: None,
            routes: Vec::new(),
            nameservers: Vec::new(),
        };
        assert!(matches!(
            seen_subnet(&subnet("10.1.0.0/24")),
            SeenSubnet::There { .. }
        ));
        assert!(matches!(
            seen_subnet(&subnet("fd00:1::/64")),
            SeenSubnet::There { .. }
        ));
        assert!(matches!(
            seen_subnet(&subnet("0.0.0.0/0")),
            SeenSubnet::Unread(_)
        ));
    }
}
