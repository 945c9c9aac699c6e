//! The operator: does what `watch` does, but from custom resources, in the replica that leads, and
//! reports in the cluster. It decides nothing about blocks.
//!
//! The holder of the Lease leads, the others stand by. The Lease must never guard writes: only the
//! claims keep blocks unique.

mod objects;
mod status_writer;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use self::objects::{ObjectSource, Objects};
use self::status_writer::{StatusWriter, WriterMode};
use super::lease::{Attempt, Held, Lease, Lock, OtherHolder, Timing};
use super::{
    ControllerEvent, HttpServer, Loaded, OnEvent, OpenStack, Parallelism, Source, Telemetry, Watch,
    watch,
};
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Cluster, ClusterCache, LeaseName, Trouble};
use retry::jittered;

/// How the operator runs.
pub struct Operator {
    pub cluster: LiveCluster,
    /// A client of the same cluster with a short timeout, for renewals: a late one is useless.
    pub hasty: LiveCluster,
    /// Identity of this replica in the Lease; no two replicas have the same.
    pub identity: String,
    /// Longest time between two plans.
    pub interval: Duration,
    /// Limit of the writes in flight at the same time.
    pub parallelism: Parallelism,
    /// Metrics and health of the operator.
    pub telemetry: Arc<Telemetry>,
    /// Server that serves the telemetry.
    pub server: HttpServer,
    /// OpenStack client that reads subnets.
    pub openstack: OpenStack,
}

/// Runs until `ending` is ready.
pub async fn operate(
    operator: Operator,
    ending: impl Future<Output = ()> + Send,
    on_event: &mut OnEvent<'_>,
) {
    let objects = Arc::new(Objects::new());
    let Operator {
        cluster,
        hasty,
        identity,
        telemetry,
        server,
        ..
    } = &operator;
    let (status_writer, events) =
        StatusWriter::new(objects.clone(), telemetry.clone(), identity.clone());
    let mut on_event = |event: ControllerEvent<'_>| {
        telemetry.on_event(&event);
        status_writer.on_event(&event);
        on_event(event);
    };
    let candidate = Candidate::new(hasty, identity.clone());
    let ending = std::pin::pin!(ending);
    // Standbys follow the cluster too: after a restored backup they know what it forgot.
    let cache = ClusterCache::new(cluster.clone());
    tokio::select! {
        never = cache.keep() => match never {},
        never = objects.keep(cluster) => match never {},
        never = relist_after_rollback(&cache, &objects) => match never {},
        never = objects.keep_checked(cluster) => match never {},
        never = server.serve(telemetry) => match never {},
        never = status_writer.keep_statuses(cluster) => match never {},
        never = status_writer.keep_events(cluster, events) => match never {},
        () = terms(&operator, &cache, &objects, &status_writer, &candidate, ending, &mut on_event) => {}
    }
}

/// Standbys do this too, because one may lead next.
async fn relist_after_rollback(cache: &ClusterCache<LiveCluster>, objects: &Objects) -> Infallible {
    loop {
        cache.went_back().await;
        objects.relist();
    }
}

/// What the operator does after a term as leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Standby,
    End,
}

/// Leads term after term.
async fn terms(
    operator: &Operator,
    cache: &ClusterCache<LiveCluster>,
    objects: &Arc<Objects>,
    status_writer: &StatusWriter,
    candidate: &Candidate<'_, LiveCluster>,
    mut ending: std::pin::Pin<&mut (impl Future<Output = ()> + Send)>,
    on_event: &mut OnEvent<'_>,
) {
    loop {
        let mut on_election = |election: Election<'_>| {
            on_event(match election {
                Election::Leader(leader) => ControllerEvent::Standby(leader),
                Election::Trouble(why) => ControllerEvent::Unhealthy(why),
                Election::Recovered => ControllerEvent::Recovered,
            });
        };
        let mut held = tokio::select! {
            held = candidate.elected(&mut on_election) => held,
            () = &mut ending => return,
        };
        on_event(ControllerEvent::Leading);
        status_writer.set_mode(WriterMode::Active);
        let lost = Notify::new();
        let leading = async {
            candidate.lead(&mut held).await;
            status_writer.set_mode(WriterMode::Paused);
            lost.notify_one();
            std::future::pending::<Infallible>().await
        };
        let next = tokio::select! {
            next = term(operator, cache, objects, ending.as_mut(), &lost, on_event) => next,
            never = leading => match never {},
        };
        status_writer.set_mode(WriterMode::Paused);
        if next == Next::End {
            candidate.resign().await;
            return;
        }
        on_event(ControllerEvent::Standby("lost the Lease"));
    }
}

