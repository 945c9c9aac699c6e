//! The cache of `ipam-cluster` on a simulated cluster: what it lists, and what it reports, when.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Bookmarks, Clock, Disturbance, Faults, Revision, Serving, SimClient, SimCluster};
use ipam_cilium::observed::{ObjectVersion, ObservedKind, ReadError};
use ipam_cluster::{
    Cluster, ClusterCache, ClusterError, ListVisitor, Moment, Role, Seen, Uncached, Write,
    WriteError,
};
use ipam_core::claims::Claims;

/// The cache is in step again at the latest after this time without events.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The cache waits this long for its watches before it lists what lags.
const PATIENCE: Duration = Duration::from_millis(200);

/// The cache compares itself with the server this often, and waits this long for an answer. Two
/// comparisons without one are trouble.
const COMPARE: Duration = Duration::from_secs(10);
const COMPARE_TIMEOUT: Duration = Duration::from_secs(15);
const FAILURES_OF_TROUBLE: u32 = 2;

/// Reads a list for its moment alone.
struct Ignore;

impl ListVisitor for Ignore {
    fn object(&mut self, _json: &str) -> Result<(), ReadError> {
        Ok(())
    }
}

async fn list(cluster: &Uncached<'_, SimClient>, kind: ObservedKind) -> Result<Seen, ClusterError> {
    cluster.list(kind, "", &Moment::Latest, &mut Ignore).await
}

fn cluster(faults: Faults) -> SimCluster {
    fastrand::seed(7);
    let cluster = SimCluster::new(7, faults, Vec::new());
    for index in 0..3 {
        cluster.join(json!({"apiVersion": "v1", "kind": "Node", "spec": {},
            "metadata": {"name": format!("n{index}"), "creationTimestamp": "2026-01-01T00:00:00Z"}}));
    }
    cluster
}

/// Runs `work` beside the cache of a leader that has listed everything.
async fn with_leader(cluster: &SimCluster, work: impl AsyncFnOnce(&ClusterCache<SimClient>)) {
    let cache = ClusterCache::new(cluster.client(Arc::default(), Clock::Time));
    cache.set_role(Role::Leader);
    let work = async {
        while !cache.is_in_step() {
            sleep(Duration::from_secs(1)).await;
        }
        sleep(LONGEST_PAUSE).await;
        work(&cache).await;
    };
    tokio::select! {
        biased;
        never = cache.keep() => match never {},
        () = work => {}
    }
}

/// Another process, which writes claims.
struct Other {
    client: SimClient,
    version: Option<ObjectVersion>,
    revision: u32,
}

impl Other {
    fn of(cluster: &SimCluster) -> Other {
        Other {
            client: cluster.client(Arc::default(), Clock::Time),
            version: None,
            revision: 0,
        }
    }

