//! Reads the subnets of pools and the ports of VMs for one plan, from a server or a file, and
//! writes the allowed address pairs of ports. The result names each unread subnet and port with
//! the reason; it never omits one. Subnets are remembered, so that a process that plans several
//! times a second does not ask Neutron each time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

use super::{ABANDONED, OpenStack, PATIENCE};
use crate::apply::PortWriter;
use ipam_cilium::observed::{Observed, SeenPorts, SeenSubnet, SeenSubnets};
use ipam_cluster::WriteError;
use ipam_core::net::Block;
use ipam_core::neutron::{Id, VmPort};
use ipam_desired::Desired;
use ipam_plan::plan::PortChange;
use openstack::{
    HttpNeutron, NetworkFacts, NeutronError, PairsPatch, RecordedNeutron, Subnet, write_pairs,
};

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
        match self.ask(&wanted, read_ports).await {
            Ok(seen) => seen,
            Err(why) => wanted
                .into_iter()
                .map(|id| (id, Err(why.clone())))
                .collect(),
        }
    }

    /// Asks Neutron on another thread.
    async fn ask<T: Send + 'static>(
        &self,
        wanted: &BTreeSet<Id>,
        read: fn(&Client, &BTreeSet<Id>) -> T,
    ) -> Result<T, String> {
        let (session, ids) = (self.session.clone(), wanted.clone());
        match spawn_blocking(move || session.with(|neutron| Ok(read(neutron, &ids)))).await {
            Ok(Ok(seen)) => Ok(seen),
            Ok(Err(fault)) => Err(fault.why()),
            Err(_) => Err(ABANDONED.to_owned()),
        }
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
        if let Some(known) = self.subnet_cache.of(&wanted) {
            return known;
        }
        match self.ask(&wanted, read_subnets).await {
            Ok(seen) => {
                self.subnet_cache.keep(&seen);
                seen
            }
            Err(why) => wanted
                .into_iter()
                .map(|id| (id, SeenSubnet::Unread(why.clone())))
                .collect(),
        }
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

/// Where Neutron's answers come from.
pub(super) enum Client {
    /// A server of Neutron. Boxed: it holds connections and a session.
    Server(Box<HttpNeutron>),
    File(RecordedNeutron),
}

impl Client {
    /// Returns the same client, which gives up at this moment.
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

impl PortWriter for OpenStack {
    async fn write_pairs(&self, change: &PortChange) -> Result<(), WriteError> {
        let session = self.session.clone();
        let port = change.port.clone();
        let patch = PairsPatch {
            pairs: change.pairs.clone(),
            revision: change.revision,
        };
        let outcome =
            spawn_blocking(move || session.with(|neutron| Ok(neutron.write_pairs(&port, &patch))));
        let outcome = outcome.await;
        if let Some(background) = &self.background {
            background.read_again(&change.port);
        }
        match outcome {
            Ok(Ok(answer)) => answer.map_err(write_error),
            Ok(Err(fault)) => Err(WriteError::Refused(fault.why())),
            Err(_) => Err(WriteError::Unknown(ABANDONED.to_owned())),
        }
    }
}

fn write_error(error: NeutronError) -> WriteError {
    match error {
        NeutronError::Changed | NeutronError::NoSuchPort => {
            WriteError::Superseded(error.to_string())
        }
        NeutronError::Unavailable(_) => WriteError::Unknown(error.to_string()),
        NeutronError::Unreachable(_) => WriteError::Busy(error.to_string()),
        NeutronError::TooManyPairs => WriteError::Refused(format!(
            "{error}; raise `max_allowed_address_pair` of Neutron (default 10), or give nodes fewer and wider blocks; if the port also allows a stale range, `apply` removes it"
        )),
        _ => WriteError::Refused(error.to_string()),
    }
}

/// The last answer, and how long it counts. By default, it does not count at all.
#[derive(Default)]
pub(super) struct SubnetCache {
    max_age: Duration,
    last: Mutex<Option<(Instant, SeenSubnets)>>,
}

impl SubnetCache {
    pub(super) fn new(max_age: Duration) -> SubnetCache {
        SubnetCache {
            max_age,
            last: Mutex::default(),
        }
    }

    /// The wanted subnets, if the last answer is about exactly these and is recent enough.
    pub(super) fn of(&self, wanted: &BTreeSet<Id>) -> Option<SeenSubnets> {
        let last = self.last();
        let (read_at, seen) = last.as_ref()?;
        let counts = read_at.elapsed() < self.max_age && seen.keys().eq(wanted);
        counts.then(|| seen.clone())
    }

    pub(super) fn keep(&self, seen: &SeenSubnets) {
        let is_there = |subnet: &SeenSubnet| matches!(subnet, SeenSubnet::There { .. });
        *self.last() = seen
            .values()
            .all(is_there)
            .then(|| (Instant::now(), seen.clone()));
    }

    pub(super) fn forget(&self) {
        *self.last() = None;
    }

    fn last(&self) -> MutexGuard<'_, Option<(Instant, SeenSubnets)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod subnet_cache_tests {
    use super::*;

    const SUBNET: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";

    fn there() -> SeenSubnets {
        let subnet = SeenSubnet::There {
            network: SUBNET.parse().unwrap(),
            range: "10.1.0.0/24".parse().unwrap(),
        };
        [(SUBNET.parse().unwrap(), subnet)].into()
    }

    #[test]
    fn only_a_whole_answer_about_the_same_subnets_counts_until_it_is_forgotten() {
        let wanted: BTreeSet<Id> = [SUBNET.parse().unwrap()].into();
        let cache = SubnetCache::new(Duration::from_hours(1));
        assert_eq!(cache.of(&wanted), None);
        cache.keep(&there());
        assert_eq!(cache.of(&wanted), Some(there()));
        let more = [SUBNET, "00000000-44f9-4318-8c67-a2fed2ccca4f"];
        assert_eq!(cache.of(&more.map(|id| id.parse().unwrap()).into()), None);
        cache.forget();
        assert_eq!(cache.of(&wanted), None);
        cache.keep(&[(SUBNET.parse().unwrap(), SeenSubnet::Missing)].into());
        assert_eq!(cache.of(&wanted), None);
        let default = SubnetCache::default();
        default.keep(&there());
        assert_eq!(default.of(&wanted), None, "a single plan reads for itself");
    }
}
