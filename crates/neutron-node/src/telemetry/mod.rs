//! What the daemon reports to kubelet and Prometheus. It records and decides nothing. Must never
//! have a secret.

mod metrics;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::network_state::{NetworkState, SyncOutcome};
use crate::telemetry::metrics::{Failing, Metrics};
use http_server::{Health, HttpServer, Reports};
use openstack::OnRequest;

/// Longer than the sync of one network: its requests end by a deadline of at most two minutes.
const STUCK: Duration = Duration::from_mins(5);

/// Everything that the port shows.
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
    /// Others may be configured in a file that cannot be read.
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
        let names: Vec<&str> = failing.iter().map(String::as_str).collect();
        Health::Unhealthy(format!("failing, see the log: {}", names.join(", ")))
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
