//! Elects one of several operators: the holder of the Lease leads, the others stand by.
//!
//! It must never guard writes: only the claims keep blocks unique.

use tokio::time::sleep;

use crate::lease::{Attempt, Held, Lease, Lock, OtherHolder, Timing};
use ipam_cluster::{Cluster, LeaseName, Trouble};
use retry::jittered;

/// What a candidate learns while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Election<'e> {
    /// Another process leads.
    Leader(&'e str),
    /// The Lease cannot be read or written, and why.
    Trouble(&'e Trouble),
    /// It can be again.
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

    /// Waits until we lead. Calls `on_election` with what changes meanwhile.
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

    /// Renews the Lease until it is lost.
    pub(super) async fn lead(&self, held: &mut Held) {
        self.lease.renew(held).await;
    }

    /// Lets another operator lead at once.
    pub(super) async fn resign(&self) {
        self.lease.release().await;
    }
}
