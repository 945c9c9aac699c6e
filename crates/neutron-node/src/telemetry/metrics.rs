//! Defines the metrics. Their names and labels are a stable interface: alerts depend on them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::network_state::{NetworkState, PortCounts, SyncOutcome};
use openstack::SentRequest;

type Number = Gauge<i64>;
type Labels = Vec<(&'static str, String)>;

/// Upper bounds of a request's time in seconds: from a cached answer to the longest wait.
const TOOK: [f64; 10] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Every metric of the daemon.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    ports: Family<Labels, Number>,
    wanted: Family<Labels, Number>,
    garbage: Family<Labels, Number>,
    lost: Family<Labels, Number>,
    failing: Family<Labels, Number>,
    syncs: Family<Labels, Counter>,
    synced_at: Family<Labels, Number>,
    requests: Family<Labels, Histogram>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("neutron_node"),
            ports: Family::default(),
            wanted: Family::default(),
            garbage: Family::default(),
            lost: Family::default(),
            failing: Family::default(),
            syncs: Family::default(),
            synced_at: Family::default(),
            requests: Family::new_with_constructor(|| Histogram::new(TOOK)),
        };
        metrics.register_ports();
        metrics.register_syncs();
        metrics
    }
}

impl Metrics {
    fn register_ports(&mut self) {
        let registry = &mut self.registry;
        let ports = "Ports of this node, by network and state: attached (a Pod has it), free (in the warm pool), deleting";
        registry.register("ports", ports, self.ports.clone());
        let wanted = "Free ports that the configuration asks for";
        registry.register("warm_pool_wanted", wanted, self.wanted.clone());
        let garbage = "Ports whose interface looks gone, and whose grace period is not over";
        registry.register("garbage_candidates", garbage, self.garbage.clone());
        let lost = "Ports in use that were deleted at Neutron: their Pods must be deleted";
        registry.register("lost_ports", lost, self.lost.clone());
    }

    fn register_syncs(&mut self) {
        let registry = &mut self.registry;
        let failing = "1 while the last sync of a network, or the read of its files, failed";
        registry.register("failing", failing, self.failing.clone());
        let syncs = "Syncs with Neutron, by network and outcome";
        registry.register("syncs", syncs, self.syncs.clone());
        let synced_at = "Time of the last successful sync";
        registry.register(
            "last_sync_timestamp_seconds",
            synced_at,
            self.synced_at.clone(),
        );
        let requests = "Time of a request to OpenStack (status `none`: no answer)";
        registry.register_with_unit(
            "openstack_request",
            requests,
            Unit::Seconds,
            self.requests.clone(),
        );
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The running version", version);
    }

    /// The text of all metrics.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

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
        self.requests
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
        self.wanted.get_or_create(&named(name)).set(count(wanted));
        self.garbage
            .get_or_create(&named(name))
            .set(count(state.garbage_candidates.count()));
        self.lost
            .get_or_create(&named(name))
            .set(count(state.lost.len()));
        let Some(outcome) = synced else { return };
        self.syncs.get_or_create(&with_outcome(name, outcome)).inc();
        if outcome == SyncOutcome::Succeeded {
            self.synced_at
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
            for family in [&self.wanted, &self.garbage, &self.lost] {
                family.remove(&named(name));
            }
            self.failing.remove(&named(name));
            self.synced_at.remove(&named(name));
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
