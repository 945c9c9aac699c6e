//! The OpenStack behind the nodes: finds its credentials and keeps one session for them.
//!
//! Nothing that Neutron answers is kept between plans, except for a process that goes on: ports that
//! a background thread reads, and subnets for a while. No token leaves the process.

mod background;
mod observe;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use observe::{Client, SubnetCache};
use tokio::task::spawn_blocking;

use self::background::BackgroundPorts;
use ipam_cluster::ClusterError;
use ipam_core::model::{Finding, Rule, Severity};
use ipam_core::text::joined;
use ipam_desired::{AddressPairs, Desired};
use openstack::{
    Cloud, HttpNeutron, InsecureSetting, NeutronError, OnRequest, RecordedNeutron, SessionCache,
};
use private_files::read_secret;

/// Limit for reading all subnets, for reading the ports of one batch of VMs, and for one write.
const PATIENCE: Duration = Duration::from_secs(20);

/// Name and version of this program, for OpenStack's logs.
const USER_AGENT: &str = concat!("cilium-ipam/", env!("CARGO_PKG_VERSION"));

/// Error of a request whose thread died.
const ABANDONED: &str = "the request was abandoned";

/// Where OpenStack's credentials are.
#[derive(Clone, Debug, Default)]
pub struct CloudsLocation {
    /// The file of credentials that the user named; it must exist.
    pub named: Option<PathBuf>,
    /// Files to search for credentials if the user named none: the first existing one is used.
    pub searched: Vec<PathBuf>,
    /// Name of the cloud in the file; `None` if the file has only one cloud.
    pub cloud: Option<String>,
}

/// A client of one OpenStack, where there is one.
#[derive(Clone)]
pub struct OpenStack {
    session: Arc<Session>,
    scope: Scope,
    /// Reads the ports in the background, so that plans need not wait for them.
    background: Option<Arc<BackgroundPorts>>,
    subnet_cache: Arc<SubnetCache>,
}

/// What is read from OpenStack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only subnets of pools.
    Subnets,
    /// Also ports of VMs, if the Policy sets address pairs.
    Ports,
}

/// Where Neutron's answers come from.
#[derive(Clone)]
enum Place {
    Cloud(CloudsLocation),
    /// A recording of answers, by its path.
    File(PathBuf),
}

struct Session {
    place: Place,
    /// Receives a report of each request.
    on_request: Option<OnRequest>,
    /// The last login, reused while the credentials stay the same. Locked while a request lasts.
    last: Mutex<Option<(Cloud, HttpNeutron)>>,
    /// Settings of the last login that let others read or forge the answers.
    insecure: Mutex<Vec<InsecureSetting>>,
}

/// Why OpenStack gives no answer.
enum Fault {
    /// The user must fix the credentials, or the setting that locates them.
    Credentials(String),
    /// OpenStack does not answer now, or is not set up.
    Unavailable(String),
}

impl Fault {
    fn of(error: &NeutronError) -> Fault {
        match error {
            NeutronError::Refused | NeutronError::Misconfigured(_) => {
                Fault::Credentials(error.to_string())
            }
            other => Fault::Unavailable(other.to_string()),
        }
    }

    fn why(self) -> String {
        match self {
            Fault::Credentials(why) | Fault::Unavailable(why) => why,
        }
    }
}

impl OpenStack {
    /// Returns a client that has read nothing yet.
    pub fn new(location: CloudsLocation, scope: Scope) -> OpenStack {
        OpenStack::at(Place::Cloud(location), scope)
    }

    /// A Neutron that was recorded in this file. Reads nothing yet.
    pub fn recorded(path: PathBuf, scope: Scope) -> OpenStack {
        OpenStack::at(Place::File(path), scope)
    }

    fn at(place: Place, scope: Scope) -> OpenStack {
        OpenStack {
            session: Arc::new(Session {
                place,
                on_request: None,
                last: Mutex::default(),
                insecure: Mutex::default(),
            }),
            scope,
            background: None,
            subnet_cache: Arc::default(),
        }
    }

    /// Returns a client of the same cloud that reports each request, without its session.
    #[must_use]
    pub fn reporting(self, on_request: OnRequest) -> OpenStack {
        OpenStack {
            session: Arc::new(Session {
                on_request: Some(on_request),
                ..self.session.fresh()
            }),
            ..self
        }
    }

