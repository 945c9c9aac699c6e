//! Acquires, renews and releases one Lease: the lock of an apply, or the leadership of an operator.
//!
//! A Lease is a courtesy: a holder that was paused and resumes does no harm, because the claims
//! alone keep blocks unique. Another holder's silence is measured by our own clock, from the moment
//! when we read its last renewal. A Lease is never taken because two machines' clocks differ.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep, timeout};

use ipam_cilium::observed::ObjectVersion;
use ipam_cluster::{
    Cluster, ClusterError, LeaseName, LockRecord, LockSeen, Trouble, TroubleKind, Write, WriteError,
};
use retry::jittered;

/// Longest silence to wait for beyond the caller's patience. A foreign Lease may last for days.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// Attempts that other processes may overtake before the caller's patience counts.
const OVERTAKEN: u32 = 3;

/// The periods of one Lease.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long a renewal keeps the Lease.
    pub duration: Duration,
    /// Time between renewals: a third of `duration`, so that one renewal may fail.
    pub renew: Duration,
    /// The holder stops when its renewals have failed for this long; `None` means never.
    pub give_up: Option<Duration>,
    /// About how often a waiter reads the Lease.
    pub poll: Duration,
    /// Timeout of one request; `None` leaves it to the client.
    pub answer: Option<Duration>,
}

impl Timing {
    /// The lock of an apply. `duration` is the default of Kubernetes' own leader election.
    pub const APPLY: Timing = Timing {
        duration: Duration::from_secs(15),
        renew: Duration::from_secs(5),
        give_up: None,
        poll: Duration::from_secs(1),
        answer: None,
    };

    /// The leader among operators. Short, because a new node waits for the next leader.
    pub const LEADER: Timing = Timing {
        duration: Duration::from_secs(6),
        renew: Duration::from_secs(2),
        give_up: Some(Duration::from_secs(5)),
        poll: Duration::from_millis(750),
        answer: Some(Duration::from_secs(2)),
    };
}

/// A Lease, and the process that wants to hold it.
#[derive(Debug)]
pub struct Lease<'c, C> {
    /// Cluster in which the Lease is stored.
    pub cluster: &'c C,
    pub name: LeaseName,
    /// Identity of the process as the Lease shows it; no two processes have the same.
    pub identity: String,
    /// Operation for which the process holds the Lease, as the Lease shows it.
    pub operation: String,
    pub timing: Timing,
}

/// Another holder, and when this process read the holder's last renewal. Keep the value between
/// attempts: otherwise each attempt measures the holder's silence anew.
#[derive(Clone, Debug)]
pub struct OtherHolder {
    record: LockRecord,
    seen: Instant,
}

impl OtherHolder {
    /// The Lease as it was read, with the other holder.
    pub fn record(&self) -> &LockRecord {
        &self.record
    }

    fn lease_duration(&self) -> Duration {
        self.record
            .duration
            .unsigned_abs()
            .max(Duration::from_secs(1))
    }

    /// Whether the holder has not renewed for the whole duration of its Lease.
    fn is_expired(&self) -> bool {
        self.seen.elapsed() >= self.lease_duration()
    }

    /// Whether the Lease is expired if both clocks agree. Only a hint that waiting may help.
    fn looks_expired(&self, now: Timestamp) -> bool {
        let until = self
            .record
            .renewed
            .and_then(|renewed| renewed.saturating_add(self.record.duration).ok());
        until.is_none_or(|until| until <= now)
    }
}

/// A Lease that this process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    version: ObjectVersion,
    since: Timestamp,
    /// When the last successful renewal was sent.
    renewed: Instant,
}

/// The lock under which work runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lock {
    /// This process holds the Lease.
    Held(Held),
    /// No lock is wanted, or this cluster excludes others in another way.
    None,
    /// The server denies or refuses it. Blocks stay unique without it.
    Unavailable(Trouble),
}

/// Result of one attempt to acquire a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The attempt has its result, and there is nothing to wait for.
    Done(Lock),
    /// Another process holds the Lease.
    HeldByOther,
    /// Another process wrote the Lease between the read and the write of this process.
    Overtaken,
}

