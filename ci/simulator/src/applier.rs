//! One apply, as a future. Dropping it at any point is a crash.

use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ipam_cluster::Cluster;
use ipam_controller::apply::Stop;
use ipam_controller::{
    Job, Loaded, NoPorts, OnConflict, Sending, apply_until_settled, observe_and_plan,
};
use ipam_planner::plan::Plan;

/// Outcome of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Number of changes in the cluster.
    Applied(usize),
    /// The cluster could not be read, or the claims not be stored.
    Failed,
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

impl<'a> Applier<'a> {
    pub(crate) fn start<C: Cluster + Send + 'a>(
        cluster: C,
        loaded: &'a Loaded,
        speed: Speed,
    ) -> Applier<'a> {
        Applier {
            future: Box::pin(apply(cluster, loaded, speed)),
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
    Speed { batch, parallelism }: Speed,
) -> Ended {
    let job = Job::files(loaded);
    let Ok((observed, plan)) = observe_and_plan(&cluster, &job).await else {
        return Ended::Failed;
    };
    let stop = Stop::default();
    let mut sending = Sending {
        batch,
        parallelism,
        on_conflict: OnConflict::Replan,
        stop: &stop,
        on_event: &mut |_| {},
    };
    let sent = apply_until_settled(
        &cluster,
        &NoPorts,
        &job,
        observed,
        plan.changes,
        &mut sending,
    );
    match sent.await {
        (applied, None) => Ended::Applied(applied.applied()),
        (_, Some(_)) => Ended::Failed,
    }
}

/// The plan of this moment, without steps of others in between.
pub(crate) fn plan_now<C: Cluster>(cluster: &C, loaded: &Loaded) -> Option<Plan> {
    let job = Job::files(loaded);
    let mut future = Box::pin(observe_and_plan(cluster, &job));
    loop {
        if let Poll::Ready(outcome) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return outcome.ok().map(|(_, plan)| plan);
        }
    }
}