    /// Returns a client of the same cloud for a sequence of plans. A plan does not wait for ports:
    /// it uses the ports that a background thread read last, and reads again after `max_age`.
    /// Subnets older than `max_age` are read again.
    #[must_use]
    pub fn for_many_plans(self, max_age: Duration) -> OpenStack {
        let session = Arc::new(self.session.fresh());
        OpenStack {
            background: Some(BackgroundPorts::new(session, max_age)),
            subnet_cache: Arc::new(SubnetCache::new(max_age)),
            ..self
        }
    }

    /// Waits until the background thread has read ports that no plan has seen. Never ready without
    /// such a thread.
    pub async fn ports_changed(&self) {
        match &self.background {
            Some(background) => background.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Makes the next plan read all subnets again.
    pub fn forget_subnets(&self) {
        self.subnet_cache.forget();
    }

    fn reads_ports(&self, desired: &Desired) -> bool {
        self.scope == Scope::Ports && desired.policy.address_pairs == AddressPairs::PodCidrs
    }

    /// Checks the credentials early, where the files need them. An OpenStack that does not answer
    /// is no error here.
    ///
    /// # Errors
    /// Fails if the credentials cannot be read, or are not accepted.
    pub async fn log_in(&self, desired: &Desired) -> Result<(), ClusterError> {
        if desired.neutron_pools.is_empty() && !self.reads_ports(desired) {
            return Ok(());
        }
        let session = self.session.clone();
        let outcome = spawn_blocking(move || {
            session.with(|neutron| neutron.log_in().map_err(|error| Fault::of(&error)))
        });
        match outcome.await {
            Ok(Err(Fault::Credentials(why))) => Err(ClusterError::OpenStack(why)),
            Ok(Ok(()) | Err(Fault::Unavailable(_))) | Err(_) => Ok(()),
        }
    }
}

impl Session {
    /// A session of the same cloud, without a login.
    fn fresh(&self) -> Session {
        Session {
            place: self.place.clone(),
            on_request: self.on_request.clone(),
            last: Mutex::default(),
            insecure: Mutex::default(),
        }
    }

    /// Runs a request with the credentials as they are now: a mounted file may have changed.
    fn with<T>(&self, request: impl FnOnce(&Client) -> Result<T, Fault>) -> Result<T, Fault> {
        let cloud = match &self.place {
            Place::Cloud(location) => location.read()?,
            Place::File(path) => {
                // Writes replace the whole file.
                let _one_at_a_time = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                return request(&Client::File(RecordedNeutron::new(path)));
            }
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // The limit starts once the session is free.
        let until = Instant::now() + PATIENCE;
        let neutron = match last.take() {
            Some((known, neutron)) if known == cloud => neutron.until(until),
            _ => HttpNeutron::new(cloud.clone(), USER_AGENT, SessionCache::Disabled, until)
                .map_err(|error| Fault::of(&error))?
                .reporting(self.on_request.clone()),
        };
        let client = Client::Server(Box::new(neutron));
        let answer = request(&client);
        if let Client::Server(neutron) = client {
            let insecure = neutron.insecure_settings();
            *last = Some((cloud, *neutron));
            *self.insecure.lock().unwrap_or_else(PoisonError::into_inner) = insecure;
        }
        answer
    }

    /// Settings that let others read or forge the answers; empty before the first request. Does not
    /// wait for a request.
    fn insecure_settings(&self) -> Vec<Finding> {
        let settings = self
            .insecure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let finding = |setting: InsecureSetting| {
            let rule = Rule("openstack-insecure");
            Finding::new(Severity::Warning, rule, setting.to_string()).help(setting.way_out())
        };
        settings.into_iter().map(finding).collect()
    }
}

impl CloudsLocation {
    fn read(&self) -> Result<Cloud, Fault> {
        let path = match (&self.named, self.searched.iter().find(|path| path.exists())) {
            (Some(path), _) | (None, Some(path)) => path,
            (None, None) => {
                let searched = self.searched.iter().map(|path| path.display());
                return Err(Fault::Unavailable(format!(
                    "there is no file of clouds ({})",
                    joined(searched, ", ")
                )));
            }
        };
        let text = read_secret(path)
            .map_err(|error| Fault::Credentials(format!("{error}; fix: {}", error.way_out())))?;
        Cloud::read(&text, self.cloud.as_deref()).map_err(|why| in_file(path, &why))
    }
}

fn in_file(path: &Path, why: &dyn std::fmt::Display) -> Fault {
    Fault::Credentials(format!("{}: {why}", path.display()))
}
