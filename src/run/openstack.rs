//! What Neutron says of the subnets that pools name. Asked anew for each plan: nothing is kept between runs, and no token leaves the process.
//!
//! What could not be read is said in what is given, and never left out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

use crate::cluster::ClusterError;
use crate::desired::Desired;
use crate::net::Block;
use crate::neutron::{Cloud, Id, NetworkFacts, NeutronError, Subnet};
use crate::observed::{SeenSubnet, SeenSubnets};
use crate::plugin::{HttpNeutron, Keeping, read_small};

/// How long OpenStack is waited for, for all subnets together.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where OpenStack's credentials are.
#[derive(Clone, Debug, Default)]
pub struct CloudsPlace {
    /// The file that somebody named; it must be there.
    pub named: Option<PathBuf>,
    /// Otherwise the first of these that is there.
    pub searched: Vec<PathBuf>,
    /// Which of its clouds; without it the only one.
    pub cloud: Option<String>,
}

/// An OpenStack that can be asked, if there is one.
#[derive(Clone)]
pub struct OpenStack(Arc<Asked>);

struct Asked {
    place: CloudsPlace,
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
            NeutronError::Refused | NeutronError::Misconfigured(_) => Fault::Credentials(error.to_string()),
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
    pub fn new(place: CloudsPlace) -> OpenStack {
        OpenStack(Arc::new(Asked { place, last: Mutex::default() }))
    }

    /// Tells early that the credentials are no good, where pools need them. An OpenStack that does not answer is no fault of theirs.
    ///
    /// # Errors
    /// Credentials that cannot be read, or are not accepted.
    pub async fn log_in(&self, desired: &Desired) -> Result<(), ClusterError> {
        if desired.neutron_pools.is_empty() {
            return Ok(());
        }
        let asked = self.0.clone();
        let outcome = spawn_blocking(move || asked.with(|neutron| neutron.log_in().map_err(|error| Fault::of(&error))));
        match outcome.await {
            Ok(Err(Fault::Credentials(why))) => Err(ClusterError::OpenStack(why)),
            Ok(Ok(()) | Err(Fault::Silent(_))) | Err(_) => Ok(()),
        }
    }

    /// The subnets that pools name.
    pub async fn subnets(&self, desired: &Desired) -> SeenSubnets {
        let wanted: BTreeSet<Id> = desired.neutron_pools.values().map(|pool| pool.subnet.clone()).collect();
        if wanted.is_empty() {
            return SeenSubnets::new();
        }
        let (asked, ids) = (self.0.clone(), wanted.clone());
        let seen = spawn_blocking(move || asked.with(|neutron| Ok(see(neutron, &ids)))).await;
        let why = match seen {
            Ok(Ok(seen)) => return seen,
            Ok(Err(fault)) => fault.why(),
            Err(_) => "the question was given up".to_owned(),
        };
        wanted.into_iter().map(|id| (id, SeenSubnet::Unread(why.clone()))).collect()
    }
}

impl Asked {
    /// Asks by the credentials as they are now: a file that is mounted may have changed.
    fn with<T>(&self, ask: impl FnOnce(&HttpNeutron) -> Result<T, Fault>) -> Result<T, Fault> {
        let cloud = self.place.read()?;
        let until = Instant::now() + PATIENCE;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let neutron = match last.take() {
            Some((known, neutron)) if known == cloud => neutron.until(until),
            _ => HttpNeutron::new(cloud.clone(), Keeping::Nothing, until).map_err(|error| Fault::of(&error))?,
        };
        let answer = ask(&neutron);
        *last = Some((cloud, neutron));
        answer
    }
}

impl CloudsPlace {
    fn read(&self) -> Result<Cloud, Fault> {
        let path = match (&self.named, self.searched.iter().find(|path| path.exists())) {
            (Some(path), _) | (None, Some(path)) => path,
            (None, None) => {
                let places: Vec<String> = self.searched.iter().map(|path| path.display().to_string()).collect();
                return Err(Fault::Silent(format!("there is no file of clouds ({})", places.join(", "))));
            }
        };
        let text = read_small(path).map_err(|error| Fault::Credentials(error.message))?;
        Cloud::read(&text, self.cloud.as_deref()).map_err(|why| in_file(path, &why))
    }
}

fn in_file(path: &Path, why: &dyn std::fmt::Display) -> Fault {
    Fault::Credentials(format!("{}: {why}", path.display()))
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
        Ok(range) => SeenSubnet::There { network: subnet.network.clone(), range },
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
        assert!(matches!(understood(&subnet("10.1.0.0/24")), SeenSubnet::There { .. }));
        assert!(matches!(understood(&subnet("fd00:1::/64")), SeenSubnet::There { .. }));
        assert!(matches!(understood(&subnet("0.0.0.0/0")), SeenSubnet::Unread(_)));
    }
}