    async fn write_claims(&mut self) -> Result<(), WriteError> {
        self.revision += 1;
        let revision = self.revision.to_string();
        let write = Write::claims(&Claims::default(), Some(&revision), self.version.as_ref());
        self.version = Some(self.client.write(&write).await?.version);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn claims_of_another_process_list_nothing_where_the_watches_catch_up() {
    let cluster = cluster(Faults::default());
    with_leader(&cluster, async |cache| {
        let mut other = Other::of(&cluster);
        let before = cluster.lists(ObservedKind::Node);
        for round in 0..20 {
            other.write_claims().await.unwrap();
            // As when it writes the Nodes that it claimed blocks for.
            for _ in 0..20 {
                cluster.disturb(Disturbance::Heartbeat);
                sleep(Duration::from_millis(100)).await;
            }
            assert!(cache.is_in_step(), "round {round}");
        }
        assert_eq!(cluster.lists(ObservedKind::Node) - before, 0);
    })
    .await;
}

/// Lists of the kinds that show blocks, and of one that does not.
fn lists(cluster: &SimCluster) -> [usize; 4] {
    [
        ObservedKind::Node,
        ObservedKind::CiliumNode,
        ObservedKind::CiliumNodeConfig,
        ObservedKind::CiliumDaemonSet,
    ]
    .map(|kind| cluster.lists(kind))
}

#[tokio::test(start_paused = true)]
async fn where_bookmarks_are_rare_the_quiet_kinds_are_listed_and_a_plan_waits_a_second_at_most() {
    let cluster = cluster(Faults {
        bookmarks: Bookmarks::Rare,
        ..Faults::default()
    });
    with_leader(&cluster, async |cache| {
        let mut other = Other::of(&cluster);
        let mut longest = Duration::ZERO;
        for round in 1..=20 {
            let before = lists(&cluster);
            other.write_claims().await.unwrap();
            let began = Instant::now();
            // The other process writes Nodes; the other kinds are quiet.
            cluster.disturb(Disturbance::Heartbeat);
            sleep(Duration::from_millis(50)).await;
            assert!(!cache.is_in_step(), "round {round}");
            while !cache.is_in_step() {
                sleep(Duration::from_millis(10)).await;
            }
            longest = longest.max(began.elapsed());
            let after = lists(&cluster);
            let made: Vec<usize> = after
                .iter()
                .zip(before)
                .map(|(now, then)| now - then)
                .collect();
            assert_eq!(made, [0, 1, 1, 0], "round {round}");
            sleep(Duration::from_secs(3)).await;
        }
        assert!(
            (PATIENCE..Duration::from_secs(1)).contains(&longest),
            "{longest:?}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn many_claims_of_another_process_list_only_what_lags_and_not_all_the_time() {
    let cluster = cluster(Faults {
        late_bookmark: 1000,
        ..Faults::default()
    });
    with_leader(&cluster, async |cache| {
        let mut other = Other::of(&cluster);
        let before = lists(&cluster);
        // Fewer than the events that the server remembers for a watch without bookmarks.
        let (rounds, every) = (150, Duration::from_millis(100));
        for _ in 0..rounds {
            other.write_claims().await.unwrap();
            sleep(every).await;
        }
        let after = lists(&cluster);
        let made: Vec<usize> = after
            .iter()
            .zip(before)
            .map(|(now, then)| now - then)
            .collect();
        let most = usize::try_from((every * rounds).as_millis() / PATIENCE.as_millis());
        assert!((1..=most.unwrap()).contains(&made[0]), "{made:?}");
        assert_eq!(made[3], 0, "nothing else is listed");
        sleep(Duration::from_secs(1)).await;
        assert!(cache.is_in_step());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_list_beside_the_cache_is_waited_for() {
    let cluster = cluster(Faults {
        bookmarks: Bookmarks::Rare,
        ..Faults::default()
    });
    with_leader(&cluster, async |cache| {
        cluster.disturb(Disturbance::Heartbeat);
        let seen = list(&cache.uncached(), ObservedKind::Node).await.unwrap();
        assert_eq!(seen, Seen::All);
        assert!(!cache.is_in_step(), "CiliumNodes are older than this list");
        sleep(Duration::from_secs(1)).await;
        assert!(cache.is_in_step());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_list_beside_the_cache_of_an_earlier_moment_is_refused() {
    let cluster = cluster(Faults::default());
    let saved = cluster.save();
    with_leader(&cluster, async |cache| {
        cluster.disturb(Disturbance::Heartbeat);
        sleep(Duration::from_secs(1)).await;
        cluster.serve(Serving::Down);
        cluster.restore(&saved, Revision::AsSaved);
        cluster.serve(Serving::Up);
        let listed = list(&cache.uncached(), ObservedKind::Claims).await;
        assert!(
            matches!(listed, Err(ClusterError::WentBack { .. })),
            "{listed:?}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drops_packets_is_trouble_until_it_answers() {
    let cluster = cluster(Faults::default());
    with_leader(&cluster, async |cache| {
        assert_eq!(cache.trouble(), None);
        let before = cluster.lists(ObservedKind::Node);
        cluster.serve(Serving::Silent);
        let noticed_by = FAILURES_OF_TROUBLE * (COMPARE + COMPARE_TIMEOUT);
        sleep(noticed_by + COMPARE).await;
        let trouble = cache.trouble().unwrap();
        assert!(trouble.text.contains("does not answer"), "{trouble:?}");
        cluster.serve(Serving::Up);
        sleep(COMPARE + COMPARE_TIMEOUT).await;
        assert_eq!(cache.trouble(), None);
        assert_eq!(
            cluster.lists(ObservedKind::Node),
            before,
            "it goes on from where it was"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_failed_comparison_is_no_trouble() {
    let cluster = cluster(Faults::default());
    with_leader(&cluster, async |cache| {
        cluster.serve(Serving::Silent);
        sleep(COMPARE + COMPARE_TIMEOUT).await;
        assert_eq!(cache.trouble(), None);
        cluster.serve(Serving::Up);
        sleep(COMPARE + COMPARE_TIMEOUT).await;
        assert_eq!(cache.trouble(), None);
    })
    .await;
}
