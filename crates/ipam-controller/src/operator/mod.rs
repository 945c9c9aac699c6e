//! The operator: what `watch` does, from custom resources instead of files, by one of several
//! replicas, and told in the cluster.

mod leader;
mod objects;
mod status_writer;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use self::leader::Candidate;
use self::objects::{ObjectSource, Objects};
use self::status_writer::{StatusWriter, Voice};
use super::{ControllerEvent, Loaded, OnEvent, OpenStack, Server, Source, Telemetry, Watch, watch};
use ipam_cluster::ClusterCache;
use ipam_cluster::live::LiveCluster;

/// How it runs.
pub struct Operator {
    /// The cluster that it works in.
    pub cluster: LiveCluster,
    /// The same, with less patience: a sign of life that comes late is worth nothing.
    pub hasty: LiveCluster,
    /// Who it is among its replicas; no two are the same.
    pub identity: String,
    /// How often it is planned when nothing happens.
    pub interval: Duration,
    /// Writes that are under way at the same time.
    pub parallelism: NonZeroUsize,
    /// What machines are told.
    pub telemetry: Arc<Telemetry>,
    /// Where they ask.
    pub server: Server,
    /// Who is asked for subnets.
    pub openstack: OpenStack,
}

/// Runs until `ending` comes.
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
    // Those who stand by follow the cluster, too: should it be restored from a backup, they know
    // what it forgot.
    let cache = ClusterCache::new(cluster.clone());
    tokio::select! {
        never = cache.keep() => match never {},
        never = objects.keep(cluster) => match never {},
        never = read_anew_with(&cache, &objects) => match never {},
        never = objects.keep_reading(cluster) => match never {},
        never = server.serve(telemetry) => match never {},
        never = status_writer.keep_statuses(cluster) => match never {},
        never = status_writer.keep_events(cluster, events) => match never {},
        () = terms(&operator, &cache, &objects, &status_writer, &candidate, ending, &mut on_event) => {}
    }
}

/// Who stands by does so, too: it may lead next.
async fn read_anew_with(cache: &ClusterCache<LiveCluster>, objects: &Objects) -> Infallible {
    loop {
        cache.went_back().await;
        objects.read_anew();
    }
}

/// Whether there is a next term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    StandsBy,
    Ends,
}

/// One term as the leader after the other.
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
        let mut on_standby = |leader: &str| on_event(ControllerEvent::StandsBy(leader));
        let mut leadership = tokio::select! {
            leadership = candidate.elected(&mut on_standby) => leadership,
            () = &mut ending => return,
        };
        on_event(ControllerEvent::Leads);
        status_writer.give(Voice::Speaks);
        let lost = Notify::new();
        let leading = async {
            candidate.lead(&mut leadership).await;
            status_writer.give(Voice::IsSilent);
            lost.notify_one();
            std::future::pending::<Infallible>().await
        };
        let next = tokio::select! {
            next = term(operator, cache, objects, ending.as_mut(), &lost, on_event) => next,
            never = leading => match never {},
        };
        status_writer.give(Voice::IsSilent);
        if next == Next::Ends {
            candidate.resign().await;
            return;
        }
        on_event(ControllerEvent::StandsBy("lost the Lease"));
    }
}

/// Works until the Lease is lost or all ends; writes that are under way are waited for.
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
        () = lost.notified() => return Next::StandsBy,
        () = &mut ending => return Next::Ends,
    };
    let watching = Watch {
        source,
        // Who waives a limit is there to see what comes of it.
        waivers: BTreeSet::new(),
        interval: operator.interval,
        parallelism: operator.parallelism,
        holder: operator.identity.clone(),
        openstack: operator.openstack.clone(),
    };
    let mut next = Next::Ends;
    let until = async {
        tokio::select! {
            () = lost.notified() => next = Next::StandsBy,
            () = &mut ending => {}
        }
    };
    watch(cache, watching, first, until, on_event).await;
    next
}

/// The last objects without faults, from before this term if need be. Before there were any,
/// nothing is known of what should be, and nothing is done.
async fn first(objects: &Objects, source: &mut ObjectSource, on_event: &mut OnEvent<'_>) -> Loaded {
    let mut told = None;
    loop {
        let (good, faulty) = objects.good();
        if let Some(good) = good {
            let Some(faulty) = faulty else { return good };
            // So that it is told.
            objects.tell_again();
            return good.paused_by(&faulty).unwrap_or(good);
        }
        if let Some(faulty) = faulty.filter(|faulty| told.as_ref() != Some(&faulty.findings)) {
            on_event(ControllerEvent::Invalid(&faulty));
            told = Some(faulty.findings);
        }
        source.next().await;
    }
}
