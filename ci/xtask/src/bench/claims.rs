//! `bench claims`: what claims cost an apply, on a real API server: the product's own apply with
//! them and without.
//!
//! Both run in this process by turns, each on freshly created Nodes; without them, nothing of the
//! claims is read or written. Only here can they be left out: the tool has no such flag.

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
    Cluster, ClusterError, LeaseName, Listener, LockSeen, Moment, Seen, Target, Write, WriteError,
    Written,
};
use ipam_controller::apply::Stop;
use ipam_controller::{
    BATCH, Job, Loaded, LostRaces, Sending, apply_until_settled, load, observe_and_plan,
};

/// What the README promises.
pub const NODES: usize = 5_000;
const COST_LIMIT: f64 = 5.0;
const ROUNDS: usize = 5;
const CONNECTIONS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Claims {
    Kept,
    LeftOut,
}

/// A cluster in which claims may be left out, and in which it is measured how long they are
/// written.
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
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        match (kind, self.claims) {
            (ObservedKind::Claims, Claims::LeftOut) => Ok(Seen::All),
            _ => self.cluster.list(kind, namespace, moment, listener).await,
        }
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

    async fn finish(&self) -> Result<(), ClusterError> {
        self.cluster.finish().await
    }
}

/// One apply.
struct Run {
    /// Nodes per second, from looking at the cluster to the last write.
    rate: f64,
    /// Time that the claims were being written, in percent of all.
    claiming_percent: f64,
}

/// Runs it and prints its line: what claims cost, and, as rates vary from run to run by more than
/// that, how long claims are being written, which they cannot cost more than but for the little
/// that this process computes.
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
        parallelism,
        lost_races: LostRaces::PlannedAgain,
        stop: &stop,
        on_event: &mut |_| {},
    };
    let (applied, failure) =
        apply_until_settled(cluster, &job, observed, plan.changes, &mut sending).await;
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