impl<C: Cluster> Lease<'_, C> {
    /// Acquires the Lease if it is free, ours or expired. `other` is what the last attempt left.
    ///
    /// # Errors
    /// Fails if the Lease cannot be read, or no answer to the write came.
    pub async fn try_acquire(
        &self,
        other: &mut Option<OtherHolder>,
    ) -> Result<Attempt, ClusterError> {
        let record = match self.in_time(self.cluster.lock(self.name)).await?? {
            LockSeen::Record(record) => Some(*record),
            LockSeen::Absent => None,
            LockSeen::Hidden(why) => return Ok(unavailable(TroubleKind::Forbidden, why)),
            LockSeen::NotKept => return Ok(Attempt::Done(Lock::None)),
        };
        let version = record.as_ref().map(|record| record.version.clone());
        // A record with this process as holder comes from a write whose answer was lost.
        let is_other =
            |record: &LockRecord| !record.holder.is_empty() && record.holder != self.identity;
        if let Some(record) = record.filter(is_other) {
            let known = other
                .as_ref()
                .filter(|other| other.record.version == record.version);
            if !known.is_some_and(OtherHolder::is_expired) {
                if known.is_none() {
                    let seen = Instant::now();
                    *other = Some(OtherHolder { record, seen });
                }
                return Ok(Attempt::HeldByOther);
            }
        }
        let since = self.cluster.now();
        let write = Write::take_lock(self.name, &self.record(since), version.as_ref());
        let sent = Instant::now();
        match self.in_time(self.cluster.write(&write)).await? {
            Ok(written) => Ok(Attempt::Done(Lock::Held(Held {
                version: written.version,
                since,
                renewed: sent,
            }))),
            Err(WriteError::Superseded(_)) => Ok(Attempt::Overtaken),
            Err(WriteError::Forbidden(why)) => Ok(unavailable(TroubleKind::Forbidden, why)),
            Err(WriteError::Refused(why)) => Ok(unavailable(TroubleKind::Refused, why)),
            Err(WriteError::Busy(why) | WriteError::Unknown(why)) => {
                Err(ClusterError::Unreachable(why))
            }
        }
    }

    /// Acquires the Lease, and waits up to `patience` for another holder. Calls `on_wait` once
    /// before it waits. If the Lease looks abandoned, it waits long enough to be sure of that, but
    /// not for a Lease that lasts longer than a minute.
    ///
    /// # Errors
    /// Fails with `Held` if another process still holds it, or as [`Lease::try_acquire`] does.
    pub async fn acquire(
        &self,
        patience: Duration,
        on_wait: &mut (dyn FnMut(&LockRecord) + Send),
    ) -> Result<Lock, ClusterError> {
        let began = Instant::now();
        let mut other: Option<OtherHolder> = None;
        let mut until = None;
        let mut overtaken = 0;
        loop {
            let attempt = self.try_acquire(&mut other).await?;
            let pause = match (attempt, &other) {
                (Attempt::Done(lock), _) => return Ok(lock),
                (Attempt::HeldByOther, Some(holder)) => {
                    let is_first = until.is_none();
                    let until =
                        *until.get_or_insert_with(|| self.time_for(holder, began, patience));
                    if began.elapsed() >= until {
                        return Err(held(Some(&holder.record)));
                    }
                    if is_first {
                        on_wait(&holder.record);
                    }
                    self.timing.poll
                }
                // The next attempt reads who was faster.
                (Attempt::Overtaken | Attempt::HeldByOther, _) => {
                    overtaken += 1;
                    if overtaken >= OVERTAKEN && began.elapsed() >= patience {
                        return Err(held(other.as_ref().map(OtherHolder::record)));
                    }
                    self.timing.poll / 10
                }
            };
            sleep(jittered(pause, &mut fastrand::Rng::new())).await;
        }
    }

    /// How long to wait for this holder, counted from `began`. Its silence counts from when we saw
    /// it.
    fn time_for(&self, holder: &OtherHolder, began: Instant, patience: Duration) -> Duration {
        if !holder.looks_expired(self.cluster.now()) {
            return patience;
        }
        let silence = holder.lease_duration().min(LONGEST_SILENCE) + 2 * self.timing.poll;
        patience.max(holder.seen.duration_since(began) + silence)
    }

    /// Runs `work` while it renews the Lease, then releases it. `work` goes on if the Lease is
    /// lost.
    pub async fn hold<T>(&self, lock: Lock, work: impl Future<Output = T>) -> T {
        let mut held = match lock {
            Lock::Held(held) => held,
            Lock::None | Lock::Unavailable(_) => return work.await,
        };
        let renewing = async {
            self.renew(&mut held).await;
            std::future::pending::<Infallible>().await
        };
        let outcome = tokio::select! {
            biased;
            outcome = work => outcome,
            never = renewing => match never {},
        };
        self.release().await;
        outcome
    }

    /// Renews until the Lease is lost: another process has it, or `give_up` is over.
    pub async fn renew(&self, held: &mut Held) {
        let Timing { renew, give_up, .. } = self.timing;
        let left = |held: &Held| give_up.map(|limit| limit.saturating_sub(held.renewed.elapsed()));
        while left(held).is_none_or(|left| !left.is_zero()) {
            sleep(left(held).map_or(renew, |left| renew.min(left))).await;
            let sent = Instant::now();
            let write = Write::take_lock(self.name, &self.record(held.since), Some(&held.version));
            match within(left(held), self.cluster.write(&write)).await {
                Some(Ok(written)) => {
                    held.version = written.version;
                    held.renewed = sent;
                }
                // Another process took the Lease, or an answer to this process was lost.
                Some(Err(WriteError::Superseded(_))) => {
                    match within(left(held), self.cluster.lock(self.name)).await {
                        Some(Ok(LockSeen::Record(record))) if record.holder == self.identity => {
                            held.version = record.version;
                        }
                        Some(Ok(_)) => return,
                        Some(Err(_)) | None => {}
                    }
                }
                Some(Err(_)) | None => {}
            }
        }
    }

    /// Lets another process acquire it at once. It reads the Lease first: a renewal may have been
    /// under way. If the release fails, the Lease expires.
    pub async fn release(&self) {
        if let Ok(Ok(LockSeen::Record(record))) = self.in_time(self.cluster.lock(self.name)).await
            && record.holder == self.identity
        {
            let write = Write::release_lock(self.name, &record.version);
            let _ = self.in_time(self.cluster.write(&write)).await;
        }
    }

    fn record(&self, since: Timestamp) -> LockRecord {
        LockRecord {
            holder: self.identity.clone(),
            operation: self.operation.clone(),
            since: Some(since),
            renewed: Some(self.cluster.now()),
            duration: SignedDuration::try_from(self.timing.duration)
                .unwrap_or(SignedDuration::ZERO),
            version: ObjectVersion::default(),
        }
    }

    async fn in_time<T>(&self, request: impl Future<Output = T>) -> Result<T, ClusterError> {
        let limit = self.timing.answer;
        within(limit, request).await.ok_or_else(|| {
            let seconds = limit.unwrap_or_default().as_secs();
            ClusterError::Unreachable(format!("the API server does not answer within {seconds} s"))
        })
    }
}

/// `None` if the request takes longer than `limit`.
async fn within<T>(limit: Option<Duration>, request: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => timeout(limit, request).await.ok(),
        None => Some(request.await),
    }
}

fn unavailable(kind: TroubleKind, why: String) -> Attempt {
    Attempt::Done(Lock::Unavailable(Trouble::new(kind, why)))
}

/// `None` for a holder that is not known: it was faster, and has released the Lease since.
fn held(record: Option<&LockRecord>) -> ClusterError {
    let unknown = |text: &str| text.to_owned();
    ClusterError::Held {
        holder: record.map_or_else(|| unknown("another process"), |other| other.holder.clone()),
        operation: record.map_or_else(
            || unknown("an unknown operation"),
            |other| other.operation.clone(),
        ),
        since: record
            .and_then(|other| other.since)
            .map_or_else(|| unknown("an unknown time"), |since| since.to_string()),
    }
}

#[cfg(test)]
mod tests;
