//! What Neutron says of the subnets that pools name, and of the ports of VMs; and their pairs,
//! written. Asked anew for each plan: nothing is kept between runs, and no token leaves the
//! process.
//!
//! What could not be read is said in what is given, and never left out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Deserialize;
use tokio::task::spawn_blocking;

use ipam_cilium::observed::{
    ObjectVersion, Observed, ObservedKind, SeenPorts, SeenSubnet, SeenSubnets,
};
use ipam_cluster::{
    Cluster, ClusterError, Durability, LeaseName, Listener, LockSeen, Moment, Operation, Saved,
    Seen, Target, Write, WriteError, Written,
};
use ipam_core::model::{Finding, Rule, Severity};
use ipam_core::net::Block;
use ipam_core::neutron::{Id, Pair};
use ipam_desired::{AddressPairs, Desired};
use openstack::{
    Cloud, GuardedPorts, HttpNeutron, Keeping, NetworkFacts, NeutronError, Subnet, Weakness,
};
use private_files::read_small;

/// How long OpenStack is waited for: for all subnets together, for the ports of some VMs, for one
/// write.
const PATIENCE: Duration = Duration::from_secs(20);

/// VMs whose ports are asked for at once; their ids make a question of some two thousand letters.
const AT_ONCE: usize = 50;

/// What is said of a question that ended without an answer.
const GIVEN_UP: &str = "the question was given up";

/// Where OpenStack's credentials are.
#[derive(Clone, Debug, Default)]
pub struct CloudsLocation {
    /// The file that somebody named; it must be there.
    pub named: Option<PathBuf>,
    /// Otherwise the first of these that is there.
    pub searched: Vec<PathBuf>,
    /// Which of its clouds; without it the only one.
    pub cloud: Option<String>,
}

/// An OpenStack that can be asked, if there is one.
#[derive(Clone)]
pub struct OpenStack {
    asked: Arc<Asked>,
    reach: Reach,
}

/// What it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Subnets of pools.
    Subnets,
    /// And ports of VMs, where the Policy says what they let out.
    Ports,
}

struct Asked {
    place: CloudsLocation,
    /// With the session of the last time, for the same credentials.
    last: Mutex<Option<(Cloud, HttpNeutron)>>,
}

/// Why it cannot be asked.
enum Fault {
    /// Somebody must mend the credentials, or what says where they are.
    Credentials(String),
    /// It may work at another time, or is not set up.
    Silent(String),
}

impl Fault {
    fn of(error: &NeutronError) -> Fault {
        match error {
            NeutronError::Refused | NeutronError::Misconfigured(_) => {
                Fault::Credentials(error.to_string())
            }
            other => Fault::Silent(other.to_string()),
        }
    }

    fn why(self) -> String {
        match self {
            Fault::Credentials(why) | Fault::Silent(why) => why,
        }
    }
}

impl OpenStack {
    /// The one whose credentials are there. Nothing is read yet.
    pub fn new(place: CloudsLocation, reach: Reach) -> OpenStack {
        OpenStack {
            asked: Arc::new(Asked {
                place,
                last: Mutex::default(),
            }),
            reach,
        }
    }

    fn reads_ports(&self, desired: &Desired) -> bool {
        self.reach == Reach::Ports && desired.policy.address_pairs == AddressPairs::PodCidrs
    }

    /// Puts all that the files need of it to what was seen of the cluster.
    pub async fn see(&self, desired: &Desired, observed: &mut Observed) {
        observed.subnets = self.subnets(desired).await;
        if self.reads_ports(desired) {
            observed.ports = Some(self.ports(observed).await);
        }
        observed.findings.extend(self.asked.weaknesses());
    }

    /// The ports of the VMs that nodes are.
    async fn ports(&self, observed: &Observed) -> SeenPorts {
        let wanted: BTreeSet<Id> = observed
            .nodes
            .values()
            .filter_map(|node| node.vm())
            .collect();
        let (asked, vms) = (self.asked.clone(), wanted.clone());
        let seen = spawn_blocking(move || asked.with(|neutron| Ok(see_ports(neutron, &vms)))).await;
        let why = match seen {
            Ok(Ok(seen)) => return seen,
            Ok(Err(fault)) => fault.why(),
            Err(_) => GIVEN_UP.to_owned(),
        };
        wanted
            .into_iter()
            .map(|id| (id, Err(why.clone())))
            .collect()
    }

