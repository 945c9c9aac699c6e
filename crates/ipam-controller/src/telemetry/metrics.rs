//! The metrics. What they are called and what they mean is a promise to whoever has alerts on them.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::apply::Outcome;
use crate::{ControllerEvent, Loaded, Waiting};
use ipam_core::model::{Hazard, PoolName, Rule, Severity};
use ipam_desired::Activity;
use ipam_planner::plan::{Overview, PoolOverview, Target};

type Number = Gauge<f64, AtomicU64>;
type Labels = Vec<(&'static str, String)>;

/// Upper bounds of the time that a node waits for its block, in seconds: from one write to longer
/// than an agent should wait.
const WAITED: [f64; 12] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// All of them.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    pool_blocks: Family<Labels, Number>,
    pool_nodes: Family<Labels, Number>,
    pool_exhausted: Family<Labels, Number>,
    nodes: Number,
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
    in_force_at: Number,
    source_invalid: Number,
    revision: Family<Labels, Number>,
    trouble: Number,
    leads: Number,
    paused: Number,
    /// Changes that are being written.
    queue: Mutex<usize>,
}

fn outcome_text(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Applied => "applied",
        Outcome::Superseded(_) => "superseded",
        Outcome::Refused(_) => "refused",
        Outcome::Unknown(_) => "unknown",
        Outcome::NotTried => "not-tried",
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a number of blocks beyond 2^53 is told as nearly as a float can"
)]
fn float(number: u128) -> f64 {
    number as f64
}

fn count(number: usize) -> f64 {
    float(number as u128)
}

fn now() -> f64 {
    Timestamp::now().as_duration().as_secs_f64()
}

