//! Defines the metrics, and records reports and plans in them. Their names and labels are a stable
//! interface: alerts depend on them.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::apply::Outcome;
use crate::{ControllerEvent, Loaded, Waiting};
use ipam_core::model::{Hazard, NodeName, PoolName, Rule, Severity};
use ipam_desired::Activity;
use ipam_plan::capacity::{Capacity, Supplier};
use ipam_plan::overview::{Overview, PoolOverview};
use ipam_plan::plan::{Target, TargetKind};

type Number = Gauge<f64, AtomicU64>;
type Labels = Vec<(&'static str, String)>;

/// Upper bounds of the time that a node waits for its block, in seconds: from the time of one write
/// to more than an agent should wait.
const WAITED: [f64; 12] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

http_server::metrics! {
    /// Every metric of the process.
    Metrics of "cilium_ipam":
    capacity: Family<Labels, Number> =
        "Blocks of a pool or range, and addresses of a LoadBalancer pool, by family and state: used, reserved (kept free), free";
    capacity_unknown: Family<Labels, Number> = "1 for a pool or range whose size or use is unknown";
    nodes_without_block: Number = "Nodes that lack a block of an enabled family";
    nodes_outside_best_pool: Number =
        "Nodes with a block of another pool than the best one that selects them";
    pool_nodes: Family<Labels, Number> = "Nodes that have a block of the pool";
    pool_exhausted: Family<Labels, Number> =
        "1 if a node needs a block of the pool and none is free";
    nodes: Number = "Nodes in the cluster";
    nodes_with_unread_ports: Number =
        "Nodes whose Neutron ports were not read yet, or could not be read";
    nodes_losing_blocks: Number =
        "Nodes that lose their pod CIDRs at the next start of Cilium's operator, at most";
    blocked: Family<Labels, Number> = "Blocked changes, by kind of object";
    misplaced_nodes: Family<Labels, Number> =
        "Nodes with a block that the files would not give them today, by reason";
    waiting: Family<Labels, Number> = "Changes that wait for manual approval, by hazard";
    findings: Family<Labels, Number> = "Results of checks, by rule and severity";
    pending_changes: Number = "Changes that are decided and not written yet";
    writes: Family<Labels, Counter> = "Writes, by kind of object and outcome";
    conflicts: Counter = "Writes that lost a race to another process";
    errors: Counter = "Failures between this process and the API server";
    undone: Counter = "Writes that another process undid";
    rollbacks: Counter = "How often the cluster went back in time, as after a restored backup";
    node_block_wait: Histogram =
        "Time from the event of a node without a block until its block was written"
        in seconds, Histogram::new(WAITED);
    last_plan_timestamp_seconds: Number = "Time of the last plan";
    source_applied_timestamp_seconds: Number =
        "Time since which the present files or objects apply";
    source_revision: Family<Labels, Number> = "1 for the revision that applies";
    source_invalid: Number =
        "1 while the newest files or objects have errors and older ones apply";
    trouble: Number = "1 while the controller cannot work";
    leader: Number = "1 if this process leads, 0 if it stands by";
    paused: Number = "1 while the Policy pauses `watch` and the operator";
}

#[expect(
    clippy::cast_precision_loss,
    reason = "numbers beyond 2^53 are rounded"
)]
fn float(number: u128) -> f64 {
    number as f64
}

fn count(number: usize) -> f64 {
    float(number as u128)
}

fn supplier(of: &Supplier) -> Labels {
    vec![
        ("kind", of.kind().to_owned()),
        ("name", of.name().to_owned()),
    ]
}

fn now() -> f64 {
    Timestamp::now().as_duration().as_secs_f64()
}

