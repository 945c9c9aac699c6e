//! `bench claims`: what claims cost an apply, on a real API server: the product's own apply with them and without.
//!
//! Both run in this process by turns, each on freshly created Nodes; without them, nothing of the claims is read or
//! written. Only here can they be left out: the tool has no such flag.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use cilium_ipam::apply::Stop;
use cilium_ipam::cluster::live::{Connection, LiveCluster};
use cilium_ipam::cluster::{
    Cluster, ClusterError, Listener, LockSeen, Moment, Seen, Target, Write, WriteError, Written,
};
use cilium_ipam::observed::{ObjectVersion, ObservedKind};
use cilium_ipam::run::{BATCH, Job, Loaded, Sending, apply_until_settled, load, observe_and_plan};
use testbed::ControlPlane;
use xtask::line::Line;
use xtask::pools::Pools;
use xtask::{cluster, fleet};

use crate::samples::Samples;

/// What the README promises.
pub const NODES: usize = 5_000;
const COST_LIMIT: f64 = 5.0;
const ROUNDS: usize = 3;
const CONNECTIONS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Claims {
    Kept,
    LeftOut,
}

/// A cluster in which claims are left out.
struct WithoutClaims(LiveCluster);

impl Cluster for WithoutClaims {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        match kind {
            ObservedKind::Claims => Ok(Seen::All),
            _ => self.0.list(kind, namespace, moment, listener).await,
        }
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        match write.target {
            Target::Claims => {
                Ok(Written { version: ObjectVersion { uid: String::new(), resource_version: String::new() } })
            }
            Target::Node(_) | Target::Lock => self.0.write(write).await,
        }
    }

    async fn lock(&self) -> Result<LockSeen, ClusterError> {
        self.0.lock().await
    }

    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        self.0.finish().await
    }
}

/// Runs it and prints its line.
pub fn run(nodes: usize) -> Result<()> {
    let plane = cluster::start()?;
    let pools = Pools::racks()?;
    let loaded = load(Path::new(pools.path()));
    ensure!(!loaded.has_errors(), "the pools have faults");
    let (mut with, mut without) = (Samples::default(), Samples::default());
    for round in 0..ROUNDS {
        eprintln!("bench claims: round {} of {ROUNDS}, twice {nodes} Nodes", round + 1);
        for turn in 0..2 {
            fleet::create_nodes(&plane, 0..nodes)?;
            let claims = if (round + turn) % 2 == 0 { Claims::Kept } else { Claims::LeftOut };
            let rate = apply(&plane, &loaded, claims, nodes)?;
            if claims == Claims::Kept {
                with.add(rate)
            } else {
                without.add(rate)
            }
            plane.delete("/api/v1/nodes")?;
        }
    }
    println!("apply with claims, nodes/s: {}", with.spread());
    println!("apply without, nodes/s: {}", without.spread());
    let cost = (1.0 - with.median() / without.median()) * 100.0;
    Line::new("claims")
        .with("nodes", nodes)
        .at_most("cost_percent", cost, "limit", COST_LIMIT)
        .measured("with_per_s", with.median())
        .measured("without_per_s", without.median())
        .print();
    Ok(())
}

/// Nodes per second, from looking at the cluster to the last write.
fn apply(plane: &ControlPlane, loaded: &Loaded, claims: Claims, nodes: usize) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let connection = Connection {
        kubeconfig: Some(plane.kubeconfig().to_owned()),
        context: None,
        patience: std::time::Duration::from_secs(30),
    };
    let seconds = runtime.block_on(async {
        let cluster = LiveCluster::connect(connection).await?;
        let start = Instant::now();
        match claims {
            Claims::Kept => apply_all(&cluster, loaded, nodes).await?,
            Claims::LeftOut => apply_all(&WithoutClaims(cluster), loaded, nodes).await?,
        }
        anyhow::Ok(start.elapsed().as_secs_f64())
    })?;
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    let nodes = nodes as f64;
    Ok(nodes / seconds)
}

async fn apply_all<C: Cluster>(cluster: &C, loaded: &Loaded, nodes: usize) -> Result<()> {
    let job = Job::files(loaded);
    let (observed, plan) = observe_and_plan(cluster, &job).await?;
    let stop = Stop::default();
    let parallelism = NonZeroUsize::new(CONNECTIONS).context("no connections")?;
    let mut sending = Sending { batch: BATCH, parallelism, stop: &stop, on_event: &mut |_| {} };
    let (applied, failure) = apply_until_settled(cluster, &job, observed, plan.changes, &mut sending).await;
    if let Some(error) = failure {
        bail!(error);
    }
    ensure!(applied.applied() == nodes, "{} of {nodes} Nodes were written", applied.applied());
    Ok(())
}
