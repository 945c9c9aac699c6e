//! One apply, as a future that can be dropped at any point: that is a crash.

use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ipam_cluster::Cluster;
use ipam_controller::apply::Stop;
use ipam_controller::{Job, Loaded, LostRaces, Sending, apply_until_settled, observe_and_plan};
use ipam_planner::plan::Plan;

/// What an apply came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// So many changes are in the cluster.
    Applied(usize),
    /// The cluster could not be read, or the claims not be kept.
    Failed,
}

/// How much an apply does at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    pub(crate) batch: NonZeroUsize,
    pub(crate) parallelism: NonZeroUsize,
}

/// An apply that runs.
pub(crate) struct Applier<'a> {
    future: Pin<Box<dyn Future<Output = Ended> + Send + 'a>>,
    /// Steps for which it sleeps.
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

    /// Lets it do one step.
    pub(crate) fn step(&mut self) -> Poll<Ended> {
        self.future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    }
}

async fn apply<C: Cluster>(
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
        lost_races: LostRaces::PlannedAgain,
        stop: &stop,
        on_event: &mut |_| {},
    };
    match apply_until_settled(&cluster, &job, observed, plan.changes, &mut sending).await {
        (applied, None) => Ended::Applied(applied.applied()),
        (_, Some(_)) => Ended::Failed,
    }
}

/// What would be planned now, with nobody in between.
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
