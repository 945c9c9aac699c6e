//! The operator: what `watch` does, from custom resources instead of files, by one of several
//! replicas, and told in the cluster.

mod bulletin;
mod leader;
mod objects;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use self::bulletin::{Bulletin, Voice};
use self::leader::Candidate;
use self::objects::{ObjectSource, Objects};
use super::{Loaded, News, OnNews, OpenStack, Server, Source, Telemetry, Watch, watch};
use ipam_cluster::Mirror;
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
    on_news: &mut OnNews<'_>,
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
    let (bulletin, events) = Bulletin::new(objects.clone(), telemetry.clone(), identity.clone());
    let mut hear = |news: News<'_>| {
        telemetry.hear(&news);
        bulletin.hear(&news);
        on_news(news);
    };
    let candidate = Candidate::new(hasty, identity.clone());
    let ending = std::pin::pin!(ending);
    // Those who stand by follow the cluster, too: should it be restored from a backup, they know
    // what it forgot.
    let mirror = Mirror::new(cluster.clone());
    tokio::select! {
        never = mirror.keep() => match never {},
        never = objects.keep(cluster) => match never {},
        never = read_anew_with(&mirror, &objects) => match never {},
        never = objects.keep_reading(cluster) => match never {},
        never = server.serve(telemetry) => match never {},
        never = bulletin.keep_statuses(cluster) => match never {},
        never = bulletin.keep_events(cluster, events) => match never {},
        () = terms(&operator, &mirror, &objects, &bulletin, &candidate, ending, &mut hear) => {}
    }
}

/// Who stands by does so, too: it may lead next.
async fn read_anew_with(mirror: &Mirror<LiveCluster>, objects: &Objects) -> Infallible {
    loop {
        mirror.went_back().await;
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
    mirror: &Mirror<LiveCluster>,
    objects: &Arc<Objects>,
    bulletin: &Bulletin,
    candidate: &Candidate<'_, LiveCluster>,
    mut ending: std::pin::Pin<&mut (impl Future<Output = ()> + Send)>,
    hear: &mut OnNews<'_>,
) {
    loop {
        let mut on_standby = |leader: &str| hear(News::StandsBy(leader));
        let mut leadership = tokio::select! {
            leadership = candidate.elected(&mut on_standby) => leadership,
            () = &mut ending => return,
        };
        hear(News::Leads);
        bulletin.give(Voice::Speaks);
        let lost = Notify::new();
        let leading = async {
            candidate.lead(&mut leadership).await;
            bulletin.give(Voice::IsSilent);
            lost.notify_one();
            std::future::pending::<Infallible>().await
        };
        let next = tokio::select! {
            next = term(operator, mirror, objects, ending.as_mut(), &lost, hear) => next,
            never = leading => match never {},
        };
        bulletin.give(Voice::IsSilent);
        if next == Next::Ends {
            candidate.resign().await;
            return;
        }
        hear(News::StandsBy("lost the Lease"));
    }
}

/// Works until the Lease is lost or all ends; writes that are under way are waited for.
async fn term(
    operator: &Operator,
    mirror: &Mirror<LiveCluster>,
    objects: &Arc<Objects>,
    mut ending: std::pin::Pin<&mut (impl Future<Output = ()> + Send)>,
    lost: &Notify,
    hear: &mut OnNews<'_>,
) -> Next {
    let mut source = ObjectSource(objects.clone());
    let first = tokio::select! {
        first = first(objects, &mut source, hear) => first,
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
    watch(mirror, watching, first, until, hear).await;
    next
}

/// The last objects without faults, from before this term if need be. Before there were any,
/// nothing is known of what should be, and nothing is done.
async fn first(objects: &Objects, source: &mut ObjectSource, hear: &mut OnNews<'_>) -> Loaded {
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
            hear(News::Invalid(&faulty));
            told = Some(faulty.findings);
        }
        source.next().await;
    }
}
