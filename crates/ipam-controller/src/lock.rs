//! Holds the lock while something runs, and waits for whoever else holds it.

use std::convert::Infallible;
use std::future::Future;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use ipam_cilium::observed::ObjectVersion;
use ipam_cluster::{Cluster, ClusterError, LeaseName, LockRecord, LockSeen, Write, WriteError};

/// How long a sign of life is good for; the default of Kubernetes' own leader election.
const LEASE: SignedDuration = SignedDuration::from_secs(15);

/// A third of that, so that one that is lost does no harm.
const RENEW: Duration = Duration::from_secs(5);

/// How often a lock that is held is looked at again.
const POLL: Duration = Duration::from_secs(1);

/// Who wants the lock, what for, and for how long they wait.
#[derive(Clone, Debug)]
pub struct LockRequest {
    /// Who, as others are told.
    pub holder: String,
    /// What for.
    pub operation: String,
    /// How long another holder is waited for.
    pub timeout: SignedDuration,
}

/// The lock as far as it could be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lock {
    /// It is ours.
    Held(ObjectVersion),
    /// There is none: it was not asked for, or this cluster keeps others out in another way.
    None,
    /// We may not have one. Blocks stay unique without it.
    Unavailable(String),
}

/// Takes the lock.
///
/// # Errors
/// Somebody else holds it, longer than we may wait; or the cluster cannot be read.
pub async fn take<C: Cluster>(
    cluster: &C,
    wish: &LockRequest,
    on_wait: &mut (dyn FnMut(&LockRecord) + Send),
) -> Result<Lock, ClusterError> {
    let began = Instant::now();
    let timeout = wish.timeout.unsigned_abs();
    let mut has_waited = false;
    loop {
        let seen = match cluster.lock(LeaseName::Apply).await? {
            LockSeen::NotKept => return Ok(Lock::None),
            LockSeen::Hidden(why) => return Ok(Lock::Unavailable(why)),
            LockSeen::Absent => None,
            LockSeen::Record(record) => Some(*record),
        };
        let now = cluster.now();
        // A record of our own is what came of a write whose answer was lost.
        if let Some(record) = seen
            .as_ref()
            .filter(|record| record.is_held(now) && record.holder != wish.holder)
        {
            if began.elapsed() >= timeout {
                return Err(held(record));
            }
            if !has_waited {
                on_wait(record);
                has_waited = true;
            }
            tokio::time::sleep(POLL).await;
            continue;
        }
        match cluster
            .write(&Write::take_lock(
                LeaseName::Apply,
                &wish.record(now, now),
                seen.as_ref().map(|seen| &seen.version),
            ))
            .await
        {
            Ok(written) => return Ok(Lock::Held(written.version)),
            // Somebody was faster: they are read, and waited for like any other.
            Err(WriteError::Superseded(_)) => {}
            Err(WriteError::Forbidden(why) | WriteError::Refused(why)) => {
                return Ok(Lock::Unavailable(why));
            }
            Err(WriteError::Busy(why) | WriteError::Unknown(why)) => {
                return Err(ClusterError::Unreachable(why));
            }
        }
    }
}

/// Runs something while the lock is renewed, then gives it back.
pub async fn hold<C: Cluster, T>(
    cluster: &C,
    wish: &LockRequest,
    lock: Lock,
    work: impl Future<Output = T>,
) -> T {
    let Lock::Held(version) = lock else {
        return work.await;
    };
    let mut version = version;
    let since = cluster.now();
    let outcome = {
        let mut renewing = async || -> Infallible {
            loop {
                tokio::time::sleep(RENEW).await;
                let write = Write::take_lock(
                    LeaseName::Apply,
                    &wish.record(since, cluster.now()),
                    Some(&version),
                );
                match cluster.write(&write).await {
                    Ok(written) => version = written.version,
                    Err(WriteError::Superseded(_)) => match cluster.lock(LeaseName::Apply).await {
                        Ok(LockSeen::Record(record)) if record.holder == wish.holder => {
                            version = record.version
                        }
                        // It is a courtesy: who lost it goes on, and the claims keep every block
                        // unique.
                        _ => std::future::pending().await,
                    },
                    Err(_) => {}
                }
            }
        };
        tokio::select! {
            outcome = work => outcome,
            never = renewing() => match never {},
        }
    };
    give_back(cluster, wish).await;
    outcome
}

/// Reads it again before: a renewal may have been under way. What cannot be given back grows old.
async fn give_back<C: Cluster>(cluster: &C, wish: &LockRequest) {
    if let Ok(LockSeen::Record(record)) = cluster.lock(LeaseName::Apply).await
        && record.holder == wish.holder
    {
        let _ = cluster
            .write(&Write::give_lock_back(LeaseName::Apply, &record.version))
            .await;
    }
}

fn held(record: &LockRecord) -> ClusterError {
    ClusterError::Held {
        holder: record.holder.clone(),
        operation: record.operation.clone(),
        since: record
            .since
            .map(|since| since.to_string())
            .unwrap_or_else(|| "an unknown time".to_owned()),
    }
}

impl LockRequest {
    fn record(&self, since: Timestamp, renewed: Timestamp) -> LockRecord {
        let LockRequest {
            holder,
            operation,
            timeout: _,
        } = self;
        LockRecord {
            holder: holder.clone(),
            operation: operation.clone(),
            since: Some(since),
            renewed: Some(renewed),
            duration: LEASE,
            version: ObjectVersion {
                uid: String::new(),
                resource_version: String::new(),
            },
        }
    }
}
