//! One process that follows the cluster, with the product's own cache and loop. It can be stopped
//! for a while, as by SIGSTOP, and killed.

use std::collections::BTreeSet;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use crate::sabotage::Saboteur;
use ipam_cluster::{ClusterCache, Role};
use ipam_controller::{
    CloudsLocation, ControllerEvent, Loaded, OpenStack, Parallelism, Scope, Source, Watch, watch,
};

const INTERVAL: Duration = Duration::from_secs(60);

/// Event counts of all replicas of a life.
#[derive(Debug, Default)]
pub(crate) struct EventCounts {
    /// Blocks that were written.
    pub(crate) written: AtomicUsize,
    /// Rollbacks that were noticed and settled.
    pub(crate) rolled_back: AtomicUsize,
    /// Applies beside the replicas that came to an end.
    pub(crate) applies: AtomicUsize,
}

pub(crate) struct Replica {
    /// The number of its client.
    pub(crate) client: u32,
    role: Sender<Role>,
    gate: Arc<Gate>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Gate(Mutex<Shut>);

#[derive(Debug, Default)]
enum Shut {
    #[default]
    Open,
    /// The task to wake when it opens.
    Stopped(Option<Waker>),
}

/// Polls a future while the gate is open.
struct Gated<F> {
    future: Pin<Box<F>>,
    gate: Arc<Gate>,
}

impl<F: Future> Future for Gated<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if let Shut::Stopped(waker) = &mut *self.gate.lock() {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        self.future.as_mut().poll(context)
    }
}

impl Gate {
    fn lock(&self) -> std::sync::MutexGuard<'_, Shut> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Files that never change.
struct Unchanged;

impl Source for Unchanged {
    fn next(&mut self) -> impl Future<Output = Loaded> + Send {
        std::future::pending()
    }
}

impl Replica {
    pub(crate) fn start(
        client: Saboteur,
        loaded: Loaded,
        parallelism: NonZeroUsize,
        counts: Arc<EventCounts>,
    ) -> Replica {
        let number = client.client.number();
        let (role, roles) = channel(Role::Standby);
        let gate = Arc::<Gate>::default();
        let future = Box::pin(run(client, loaded, parallelism, counts, roles));
        let task = tokio::spawn(Gated {
            future,
            gate: gate.clone(),
        });
        Replica {
            client: number,
            role,
            gate,
            task,
        }
    }

    pub(crate) fn take(&self, role: Role) {
        self.role.send_replace(role);
    }

    pub(crate) fn stop(&self) {
        *self.gate.lock() = Shut::Stopped(None);
    }

    pub(crate) fn go_on(&self) {
        if let Shut::Stopped(Some(waker)) = std::mem::take(&mut *self.gate.lock()) {
            waker.wake();
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        matches!(*self.gate.lock(), Shut::Stopped(_))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(
    client: Saboteur,
    loaded: Loaded,
    parallelism: NonZeroUsize,
    counts: Arc<EventCounts>,
    mut roles: Receiver<Role>,
) {
    let cache = ClusterCache::new(client);
    let terms = async {
        // An error means that the life has ended.
        while roles.wait_for(|role| *role == Role::Leader).await.is_ok() {
            let mut after = roles.clone();
            let ending = async {
                let _ = after.wait_for(|role| *role == Role::Standby).await;
            };
            watch(
                &cache,
                watching(parallelism),
                loaded.clone(),
                ending,
                &mut |event| counts.on_event(&event),
            )
            .await;
        }
    };
    tokio::select! {
        biased;
        never = cache.keep() => match never {},
        () = terms => {}
    }
}

fn watching(parallelism: NonZeroUsize) -> Watch<Unchanged> {
    Watch {
        source: Unchanged,
        waivers: BTreeSet::new(),
        interval: INTERVAL,
        parallelism: Parallelism::Fixed(parallelism),
        holder: "a replica".to_owned(),
        openstack: OpenStack::new(CloudsLocation::default(), Scope::Subnets),
    }
}

impl EventCounts {
    fn on_event(&self, event: &ControllerEvent<'_>) {
        match event {
            ControllerEvent::Finished { .. } => self.written.fetch_add(1, Ordering::Relaxed),
            ControllerEvent::RolledBack(_) => self.rolled_back.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::cluster::{Clock, Faults, SimCluster};
    use crate::sabotage::Sabotage;
    use crate::setup::{Directory, Setups, node};
    use worlds::documents::pool;

    /// A cluster whose only block is quarantined for 20 seconds.
    fn cluster() -> SimCluster {
        let setups = Setups::new();
        let mut rng = fastrand::Rng::with_seed(1);
        // The setups for broken rules are in ipam `kubernetes`.
        let setup = setups.choose_for_life(&mut rng, Sabotage::LostNotices);
        let mut objects = setup.objects();
        let claims = json!({"format_version": "1.0", "quarantined": [
            {"block": "10.0.0.0/30", "node": "gone", "free_at": "1970-01-01T00:00:20Z"}]});
        objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "cilium-ipam-claims", "namespace": "kube-system"},
            "data": {"claims.json": claims.to_string()}}));
        SimCluster::new(1, Faults::default(), objects)
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_process_wakes_when_the_quarantine_ends_that_a_node_waits_for() {
        let one_block = pool("all", "{cidrs: [10.0.0.0/30], blockSize: 30}");
        let (cluster, directory) = (cluster(), Directory::new(&[one_block]));
        let client = Saboteur {
            client: cluster.client(directory.pins.clone(), Clock::Time),
            cluster: cluster.clone(),
            sabotage: Sabotage::None,
        };
        let replica = Replica::start(client, directory.loaded, NonZeroUsize::MIN, Arc::default());
        replica.take(Role::Leader);
        cluster.join(node(0, &mut fastrand::Rng::with_seed(1)));
        let began = Instant::now();
        while !cluster.unserved().is_empty() && began.elapsed() < 2 * INTERVAL {
            let step = Duration::from_millis(100);
            sleep(step).await;
            cluster.advance(SignedDuration::try_from(step).unwrap());
        }
        let waited = began.elapsed();
        let expected = Duration::from_secs(20)..Duration::from_secs(30);
        assert!(expected.contains(&waited), "{waited:?} of {INTERVAL:?}");
    }
}
