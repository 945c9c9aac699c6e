//! Which of several operators works: the one that holds the Lease. A courtesy, as every Lease is
//! here: that no block is given twice rests on the claims alone, so one that was paused and wakes
//! up does no harm.
//!
//! How long another one's sign of life is good for is measured by our own clock from the moment
//! when we saw it, never by comparing clocks.

use std::future::Future;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use tokio::time::{sleep, timeout};

use ipam_cilium::observed::ObjectVersion;
use ipam_cluster::{Cluster, ClusterError, LeaseName, LockRecord, LockSeen, Write, WriteError};
use retry::spread;

/// How long a sign of life is good for. Short, because a new node waits for whoever comes next.
const LEASE: Duration = Duration::from_secs(6);

/// A third of that, so that one that is lost does no harm.
const RENEW: Duration = Duration::from_secs(2);

/// Without a sign of life that went through for so long, we lead no more; somebody else may from
/// the end of the Lease on.
const GIVE_UP: Duration = Duration::from_secs(5);

/// How long an answer is waited for.
const ANSWER: Duration = Duration::from_secs(2);

/// How often those who stand by look, about.
const POLL: Duration = Duration::from_millis(750);

/// One who wants to lead.
#[derive(Debug)]
pub(super) struct Candidate<'c, C> {
    cluster: &'c C,
    identity: String,
}

/// What holding the Lease needs.
#[derive(Debug)]
pub(super) struct Leadership {
    version: ObjectVersion,
    since: jiff::Timestamp,
    /// When the last sign of life was sent that went through.
    renewed: Instant,
}

/// Who was seen leading, and since when by our clock.
struct Rival {
    record: LockRecord,
    seen: Instant,
}

impl<'c, C: Cluster> Candidate<'c, C> {
    pub(super) fn new(cluster: &'c C, identity: String) -> Candidate<'c, C> {
        Candidate { cluster, identity }
    }

    /// Waits until we lead. `on_standby` hears who leads instead, whenever that is somebody else.
    pub(super) async fn elected(&self, on_standby: &mut (dyn FnMut(&str) + Send)) -> Leadership {
        let mut rival: Option<Rival> = None;
        let mut told = String::new();
        loop {
            match self.attempt(&mut rival).await {
                Ok(Some(leadership)) => return leadership,
                Ok(None) => {
                    if let Some(Rival { record, .. }) =
                        rival.as_ref().filter(|rival| rival.record.holder != told)
                    {
                        told.clone_from(&record.holder);
                        on_standby(&told);
                    }
                }
                Err(error) => {
                    let why = error.to_string();
                    if told != why {
                        told = why;
                        on_standby(&told);
                    }
                }
            }
            sleep(spread(POLL, &mut fastrand::Rng::new())).await;
        }
    }

    async fn attempt(&self, rival: &mut Option<Rival>) -> Result<Option<Leadership>, ClusterError> {
        let record = match in_time(self.cluster.lock(LeaseName::Leader)).await?? {
            LockSeen::Record(record) => Some(*record),
            LockSeen::Absent => None,
            LockSeen::Hidden(why) => return Err(ClusterError::Unreachable(why)),
            LockSeen::NotKept => return Ok(None),
        };
        let version = record.as_ref().map(|record| record.version.clone());
        if let Some(record) =
            record.filter(|record| !record.holder.is_empty() && record.holder != self.identity)
        {
            let is_same = |rival: &&mut Rival| rival.record.version == record.version;
            match rival.as_mut().filter(is_same) {
                Some(rival) if rival.seen.elapsed() >= duration(&record) => {}
                Some(_) => return Ok(None),
                None => {
                    *rival = Some(Rival {
                        record,
                        seen: Instant::now(),
                    });
                    return Ok(None);
                }
            }
        }
        let since = self.cluster.now();
        let write = Write::take_lock(LeaseName::Leader, &self.record(since), version.as_ref());
        let sent = Instant::now();
        match in_time(self.cluster.write(&write)).await? {
            Ok(written) => Ok(Some(Leadership {
                version: written.version,
                since,
                renewed: sent,
            })),
            Err(WriteError::Superseded(_)) => Ok(None),
            Err(error) => Err(ClusterError::Unreachable(error.to_string())),
        }
    }

    /// Gives signs of life until the Lease is lost.
    pub(super) async fn lead(&self, leadership: &mut Leadership) {
        while leadership.renewed.elapsed() < GIVE_UP {
            sleep(RENEW).await;
            let sent = Instant::now();
            let record = self.record(leadership.since);
            let write = Write::take_lock(LeaseName::Leader, &record, Some(&leadership.version));
            let left = GIVE_UP.saturating_sub(leadership.renewed.elapsed());
            match timeout(left, self.cluster.write(&write)).await {
                Ok(Ok(written)) => {
                    leadership.version = written.version;
                    leadership.renewed = sent;
                }
                // Somebody took it, or an answer of ours was lost.
                Ok(Err(WriteError::Superseded(_))) => {
                    match timeout(left, self.cluster.lock(LeaseName::Leader)).await {
                        Ok(Ok(LockSeen::Record(record))) if record.holder == self.identity => {
                            leadership.version = record.version;
                        }
                        Ok(Ok(_)) => return,
                        Ok(Err(_)) | Err(_) => {}
                    }
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Lets somebody else lead at once. Read again before: a renewal may have been under way. What
    /// cannot be given back grows old.
    pub(super) async fn resign(&self) {
        if let Ok(Ok(LockSeen::Record(record))) =
            in_time(self.cluster.lock(LeaseName::Leader)).await
            && record.holder == self.identity
        {
            let write = Write::give_lock_back(LeaseName::Leader, &record.version);
            let _ = in_time(self.cluster.write(&write)).await;
        }
    }

    fn record(&self, since: jiff::Timestamp) -> LockRecord {
        LockRecord {
            holder: self.identity.clone(),
            operation: "operator".to_owned(),
            since: Some(since),
            renewed: Some(self.cluster.now()),
            duration: SignedDuration::try_from(LEASE).unwrap_or(SignedDuration::ZERO),
            version: ObjectVersion::default(),
        }
    }
}

/// A server that does not answer keeps nobody from asking again.
async fn in_time<T>(asked: impl Future<Output = T>) -> Result<T, ClusterError> {
    let late = |_| ClusterError::Unreachable(format!("no answer within {} s", ANSWER.as_secs()));
    timeout(ANSWER, asked).await.map_err(late)
}

fn duration(record: &LockRecord) -> Duration {
    record.duration.unsigned_abs().max(Duration::from_secs(1))
}