    /// Replaces the pairs of a port, if nobody has changed it since.
    async fn write_pairs(&self, port: &Id, operation: &Operation) -> Result<Written, WriteError> {
        let Operation::Patch(patch) = operation else {
            return Err(WriteError::Refused("a port is only patched".to_owned()));
        };
        let PairsPatch { pairs, revision } = serde_json::from_value(patch.clone())
            .map_err(|why| WriteError::Refused(why.to_string()))?;
        let (asked, id) = (self.asked.clone(), port.clone());
        let outcome = spawn_blocking(move || {
            asked.with(|neutron| Ok(neutron.replace_pairs(&id, &pairs, revision)))
        })
        .await;
        match outcome {
            Ok(Ok(Ok(()))) => Ok(Written {
                version: ObjectVersion::default(),
            }),
            Ok(Ok(Err(error))) => Err(refusal(error)),
            Ok(Err(fault)) => Err(WriteError::Refused(fault.why())),
            Err(_) => Err(WriteError::Unknown(GIVEN_UP.to_owned())),
        }
    }

    /// Tells early that the credentials are no good, where pools need them. An OpenStack that does
    /// not answer is no fault of theirs.
    ///
    /// # Errors
    /// Credentials that cannot be read, or are not accepted.
    pub async fn log_in(&self, desired: &Desired) -> Result<(), ClusterError> {
        if desired.neutron_pools.is_empty() && !self.reads_ports(desired) {
            return Ok(());
        }
        let asked = self.asked.clone();
        let outcome = spawn_blocking(move || {
            asked.with(|neutron| neutron.log_in().map_err(|error| Fault::of(&error)))
        });
        match outcome.await {
            Ok(Err(Fault::Credentials(why))) => Err(ClusterError::OpenStack(why)),
            Ok(Ok(()) | Err(Fault::Silent(_))) | Err(_) => Ok(()),
        }
    }

    /// The subnets that pools name.
    async fn subnets(&self, desired: &Desired) -> SeenSubnets {
        let wanted: BTreeSet<Id> = desired
            .neutron_pools
            .values()
            .map(|pool| pool.subnet.clone())
            .collect();
        if wanted.is_empty() {
            return SeenSubnets::new();
        }
        let (asked, ids) = (self.asked.clone(), wanted.clone());
        let seen = spawn_blocking(move || asked.with(|neutron| Ok(see(neutron, &ids)))).await;
        let why = match seen {
            Ok(Ok(seen)) => return seen,
            Ok(Err(fault)) => fault.why(),
            Err(_) => GIVEN_UP.to_owned(),
        };
        wanted
            .into_iter()
            .map(|id| (id, SeenSubnet::Unread(why.clone())))
            .collect()
    }
}

/// What a patch of a port says.
#[derive(Deserialize)]
struct PairsPatch {
    #[serde(rename = "allowed_address_pairs")]
    pairs: Vec<Pair>,
    #[serde(rename = "revision_number")]
    revision: u64,
}

fn refusal(error: NeutronError) -> WriteError {
    match error {
        NeutronError::Changed | NeutronError::NoSuchPort => {
            WriteError::Superseded(error.to_string())
        }
        NeutronError::Unavailable(_) => WriteError::Unknown(error.to_string()),
        NeutronError::Unreachable(_) => WriteError::Busy(error.to_string()),
        NeutronError::TooManyPairs => WriteError::Refused(format!(
            "{error}; raise `max_allowed_address_pair` of Neutron (10 unless it says otherwise), or give nodes fewer and wider blocks"
        )),
        _ => WriteError::Refused(error.to_string()),
    }
}

/// A cluster, and the ports of its VMs.
pub struct WithPorts<C> {
    /// The cluster.
    pub cluster: C,
    /// Where the ports are.
    pub openstack: OpenStack,
}

impl<C: Cluster> Cluster for WithPorts<C> {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        self.cluster.list(kind, namespace, moment, listener).await
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        match &write.target {
            Target::Port(id) => self.openstack.write_pairs(id, &write.operation).await,
            _ => self.cluster.write(write).await,
        }
    }

    async fn lock(&self, name: LeaseName) -> Result<LockSeen, ClusterError> {
        self.cluster.lock(name).await
    }

    fn now(&self) -> Timestamp {
        self.cluster.now()
    }

    fn durability(&self) -> Durability {
        self.cluster.durability()
    }

    async fn save(&self) -> Result<Saved, ClusterError> {
        self.cluster.save().await
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        self.cluster.finish().await
    }
}

