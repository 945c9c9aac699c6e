//! What the daemon reports to kubelet and Prometheus, and its metrics. It records and decides
//! nothing. Must never have a secret.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::network_state::PortCounts;
use crate::network_state::{NetworkState, SyncOutcome};
use http_server::{Health, HttpServer, Reports};
use ipam_core::text::joined;
use openstack::{OnRequest, SentRequest};

/// Longer than the sync of one network: its requests end by a deadline of at most two minutes.
const STUCK: Duration = Duration::from_mins(5);

/// Metrics and health, which the daemon's port serves.
#[derive(Debug)]
pub(super) struct Telemetry {
    metrics: Metrics,
    progress: Mutex<Progress>,
    /// The longest pause between two runs.
    pause: Duration,
}

#[derive(Debug)]
struct Progress {
    /// When the daemon last began the work on a network, or a pause.
    last_step: Instant,
    /// The networks of the last whole run, and those with an error; `None` before it.
    last_run: Option<(BTreeSet<String>, BTreeSet<String>)>,
}

/// Whether a run could list all networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    Complete,
    /// Some networks may be configured in a file that cannot be read.
    Partial,
}

impl Telemetry {
    pub(super) fn new(interval: Duration) -> Arc<Telemetry> {
        Arc::new(Telemetry {
            metrics: Metrics::default(),
            progress: Mutex::new(Progress {
                last_step: Instant::now(),
                last_run: None,
            }),
            // The interval is jittered.
            pause: interval * 2,
        })
    }

    /// An observer of all requests to OpenStack.
    pub(super) fn on_request(self: &Arc<Telemetry>) -> OnRequest {
        let telemetry = self.clone();
        Arc::new(move |request| telemetry.metrics.request(request))
    }

    /// Records that the daemon goes on.
    pub(super) fn step(&self) {
        self.lock().last_step = Instant::now();
    }

    /// Records a run for a network.
    pub(super) fn network(&self, name: &str, state: &NetworkState, synced: Option<SyncOutcome>) {
        self.metrics.network(name, state, synced);
    }

    /// Records the end of a run: the networks, whether they are all, and the errors that last.
    pub(super) fn run_ended(
        &self,
        mut networks: BTreeSet<String>,
        listing: Listing,
        errors: &BTreeMap<String, String>,
    ) {
        for name in &networks {
            let failing = match errors.contains_key(name) {
                true => Failing::Yes,
                false => Failing::No,
            };
            self.metrics.failing(name, failing);
        }
        let mut progress = self.lock();
        progress.last_step = Instant::now();
        if let Some((before, _)) = &progress.last_run {
            match listing {
                Listing::Complete => self.metrics.forget(&(before - &networks)),
                Listing::Partial => networks.extend(before.iter().cloned()),
            }
        }
        progress.last_run = Some((networks, errors.keys().cloned().collect()));
    }

