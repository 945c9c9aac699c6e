//! Elects one of several operators: the holder of the Lease leads, the others stand by.
//!
//! It must never guard writes: only the claims keep blocks unique.

use tokio::time::sleep;

use crate::lease::{Attempt, Held, Lease, Lock, OtherHolder, Timing};
use ipam_cluster::{Cluster, LeaseName};
use retry::jittered;

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

    /// Waits until we lead. Meanwhile calls `on_standby` with each new leader, and with each new
    /// reason why none can be elected.
    pub(super) async fn elected(&self, on_standby: &mut (dyn FnMut(&str) + Send)) -> Held {
        let mut other: Option<OtherHolder> = None;
        let mut reported = String::new();
        loop {
            let news = match self.lease.try_acquire(&mut other).await {
                Ok(Attempt::Done(Lock::Held(held))) => return held,
                Ok(Attempt::HeldByOther) => {
                    other.as_ref().map(|other| other.record().holder.clone())
                }
                Ok(Attempt::Done(Lock::Unavailable(why))) => Some(why),
                Ok(Attempt::Done(Lock::None) | Attempt::Overtaken) => None,
                Err(error) => Some(error.to_string()),
            };
            if let Some(news) = news.filter(|news| *news != reported) {
                on_standby(&news);
                reported = news;
            }
            sleep(jittered(self.lease.timing.poll, &mut fastrand::Rng::new())).await;
        }
    }

    /// Renews the Lease until it is lost.
    pub(super) async fn lead(&self, held: &mut Held) {
        self.lease.renew(held).await;
    }

    /// Lets another operator lead at once.
    pub(super) async fn resign(&self) {
        self.lease.release().await;
    }
}
