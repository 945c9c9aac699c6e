//! Defines the metrics. Their names and labels are a stable interface: alerts depend on them.

mod record;

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

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
    pool_blocks: Family<Labels, Number> =
        "Blocks of a pool, by family and state: used (held or pinned), reserved (kept free), free";
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
    waiting: Family<Labels, Number> = "Changes that wait for a person, by hazard";
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