impl Asked {
    /// Asks by the credentials as they are now: a file that is mounted may have changed.
    fn with<T>(&self, ask: impl FnOnce(&HttpNeutron) -> Result<T, Fault>) -> Result<T, Fault> {
        let cloud = self.place.read()?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Not before it is this one's turn.
        let until = Instant::now() + PATIENCE;
        let neutron = match last.take() {
            Some((known, neutron)) if known == cloud => neutron.until(until),
            _ => HttpNeutron::new(cloud.clone(), Keeping::Nothing, until)
                .map_err(|error| Fault::of(&error))?,
        };
        let answer = ask(&neutron);
        *last = Some((cloud, neutron));
        answer
    }
}

impl Asked {
    /// What lets others read or forge what was said; nothing where nothing was asked.
    fn weaknesses(&self) -> Vec<Finding> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let weaknesses = last
            .as_ref()
            .map(|(_, neutron)| neutron.weaknesses())
            .unwrap_or_default();
        let finding = |weakness: Weakness| {
            let rule = Rule("openstack-insecure");
            Finding::new(Severity::Warning, rule, weakness.to_string()).help(weakness.way_out())
        };
        weaknesses.into_iter().map(finding).collect()
    }
}

impl CloudsLocation {
    fn read(&self) -> Result<Cloud, Fault> {
        let path = match (&self.named, self.searched.iter().find(|path| path.exists())) {
            (Some(path), _) | (None, Some(path)) => path,
            (None, None) => {
                let places: Vec<String> = self
                    .searched
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                return Err(Fault::Silent(format!(
                    "there is no file of clouds ({})",
                    places.join(", ")
                )));
            }
        };
        let text = read_small(path).map_err(|error| Fault::Credentials(error.to_string()))?;
        Cloud::read(&text, self.cloud.as_deref()).map_err(|why| in_file(path, &why))
    }
}

fn in_file(path: &Path, why: &dyn std::fmt::Display) -> Fault {
    Fault::Credentials(format!("{}: {why}", path.display()))
}

fn see_ports(neutron: &HttpNeutron, vms: &BTreeSet<Id>) -> SeenPorts {
    let mut seen = SeenPorts::new();
    let mut silent: Option<String> = None;
    let vms: Vec<Id> = vms.iter().cloned().collect();
    for some in vms.chunks(AT_ONCE) {
        let answer = match &silent {
            Some(why) => Err(why.clone()),
            None => neutron
                .until(Instant::now() + PATIENCE)
                .ports_of_vms(some)
                .map_err(|error| error.to_string()),
        };
        match answer {
            Ok(ports) => seen.extend(ports.into_iter().map(|(vm, ports)| (vm, Ok(ports)))),
            Err(why) => {
                seen.extend(some.iter().map(|vm| (vm.clone(), Err(why.clone()))));
                silent = Some(why);
            }
        }
    }
    seen
}

fn see(neutron: &HttpNeutron, wanted: &BTreeSet<Id>) -> SeenSubnets {
    let mut silent: Option<String> = None;
    let mut seen = SeenSubnets::new();
    for id in wanted {
        // One that does not answer is not waited for once for each.
        let answer = match &silent {
            Some(why) => SeenSubnet::Unread(why.clone()),
            None => match neutron.subnet(id) {
                Ok(subnet) => understood(&subnet),
                Err(NeutronError::NotFound(_)) => SeenSubnet::Missing,
                Err(error) => {
                    let why = error.to_string();
                    silent = Some(why.clone());
                    SeenSubnet::Unread(why)
                }
            },
        };
        seen.insert(id.clone(), answer);
    }
    seen
}

fn understood(subnet: &Subnet) -> SeenSubnet {
    match subnet.range.to_string().parse::<Block>() {
        Ok(range) => SeenSubnet::There {
            network: subnet.network.clone(),
            range,
        },
        Err(why) => SeenSubnet::Unread(format!("its range is none for Pods: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_is_none_is_no_evidence() {
        let network: Id = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f".parse().unwrap();
        let subnet = |range: &str| Subnet {
            network: network.clone(),
            range: range.parse().unwrap(),
            gateway: None,
            routes: Vec::new(),
            nameservers: Vec::new(),
        };
        assert!(matches!(
            understood(&subnet("10.1.0.0/24")),
            SeenSubnet::There { .. }
        ));
        assert!(matches!(
            understood(&subnet("fd00:1::/64")),
            SeenSubnet::There { .. }
        ));
        assert!(matches!(
            understood(&subnet("0.0.0.0/0")),
            SeenSubnet::Unread(_)
        ));
    }
}