fn truth(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

impl Metrics {
    /// Updates the metrics by a report of the controller.
    pub(in crate::telemetry) fn on_event(&self, event: &ControllerEvent<'_>) {
        match event {
            ControllerEvent::ConfigApplied(loaded) => self.config_applied(loaded),
            ControllerEvent::Invalid(_) => {
                self.source_invalid.set(1.0);
            }
            ControllerEvent::Planned(_) => {
                self.last_plan_timestamp_seconds.set(now());
            }
            ControllerEvent::Sending(changes) => {
                self.pending_changes.set(count(*changes));
            }
            ControllerEvent::Finished {
                change,
                outcome,
                waited,
            } => {
                let pending = self.pending_changes.get();
                self.pending_changes.set((pending - 1.0).max(0.0));
                self.wrote(&change.target(), <&str>::from(*outcome));
                if change.gives_to_a_new_node() && **outcome == Outcome::Applied {
                    self.node_block_wait.observe(Duration::as_secs_f64(waited));
                }
            }
            ControllerEvent::Conflict(target) => {
                self.conflicts.inc();
                self.wrote(target, "superseded");
            }
            ControllerEvent::Waiting(waiting) => self.waiting(waiting),
            ControllerEvent::Undone(..) => {
                self.undone.inc();
            }
            ControllerEvent::RolledBack(_) => {
                self.rollbacks.inc();
            }
            ControllerEvent::Unhealthy(_) => {
                self.errors.inc();
                self.trouble.set(1.0);
            }
            ControllerEvent::Recovered => {
                self.trouble.set(0.0);
            }
            ControllerEvent::Leading => self.begin_term(1.0),
            ControllerEvent::Standby(_) => self.begin_term(0.0),
        }
    }

    /// Clears the data of another term.
    fn begin_term(&self, leader: f64) {
        self.leader.set(leader);
        let families = [
            &self.capacity,
            &self.capacity_unknown,
            &self.pool_nodes,
            &self.pool_exhausted,
            &self.blocked,
            &self.misplaced_nodes,
        ];
        for family in families.into_iter().chain([&self.waiting, &self.findings]) {
            family.clear();
        }
        for number in [
            &self.nodes,
            &self.nodes_without_block,
            &self.nodes_outside_best_pool,
            &self.nodes_losing_blocks,
            &self.nodes_with_unread_ports,
            &self.source_invalid,
            &self.trouble,
            &self.paused,
            &self.pending_changes,
        ] {
            number.set(0.0);
        }
    }

    fn config_applied(&self, loaded: &Loaded) {
        self.source_invalid.set(0.0);
        self.source_applied_timestamp_seconds.set(now());
        self.paused
            .set(truth(loaded.desired.policy.activity == Activity::Paused));
        self.source_revision.clear();
        if let Some(revision) = &loaded.revision {
            self.source_revision
                .get_or_create(&vec![("revision", revision.clone())])
                .set(1.0);
        }
    }

    fn wrote(&self, target: &Target, outcome: &str) {
        let labels = vec![
            ("kind", target.kind().to_string()),
            ("outcome", outcome.to_owned()),
        ];
        self.writes.get_or_create(&labels).inc();
    }

    /// Replaces the numbers of pools, nodes and findings.
    pub(in crate::telemetry) fn overview(&self, overview: &Overview) {
        self.pool_nodes.clear();
        self.pool_exhausted.clear();
        overview
            .pools
            .iter()
            .for_each(|(name, pool)| self.pool(name, pool));
        self.nodes(overview.nodes);
        self.nodes_with_unread_ports
            .set(count(overview.nodes_with_unread_ports));
        self.nodes_losing_blocks
            .set(count(overview.nodes_losing_blocks));
        self.blocked(overview);
        self.misplaced(overview);
        self.findings.clear();
        // An alert on an absent metric never fires and never resolves.
        let always =
            ["duplicate-block", "duplicate-address"].map(|rule| ((Severity::Error, Rule(rule)), 0));
        for ((severity, rule), found) in always
            .iter()
            .map(|(key, zero)| (key, zero))
            .chain(&overview.findings)
        {
            let labels = vec![
                ("rule", rule.to_string()),
                ("severity", severity.to_string()),
            ];
            self.findings.get_or_create(&labels).set(count(*found));
        }
    }

    fn blocked(&self, overview: &Overview) {
        self.blocked.clear();
        for kind in [
            TargetKind::Node,
            TargetKind::Service,
            TargetKind::AddressPool,
            TargetKind::PodPool,
        ] {
            let blocked = overview
                .blocked
                .keys()
                .filter(|target| target.kind() == kind)
                .count();
            self.blocked
                .get_or_create(&vec![("kind", kind.to_string())])
                .set(count(blocked));
        }
    }

    fn misplaced(&self, overview: &Overview) {
        self.misplaced_nodes.clear();
        for (code, nodes) in &overview.misplaced {
            self.misplaced_nodes
                .get_or_create(&vec![("reason", (*code).to_owned())])
                .set(count(*nodes));
        }
    }

    /// Replaces the numbers of one pool.
    fn pool(&self, name: &PoolName, pool: &PoolOverview) {
        let named = vec![("pool", name.to_string())];
        self.pool_nodes.get_or_create(&named).set(count(pool.nodes));
        self.pool_exhausted
            .get_or_create(&named)
            .set(truth(pool.exhausted.is_some()));
    }

    pub(in crate::telemetry) fn nodes(&self, nodes: usize) {
        self.nodes.set(count(nodes));
    }

    /// Replaces the numbers of pools and ranges.
    pub(in crate::telemetry) fn capacity(&self, capacity: &Capacity) {
        self.capacity.clear();
        for row in &capacity.rows {
            for (state, number) in [
                ("used", row.counts.used),
                ("reserved", row.counts.reserved),
                ("free", row.counts.free),
            ] {
                let mut labels = supplier(&row.of);
                labels.push(("family", row.family.to_string()));
                labels.push(("state", state.to_owned()));
                self.capacity.get_or_create(&labels).set(float(number));
            }
        }
        self.capacity_unknown.clear();
        for unknown in &capacity.unknown {
            let labels = supplier(&unknown.of);
            self.capacity_unknown.get_or_create(&labels).set(1.0);
        }
        self.nodes_without_block.set(count(capacity.waiting.len()));
        let outside: BTreeSet<&NodeName> = capacity.outside.values().flatten().collect();
        self.nodes_outside_best_pool.set(count(outside.len()));
    }

    fn waiting(&self, waiting: &Waiting) {
        for hazard in Hazard::ALL {
            let number = waiting
                .for_a_person
                .iter()
                .filter(|change| change.hazard == hazard)
                .count();
            self.waiting
                .get_or_create(&vec![("hazard", hazard.to_string())])
                .set(count(number));
        }
    }
}
