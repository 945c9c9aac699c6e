//! Follows a cluster without files and without writes, and counts how full its pools and ranges are.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::{ControllerEvent, OnEvent, Telemetry};
use ipam_cluster::{ClusterCache, ClusterError, Extent, Follow, Trouble, observe};
use ipam_plan::capacity::capacity;

/// Shortest time from one count to the next. Prometheus rarely asks more often.
const SHORTEST_PERIOD: Duration = Duration::from_secs(10);

/// Longest time from one count to the next: the time left shrinks without events, too.
const LONGEST_PERIOD: Duration = Duration::from_secs(60);

/// Counts after each change of the cluster, for as long as the future is polled. The caller keeps
/// `cache` up to date, as a leader. Troubles are reported when they begin and end.
pub async fn watch_capacity<C: Follow>(
    cache: &ClusterCache<C>,
    telemetry: &Telemetry,
    on_event: &mut OnEvent<'_>,
) -> Infallible {
    let mut reported: Option<Trouble> = None;
    loop {
        // Without an event, the time is over: both are reasons to count.
        let _ = timeout(LONGEST_PERIOD, cache.moved()).await;
        // Who assigns no block needs no quarantine.
        if let Some(rollback) = cache.rollback() {
            let _ = cache.settle_rollback(&rollback);
        }
        cache.retain_departed(|_, _| false);
        let counted = count(cache, telemetry).await;
        let has_counted = matches!(counted, Ok(Counted::Yes));
        let trouble = match counted {
            Ok(_) => cache.trouble(),
            Err(error) => Some(Trouble::from(&error)),
        };
        match &trouble {
            Some(why) if reported.as_ref() != Some(why) => {
                on_event(ControllerEvent::Unhealthy(why));
            }
            None if reported.is_some() => on_event(ControllerEvent::Recovered),
            Some(_) | None => {}
        }
        reported = trouble;
        if has_counted {
            sleep(SHORTEST_PERIOD).await;
        }
    }
}

/// Whether the cache had everything, so that it was counted.
enum Counted {
    Yes,
    NotYet,
}

async fn count<C: Follow>(
    cache: &ClusterCache<C>,
    telemetry: &Telemetry,
) -> Result<Counted, ClusterError> {
    let Some(snapshot) = cache.snapshot() else {
        return Ok(Counted::NotYet);
    };
    let observed = observe(&snapshot, Extent::Plan).await?;
    telemetry.counted(&capacity(&observed, None), observed.nodes.len());
    telemetry.set_ready();
    Ok(Counted::Yes)
}