/// Works until the Lease is lost or `ending` is ready, and waits for writes in flight.
async fn term(
    operator: &Operator,
    cache: &ClusterCache<LiveCluster>,
    objects: &Arc<Objects>,
    mut ending: std::pin::Pin<&mut (impl Future<Output = ()> + Send)>,
    lost: &Notify,
    on_event: &mut OnEvent<'_>,
) -> Next {
    let mut source = ObjectSource(objects.clone());
    let first = tokio::select! {
        first = first(objects, &mut source, on_event) => first,
        () = lost.notified() => return Next::Standby,
        () = &mut ending => return Next::End,
    };
    let watching = Watch {
        source,
        // A waiver needs a person who watches the result.
        waivers: BTreeSet::new(),
        interval: operator.interval,
        parallelism: operator.parallelism,
        holder: operator.identity.clone(),
        openstack: operator.openstack.clone(),
    };
    let mut next = Next::End;
    let until = async {
        tokio::select! {
            () = lost.notified() => next = Next::Standby,
            () = &mut ending => {}
        }
    };
    watch(cache, watching, first, until, on_event).await;
    next
}

/// The last valid objects, also from before this term. Waits for the first valid ones: without them
/// nothing may be done.
async fn first(objects: &Objects, source: &mut ObjectSource, on_event: &mut OnEvent<'_>) -> Loaded {
    let mut reported = None;
    loop {
        let (good, invalid) = objects.good();
        if let Some(good) = good {
            let Some(invalid) = invalid else { return good };
            // The source reports the invalid ones.
            objects.repeat_last();
            return good.paused_by(&invalid).unwrap_or(good);
        }
        if let Some(invalid) =
            invalid.filter(|invalid| reported.as_ref() != Some(&invalid.findings))
        {
            on_event(ControllerEvent::Invalid(&invalid));
            reported = Some(invalid.findings);
        }
        source.next().await;
    }
}

/// What a candidate for the leadership learns while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Election<'e> {
    /// Another process leads: its identity.
    Leader(&'e str),
    /// The Lease cannot be read or written, and why.
    Trouble(&'e Trouble),
    /// The Lease can be read and written again.
    Recovered,
}

/// A process that wants to lead.
#[derive(Debug)]
pub(super) struct Candidate<'c, C> {
    lease: Lease<'c, C>,
}

impl<'c, C: Cluster> Candidate<'c, C> {
    pub(super) fn new(cluster: &'c C, identity: String) -> Candidate<'c, C> {
        let lease = Lease {
            cluster,
            name: LeaseName::Leader,
            identity,
            operation: "operator".to_owned(),
            timing: Timing::LEADER,
        };
        Candidate { lease }
    }

    /// Waits until this process leads. Calls `on_election` with what changes meanwhile.
    pub(super) async fn elected(&self, on_election: &mut (dyn FnMut(Election<'_>) + Send)) -> Held {
        let mut other: Option<OtherHolder> = None;
        let mut leader: Option<String> = None;
        let mut trouble: Option<Trouble> = None;
        loop {
            let attempt = match self.lease.try_acquire(&mut other).await {
                Ok(Attempt::Done(Lock::Unavailable(why))) => Err(why),
                Ok(attempt) => Ok(attempt),
                Err(error) => Err(Trouble::from(&error)),
            };
            match attempt {
                Err(why) => {
                    if trouble.as_ref() != Some(&why) {
                        on_election(Election::Trouble(&why));
                    }
                    trouble = Some(why);
                }
                Ok(attempt) => {
                    if trouble.take().is_some() {
                        on_election(Election::Recovered);
                    }
                    if let Attempt::Done(Lock::Held(held)) = attempt {
                        return held;
                    }
                }
            }
            let holder = other.as_ref().map(|other| other.record().holder.clone());
            if let Some(holder) = holder.filter(|holder| leader.as_ref() != Some(holder)) {
                on_election(Election::Leader(&holder));
                leader = Some(holder);
            }
            sleep(jittered(self.lease.timing.poll, &mut fastrand::Rng::new())).await;
        }
    }

    /// Renews the Lease of the leader until it is lost.
    pub(super) async fn lead(&self, held: &mut Held) {
        self.lease.renew(held).await;
    }

    /// Lets another operator lead at once.
    pub(super) async fn resign(&self) {
        self.lease.release().await;
    }
}