fn truth(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("cilium_ipam"),
            pool_blocks: Family::default(),
            pool_nodes: Family::default(),
            pool_exhausted: Family::default(),
            nodes: Number::default(),
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
            in_force_at: Number::default(),
            source_invalid: Number::default(),
            revision: Family::default(),
            trouble: Number::default(),
            leads: Number::default(),
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
            "1 where a node wants a block of the pool and there is none",
            self.pool_exhausted.clone(),
        );
        registry.register("nodes", "Nodes that are seen", self.nodes.clone());
        registry.register(
            "blocked",
            "Wanted changes that must wait, by kind of object",
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
            "Writes that somebody else was faster than",
            self.conflicts.clone(),
        );
        registry.register(
            "errors",
            "What went wrong between here and the API server",
            self.errors.clone(),
        );
        registry.register(
            "undone",
            "Writes that somebody else undid",
            self.undone.clone(),
        );
        let rollbacks = "How often the cluster went back in time, as after a backup was restored";
        registry.register("rollbacks", rollbacks, self.rollbacks.clone());
        let waited =
            "Time from when a node without a block was heard of until its block was written";
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
            "When all was planned last",
            self.planned_at.clone(),
        );
        let in_force = "Since when what is asked for is in force, by its revision where it has one";
        registry.register(
            "source_in_force_timestamp_seconds",
            in_force,
            self.in_force_at.clone(),
        );
        registry.register(
            "source_revision",
            "1 for the revision that is in force",
            self.revision.clone(),
        );
        let invalid = "1 while the newest files or objects have faults and older ones are in force";
        registry.register("source_invalid", invalid, self.source_invalid.clone());
        registry.register("trouble", "1 while it does not work", self.trouble.clone());
        registry.register(
            "leader",
            "1 where this process works, 0 where it stands by",
            self.leads.clone(),
        );
        registry.register(
            "paused",
            "1 while the Policy says that nothing is written",
            self.paused.clone(),
        );
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version that runs", version);
    }

    /// In the format of OpenMetrics.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// Takes note of the news.
    pub(super) fn on_event(&self, event: &ControllerEvent<'_>) {
        match event {
            ControllerEvent::InForce(loaded) => self.in_force(loaded),
            ControllerEvent::Invalid(_) => {
                self.source_invalid.set(1.0);
            }
            ControllerEvent::Planned(_) => {
                self.planned_at.set(now());
            }
            ControllerEvent::Sending(changes) => self.queue(|queue| *queue = *changes),
            ControllerEvent::Finished {
                change,
                outcome,
                waited,
            } => {
                self.queue(|queue| *queue = queue.saturating_sub(1));
                self.wrote(&change.target(), outcome_text(outcome));
                if change.gives_to_a_new_node() && **outcome == Outcome::Applied {
                    self.waited.observe(Duration::as_secs_f64(waited));
                }
            }
            ControllerEvent::Conflict(target) => {
                self.conflicts.inc();
                self.wrote(target, "superseded");
            }
            ControllerEvent::Waiting(waiting) => self.waiting(waiting),
            ControllerEvent::Nodes(nodes) => {
                self.nodes.set(*nodes as f64);
            }
            ControllerEvent::Undone(..) => {
                self.undone.inc();
            }
            ControllerEvent::RolledBack(_) => {
                self.rollbacks.inc();
            }
            ControllerEvent::Trouble(_) => {
                self.errors.inc();
                self.trouble.set(1.0);
            }
            ControllerEvent::Recovered => {
                self.trouble.set(0.0);
            }
            ControllerEvent::Leads => self.term(1.0),
            ControllerEvent::StandsBy(_) => self.term(0.0),
        }
    }

    /// What only a leader knows is not known of another one's term.
    fn term(&self, leads: f64) {
        self.leads.set(leads);
        let families = [
            &self.pool_blocks,
            &self.pool_nodes,
            &self.pool_exhausted,
            &self.blocked,
            &self.misplaced,
        ];
        for family in families.into_iter().chain([&self.waiting, &self.findings]) {
            family.clear();
        }
        for number in [
            &self.nodes,
            &self.source_invalid,
            &self.trouble,
            &self.paused,
        ] {
            number.set(0.0);
        }
        self.queue(|queue| *queue = 0);
    }

    fn in_force(&self, loaded: &Loaded) {
        self.source_invalid.set(0.0);
        self.in_force_at.set(now());
        self.paused
            .set(truth(loaded.desired.policy.activity == Activity::Paused));
        self.revision.clear();
        if let Some(revision) = &loaded.revision {
            self.revision
                .get_or_create(&vec![("revision", revision.clone())])
                .set(1.0);
        }
    }

    fn wrote(&self, target: &Target, outcome: &str) {
        let labels = vec![
            ("kind", target.kind().to_owned()),
            ("outcome", outcome.to_owned()),
        ];
        self.writes.get_or_create(&labels).inc();
    }

    fn queue(&self, change: impl FnOnce(&mut usize)) {
        let mut queue = self
            .queue
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        change(&mut queue);
        self.pending.set(count(*queue));
    }

    /// Replaces the numbers of pools, nodes and findings.
    pub(super) fn overview(&self, overview: &Overview) {
        self.pool_blocks.clear();
        self.pool_nodes.clear();
        self.pool_exhausted.clear();
        overview
            .pools
            .iter()
            .for_each(|(name, pool)| self.pool(name, pool));
        self.nodes.set(count(overview.nodes));
        self.blocked.clear();
        for kind in [
            "Node",
            "Service",
            "CiliumLoadBalancerIPPool",
            "CiliumPodIPPool",
        ] {
            let blocked = overview
                .blocked
                .keys()
                .filter(|target| target.kind() == kind)
                .count();
            self.blocked
                .get_or_create(&vec![("kind", kind.to_owned())])
                .set(count(blocked));
        }
        self.misplaced.clear();
        for (code, nodes) in &overview.misplaced {
            self.misplaced
                .get_or_create(&vec![("reason", (*code).to_owned())])
                .set(count(*nodes));
        }
        self.findings.clear();
        // An alert on a number that is absent never fires, and never resolves either.
        let always = ["block-held-twice", "address-held-twice"]
            .map(|rule| ((Severity::Error, Rule(rule)), 0));
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

    /// Replaces the numbers of one pool.
    pub(super) fn pool(&self, name: &PoolName, pool: &PoolOverview) {
        let named = vec![("pool", name.to_string())];
        self.pool_nodes.get_or_create(&named).set(count(pool.nodes));
        self.pool_exhausted
            .get_or_create(&named)
            .set(truth(pool.exhausted.is_some()));
        for (family, counts) in &pool.blocks {
            for (state, blocks) in [
                ("used", counts.used),
                ("reserved", counts.reserved),
                ("free", counts.free),
            ] {
                let labels = vec![
                    ("pool", name.to_string()),
                    ("family", family.to_string()),
                    ("state", state.to_owned()),
                ];
                self.pool_blocks.get_or_create(&labels).set(float(blocks));
            }
        }
    }

    fn waiting(&self, waiting: &Waiting) {
        for (hazard, name) in [
            (Hazard::None, "none"),
            (Hazard::Disruptive, "disruptive"),
            (Hazard::Destructive, "destructive"),
        ] {
            let number = waiting
                .for_a_person
                .iter()
                .filter(|change| change.hazard == hazard)
                .count();
            self.waiting
                .get_or_create(&vec![("hazard", name.to_owned())])
                .set(count(number));
        }
    }
}
