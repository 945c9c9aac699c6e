//! Defines the metrics. Their names and labels are a stable interface: alerts depend on them.

mod record;

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

type Number = Gauge<f64, AtomicU64>;
type Labels = Vec<(&'static str, String)>;

/// Upper bounds of the time that a node waits for its block, in seconds: from the time of one write
/// to more than an agent should wait.
const WAITED: [f64; 12] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Every metric of the process.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    pool_blocks: Family<Labels, Number>,
    pool_nodes: Family<Labels, Number>,
    pool_exhausted: Family<Labels, Number>,
    nodes: Number,
    unread_ports: Number,
    losing_blocks: Number,
    blocked: Family<Labels, Number>,
    misplaced: Family<Labels, Number>,
    waiting: Family<Labels, Number>,
    findings: Family<Labels, Number>,
    pending: Number,
    writes: Family<Labels, Counter>,
    conflicts: Counter,
    errors: Counter,
    undone: Counter,
    rollbacks: Counter,
    waited: Histogram,
    planned_at: Number,
    applied_at: Number,
    source_invalid: Number,
    revision: Family<Labels, Number>,
    unhealthy: Number,
    leader: Number,
    paused: Number,
    /// Number of changes that are being written.
    queue: Mutex<usize>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("cilium_ipam"),
            pool_blocks: Family::default(),
            pool_nodes: Family::default(),
            pool_exhausted: Family::default(),
            nodes: Number::default(),
            unread_ports: Number::default(),
            losing_blocks: Number::default(),
            blocked: Family::default(),
            misplaced: Family::default(),
            waiting: Family::default(),
            findings: Family::default(),
            pending: Number::default(),
            writes: Family::default(),
            conflicts: Counter::default(),
            errors: Counter::default(),
            undone: Counter::default(),
            rollbacks: Counter::default(),
            waited: Histogram::new(WAITED),
            planned_at: Number::default(),
            applied_at: Number::default(),
            source_invalid: Number::default(),
            revision: Family::default(),
            unhealthy: Number::default(),
            leader: Number::default(),
            paused: Number::default(),
            queue: Mutex::default(),
        };
        metrics.register_pools();
        metrics.register_work();
        metrics.register_state();
        metrics
    }
}

impl Metrics {
    fn register_pools(&mut self) {
        let registry = &mut self.registry;
        let blocks = "Blocks of a pool, by family and state: used (held or pinned), reserved (kept free), free";
        registry.register("pool_blocks", blocks, self.pool_blocks.clone());
        registry.register(
            "pool_nodes",
            "Nodes that have a block of the pool",
            self.pool_nodes.clone(),
        );
        registry.register(
            "pool_exhausted",
            "1 if a node needs a block of the pool and none is free",
            self.pool_exhausted.clone(),
        );
        registry.register("nodes", "Nodes in the cluster", self.nodes.clone());
        registry.register(
            "nodes_with_unread_ports",
            "Nodes whose Neutron ports were not read yet, or could not be read",
            self.unread_ports.clone(),
        );
        registry.register(
            "nodes_losing_blocks",
            "Nodes that lose their pod CIDRs at the next start of Cilium's operator, at most",
            self.losing_blocks.clone(),
        );
        registry.register(
            "blocked",
            "Blocked changes, by kind of object",
            self.blocked.clone(),
        );
        let misplaced = "Nodes with a block that the files would not give them today, by reason";
        registry.register("misplaced_nodes", misplaced, self.misplaced.clone());
        registry.register(
            "waiting",
            "Changes that wait for a person, by hazard",
            self.waiting.clone(),
        );
        registry.register(
            "findings",
            "Results of checks, by rule and severity",
            self.findings.clone(),
        );
    }

    fn register_work(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "pending_changes",
            "Changes that are decided and not written yet",
            self.pending.clone(),
        );
        registry.register(
            "writes",
            "Writes, by kind of object and outcome",
            self.writes.clone(),
        );
        registry.register(
            "conflicts",
            "Writes that lost a race to another process",
            self.conflicts.clone(),
        );
        registry.register(
            "errors",
            "Failures between this process and the API server",
            self.errors.clone(),
        );
        registry.register(
            "undone",
            "Writes that another process undid",
            self.undone.clone(),
        );
        let rollbacks = "How often the cluster went back in time, as after a restored backup";
        registry.register("rollbacks", rollbacks, self.rollbacks.clone());
        let waited = "Time from the event of a node without a block until its block was written";
        registry.register_with_unit(
            "node_block_wait",
            waited,
            Unit::Seconds,
            self.waited.clone(),
        );
    }

    fn register_state(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "last_plan_timestamp_seconds",
            "Time of the last plan",
            self.planned_at.clone(),
        );
        let applied = "Time since which the present files or objects apply";
        registry.register(
            "source_applied_timestamp_seconds",
            applied,
            self.applied_at.clone(),
        );
        registry.register(
            "source_revision",
            "1 for the revision that applies",
            self.revision.clone(),
        );
        let invalid = "1 while the newest files or objects have errors and older ones apply";
        registry.register("source_invalid", invalid, self.source_invalid.clone());
        registry.register(
            "trouble",
            "1 while the controller cannot work",
            self.unhealthy.clone(),
        );
        registry.register(
            "leader",
            "1 if this process leads, 0 if it stands by",
            self.leader.clone(),
        );
        registry.register(
            "paused",
            "1 while the Policy pauses `watch` and the operator",
            self.paused.clone(),
        );
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The running version", version);
    }

    /// In the format of OpenMetrics.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
