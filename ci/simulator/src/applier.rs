//! One apply or undo, as a future. Dropping it at any point is a crash.

use std::collections::BTreeSet;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use fastrand::Rng;

use ipam_cilium::observed::Observed;
use ipam_cluster::Cluster;
use ipam_controller::apply::Stop;
use ipam_controller::{
    Job, Loaded, NoPorts, OnConflict, Sending, apply_until_settled, observe_and_plan,
};
use ipam_plan::plan::{
    Change, NodeChange, Plan, PlanDocument, Staleness, node_changes, still_wanted,
};
use worlds::invariants::{Broken, of_plan};

/// Outcome of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Number of changes in the cluster.
    Applied(usize),
    /// The cluster could not be read, or the claims not be stored.
    Failed,
    /// The undo plan does not fit the cluster any more.
    Stale,
}

/// How many changes an apply claims and writes at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    pub(crate) batch: NonZeroUsize,
    pub(crate) parallelism: NonZeroUsize,
}

/// A running apply.
pub(crate) struct Applier<'a> {
    future: Pin<Box<dyn Future<Output = Ended> + Send + 'a>>,
    /// Number of steps for which it sleeps.
    pub(crate) paused: u32,
}

/// The undo plans that applies left, as files that a person may use later.
#[derive(Clone, Debug, Default)]
pub(crate) struct UndoFiles(Arc<Mutex<Vec<PlanDocument>>>);

impl UndoFiles {
    fn lock(&self) -> MutexGuard<'_, Vec<PlanDocument>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the plan that undoes these changes, if any can be undone.
    fn add(&self, changes: &[&Change], loaded: &Loaded, observed: &Observed) {
        let nodes: Vec<&NodeChange> = node_changes(changes.iter().copied()).collect();
        let undo = PlanDocument::undoing(&nodes, "pools", &loaded.desired, observed);
        if !undo.changes.is_empty() {
            self.lock().push(undo);
        }
    }

    /// One of them.
    pub(crate) fn choose(&self, rng: &mut Rng) -> Option<PlanDocument> {
        let files = self.lock();
        (!files.is_empty()).then(|| files[rng.usize(..files.len())].clone())
    }
}

impl<'a> Applier<'a> {
    pub(crate) fn start<C: Cluster + Send + 'a>(
        cluster: C,
        loaded: &'a Loaded,
        speed: Speed,
        undo_files: UndoFiles,
    ) -> Applier<'a> {
        Applier {
            future: Box::pin(apply(cluster, loaded, speed, undo_files)),
            paused: 0,
        }
    }

    /// Undoes an earlier apply.
    pub(crate) fn undo<C: Cluster + Send + 'a>(
        cluster: C,
        loaded: &'a Loaded,
        saved: PlanDocument,
        speed: Speed,
    ) -> Applier<'a> {
        Applier {
            future: Box::pin(undo(cluster, loaded, saved, speed)),
            paused: 0,
        }
    }

    /// Polls it once.
    pub(crate) fn step(&mut self) -> Poll<Ended> {
        self.future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    }
}

pub(crate) async fn apply<C: Cluster>(
    cluster: C,
    loaded: &Loaded,
    speed: Speed,
    undo_files: UndoFiles,
) -> Ended {
    let job = Job::files(loaded);
    let Ok((observed, plan)) = observe_and_plan(&cluster, &job).await else {
        return Ended::Failed;
    };
    // As the program does it: before the first write.
    let changes: Vec<&Change> = plan.changes.iter().collect();
    undo_files.add(&changes, loaded, &observed);
    send(&cluster, &job, observed, plan.changes, speed).await
}

async fn undo<C: Cluster>(cluster: C, loaded: &Loaded, saved: PlanDocument, speed: Speed) -> Ended {
    let waivers = BTreeSet::new();
    let job = Job::saved(loaded, Some(&saved), &waivers);
    let Ok((observed, plan)) = observe_and_plan(&cluster, &job).await else {
        return Ended::Failed;
    };
    match still_wanted(&saved, &plan, &observed) {
        Staleness::Current { changes, .. } => send(&cluster, &job, observed, changes, speed).await,
        Staleness::Stale(_) => Ended::Stale,
    }
}

async fn send<C: Cluster>(
    cluster: &C,
    job: &Job<'_>,
    observed: Observed,
    changes: Vec<Change>,
    Speed { batch, parallelism }: Speed,
) -> Ended {
    let stop = Stop::default();
    let mut sending = Sending {
        batch,
        limit: parallelism.into(),
        on_conflict: OnConflict::Replan,
        stop: &stop,
        on_event: &mut |_| {},
    };
    let sent = apply_until_settled(cluster, &NoPorts, job, observed, changes, &mut sending);
    match sent.await {
        (applied, None) => Ended::Applied(applied.applied()),
        (_, Some(_)) => Ended::Failed,
    }
}

/// The plan of this moment, without steps of others in between, and what is broken in it.
pub(crate) fn plan_now<C: Cluster>(cluster: &C, loaded: &Loaded) -> Option<(Plan, Vec<Broken>)> {
    let job = Job::files(loaded);
    let mut future = Box::pin(observe_and_plan(cluster, &job));
    loop {
        if let Poll::Ready(outcome) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            let (observed, plan) = outcome.ok()?;
            let broken = of_plan(&plan, &loaded.desired, &observed);
            return Some((plan, broken));
        }
    }
}