    fn liveness_at(&self, now: Instant) -> Health {
        let idle = now.saturating_duration_since(self.lock().last_step);
        if idle <= self.pause + STUCK {
            Health::Healthy
        } else {
            Health::Unhealthy(format!("no progress for {} s", idle.as_secs()))
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports for Telemetry {
    fn liveness(&self) -> Health {
        self.liveness_at(Instant::now())
    }

    fn readiness(&self) -> Health {
        let Some((_, failing)) = &self.lock().last_run else {
            return Health::Unhealthy("no run has ended yet".to_owned());
        };
        if failing.is_empty() {
            return Health::Healthy;
        }
        // Everyone on the network can read this: the errors, with addresses and paths, are in the
        // log.
        let names = joined(failing, ", ");
        Health::Unhealthy(format!("failing, see the log: {names}"))
    }

    fn metrics(&self) -> String {
        self.metrics.text()
    }
}

/// Starts to listen, and answers in a thread of its own. Returns the address with the port that the
/// system chose for port 0.
pub(super) fn serve(address: SocketAddr, telemetry: Arc<Telemetry>) -> io::Result<SocketAddr> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let server = runtime.block_on(HttpServer::bind(address))?;
    let address = server.address()?;
    thread::Builder::new()
        .name("health".to_owned())
        .spawn(move || -> Infallible { runtime.block_on(server.serve(&telemetry)) })?;
    Ok(address)
}

type Number = Gauge<i64>;
type Labels = Vec<(&'static str, String)>;

/// Upper bounds of a request's time in seconds: from a cached answer to the longest wait.
const TOOK: [f64; 10] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

http_server::metrics! {
    /// Every metric of the daemon.
    Metrics of "neutron_node":
    ports: Family<Labels, Number> =
        "Ports of this node, by network and state: attached (a Pod has it), free (in the warm pool), deleting";
    warm_pool_wanted: Family<Labels, Number> = "Free ports that the configuration asks for";
    garbage_candidates: Family<Labels, Number> =
        "Ports whose interface looks gone, and whose grace period is not over";
    lost_ports: Family<Labels, Number> =
        "Ports in use that were deleted at Neutron: their Pods must be deleted";
    failing: Family<Labels, Number> =
        "1 while the last sync of a network, or the read of its files, failed";
    syncs: Family<Labels, Counter> = "Syncs with Neutron, by network and outcome";
    last_sync_timestamp_seconds: Family<Labels, Number> = "Time of the last successful sync";
    openstack_request: Family<Labels, Histogram> =
        "Time of a request to OpenStack (status `none`: no answer)"
        in seconds, Family::new_with_constructor(|| Histogram::new(TOOK));
}

impl Metrics {
    pub(super) fn request(&self, request: &SentRequest<'_>) {
        let SentRequest {
            method,
            url,
            outcome,
            took,
        } = request;
        let service = if url.ends_with("/auth/tokens") {
            "keystone"
        } else {
            "neutron"
        };
        let status = outcome
            .as_ref()
            .map_or_else(|_| "none".to_owned(), ToString::to_string);
        let labels = vec![
            ("service", service.to_owned()),
            ("method", (*method).to_owned()),
            ("status", status),
        ];
        self.openstack_request
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    /// Records a run for a network, and the sync that it made, if any.
    pub(super) fn network(&self, name: &str, state: &NetworkState, synced: Option<SyncOutcome>) {
        let PortCounts {
            attached,
            free,
            deleting,
            wanted,
        } = state.port_counts();
        for (state, number) in [
            ("attached", attached),
            ("free", free),
            ("deleting", deleting),
        ] {
            self.ports
                .get_or_create(&in_state(name, state))
                .set(count(number));
        }
        self.warm_pool_wanted
            .get_or_create(&named(name))
            .set(count(wanted));
        self.garbage_candidates
            .get_or_create(&named(name))
            .set(count(state.garbage_candidates.count()));
        self.lost_ports
            .get_or_create(&named(name))
            .set(count(state.lost.len()));
        let Some(outcome) = synced else { return };
        self.syncs.get_or_create(&with_outcome(name, outcome)).inc();
        if outcome == SyncOutcome::Succeeded {
            self.last_sync_timestamp_seconds
                .get_or_create(&named(name))
                .set(Timestamp::now().as_second());
        }
    }

    pub(super) fn failing(&self, name: &str, failing: Failing) {
        self.failing
            .get_or_create(&named(name))
            .set(i64::from(failing == Failing::Yes));
    }

    /// Removes the samples of networks that have no configuration any more.
    pub(super) fn forget(&self, gone: &BTreeSet<String>) {
        for name in gone {
            for family in [
                &self.warm_pool_wanted,
                &self.garbage_candidates,
                &self.lost_ports,
            ] {
                family.remove(&named(name));
            }
            self.failing.remove(&named(name));
            self.last_sync_timestamp_seconds.remove(&named(name));
            for state in ["attached", "free", "deleting"] {
                self.ports.remove(&in_state(name, state));
            }
            for outcome in [SyncOutcome::Succeeded, SyncOutcome::Failed] {
                self.syncs.remove(&with_outcome(name, outcome));
            }
        }
    }
}

/// Whether a network has an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failing {
    Yes,
    No,
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn named(network: &str) -> Labels {
    vec![("network", network.to_owned())]
}

fn in_state(network: &str, state: &str) -> Labels {
    vec![("network", network.to_owned()), ("state", state.to_owned())]
}

fn with_outcome(network: &str, outcome: SyncOutcome) -> Labels {
    let outcome = match outcome {
        SyncOutcome::Succeeded => "succeeded",
        SyncOutcome::Failed => "failed",
    };
    vec![
        ("network", network.to_owned()),
        ("outcome", outcome.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn it_is_ready_once_a_run_ended_without_an_error() {
        let telemetry = Telemetry::new(Duration::from_secs(5));
        assert_ne!(telemetry.readiness(), Health::Healthy);
        let errors = BTreeMap::from([("pods".to_owned(), "no answer".to_owned())]);
        telemetry.run_ended(networks(&["pods", "more"]), Listing::Complete, &errors);
        let unready = Health::Unhealthy("failing, see the log: pods".to_owned());
        assert_eq!(telemetry.readiness(), unready);
        telemetry.run_ended(networks(&["pods"]), Listing::Complete, &BTreeMap::new());
        assert_eq!(telemetry.readiness(), Health::Healthy);
    }

    #[test]
    fn a_network_without_a_configuration_has_no_samples() {
        let telemetry = Telemetry::new(Duration::from_secs(5));
        let state = NetworkState::default();
        for name in ["pods", "more"] {
            telemetry.network(name, &state, Some(SyncOutcome::Succeeded));
        }
        telemetry.run_ended(
            networks(&["pods", "more"]),
            Listing::Complete,
            &BTreeMap::new(),
        );
        // Its file may only be unreadable for a moment.
        telemetry.run_ended(networks(&["pods"]), Listing::Partial, &BTreeMap::new());
        assert!(telemetry.metrics().contains("network=\"more\""));
        telemetry.run_ended(networks(&["pods"]), Listing::Complete, &BTreeMap::new());
        let text = telemetry.metrics();
        assert!(!text.contains("network=\"more\""), "{text}");
        let sample = "neutron_node_ports{network=\"pods\",state=\"attached\"} 0";
        assert!(text.contains(sample), "{text}");
    }

    #[test]
    fn it_is_alive_while_it_makes_progress() {
        let telemetry = Telemetry::new(Duration::from_secs(100));
        let alive_after = |pause| {
            let now = telemetry.lock().last_step + Duration::from_secs(pause);
            telemetry.liveness_at(now) == Health::Healthy
        };
        assert!(alive_after(500) && !alive_after(501));
    }
}
