//! `bench claims`: the cost of claims in an apply on a real API server: the product's own apply
//! with claims, against the same without.
//!
//! Both run in this process, alternating, each on new Nodes. Without claims, nothing of them is
//! read or written. Only this benchmark can leave them out: the tool has no such flag.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testbed::ControlPlane;
use xtask::line::Line;
use xtask::pools::Pools;
use xtask::{cluster, fleet};

use crate::samples::Samples;
use ipam_cilium::observed::{ObjectVersion, ObservedKind};
use ipam_cluster::live::{Connection, LiveCluster};
use ipam_cluster::{
    Cluster, ClusterError, LeaseName, ListVisitor, LockSeen, Moment, Seen, Target, Write,
    WriteError, Written,
};
use ipam_controller::apply::Stop;
use ipam_controller::{
    BATCH, Job, Loaded, NoPorts, OnConflict, Sending, apply_until_settled, load, observe_and_plan,
};

/// The size of the documented figure.
pub const NODES: usize = 5_000;
const COST_LIMIT: f64 = 5.0;
const ROUNDS: usize = 5;
const CONNECTIONS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Claims {
    Kept,
    LeftOut,
}

/// A cluster that can leave claims out, and that measures the time of their writes.
struct Watched {
    cluster: LiveCluster,
    claims: Claims,
    claiming: Mutex<Duration>,
}

impl Watched {
    async fn write_claims(&self, write: &Write) -> Result<Written, WriteError> {
        if self.claims == Claims::LeftOut {
            return Ok(Written {
                version: ObjectVersion {
                    uid: String::new(),
                    resource_version: String::new(),
                },
            });
        }
        let start = Instant::now();
        let written = self.cluster.write(write).await;
        *self.claiming.lock().unwrap_or_else(PoisonError::into_inner) += start.elapsed();
        written
    }
}

impl Cluster for Watched {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        match (kind, self.claims) {
            (ObservedKind::Claims, Claims::LeftOut) => Ok(Seen::All),
            _ => self.cluster.list(kind, namespace, moment, visitor).await,
        }
    }

    fn cilium_namespace(&self) -> Option<&str> {
        self.cluster.cilium_namespace()
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        match write.target {
            Target::Claims => self.write_claims(write).await,
            _ => self.cluster.write(write).await,
        }
    }

    async fn lock(&self, name: LeaseName) -> Result<LockSeen, ClusterError> {
        self.cluster.lock(name).await
    }

    fn now(&self) -> jiff::Timestamp {
        self.cluster.now()
    }
}

/// One apply.
struct Run {
    /// Nodes per second, from the observation of the cluster to the last write.
    rate: f64,
    /// Time of the claims' writes, in percent of the apply.
    claiming_percent: f64,
}

/// Measures the cost of claims. Rates vary between runs by more than that cost, so it also measures
/// the time of the claims' writes, which bounds the cost except for a little computation.
pub fn run(nodes: usize) -> Result<()> {
    let plane = cluster::start()?;
    let pools = Pools::racks()?;
    let loaded = load(&Path::new(pools.path()).into());
    ensure!(!loaded.has_errors(), "the pools have faults");
    let (mut with, mut without, mut claiming) =
        (Samples::default(), Samples::default(), Samples::default());
    for round in 0..ROUNDS {
        eprintln!(
            "bench claims: round {} of {ROUNDS}, twice {nodes} Nodes",
            round + 1
        );
        for turn in 0..2 {
            fleet::create_nodes(&plane, 0..nodes)?;
            let claims = if (round + turn) % 2 == 0 {
                Claims::Kept
            } else {
                Claims::LeftOut
            };
            let run = apply(&plane, &loaded, claims, nodes)?;
            match claims {
                Claims::Kept => {
                    with.add(run.rate);
                    claiming.add(run.claiming_percent);
                }
                Claims::LeftOut => without.add(run.rate),
            }
            plane.delete("/api/v1/nodes")?;
        }
    }
    println!("apply with claims, nodes/s: {}", with.spread());
    println!("apply without, nodes/s: {}", without.spread());
    println!(
        "writing claims, most of it while nodes are written, in percent of the time: {}",
        claiming.spread()
    );
    let cost = (1.0 - with.median() / without.median()) * 100.0;
    Line::new("claims")
        .with("nodes", nodes)
        .at_most("cost_percent", cost, "limit", COST_LIMIT)
        .measured("with_per_s", with.median())
        .measured("without_per_s", without.median())
        .at_most(
            "claiming_percent",
            claiming.max(),
            "claiming_limit",
            COST_LIMIT,
        )
        .print();
    Ok(())
}

fn apply(plane: &ControlPlane, loaded: &Loaded, claims: Claims, nodes: usize) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let connection = Connection {
        kubeconfig: Some(plane.kubeconfig().to_owned()),
        context: None,
        cilium_namespace: None,
        patience: Duration::from_secs(30),
    };
    runtime.block_on(async {
        let cluster = LiveCluster::connect(connection).await?;
        let cluster = Watched {
            cluster,
            claims,
            claiming: Mutex::default(),
        };
        let start = Instant::now();
        apply_all(&cluster, loaded, nodes).await?;
        let seconds = start.elapsed().as_secs_f64();
        let claiming = cluster
            .claiming
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
        let rate = nodes as f64 / seconds;
        Ok(Run {
            rate,
            claiming_percent: claiming / seconds * 100.0,
        })
    })
}

async fn apply_all(cluster: &Watched, loaded: &Loaded, nodes: usize) -> Result<()> {
    let job = Job::files(loaded);
    let (observed, plan) = observe_and_plan(cluster, &job).await?;
    let stop = Stop::default();
    let parallelism = NonZeroUsize::new(CONNECTIONS).context("no connections")?;
    let mut sending = Sending {
        batch: BATCH,
        limit: parallelism.into(),
        on_conflict: OnConflict::Replan,
        stop: &stop,
        on_event: &mut |_| {},
    };
    let (applied, failure) = apply_until_settled(
        cluster,
        &NoPorts,
        &job,
        observed,
        plan.changes,
        &mut sending,
    )
    .await;
    if let Some(error) = failure {
        bail!(error);
    }
    ensure!(
        applied.applied() == nodes,
        "{} of {nodes} Nodes were written",
        applied.applied()
    );
    Ok(())
}
