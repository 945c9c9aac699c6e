//! The Lease on a paused clock: holders that die, renew late, or have another clock.

use std::sync::{Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::time::advance;

use super::*;
use ipam_cilium::observed::ObservedKind;
use ipam_cluster::{ListVisitor, Moment, Operation, Seen, Written};

const SECOND: Duration = Duration::from_secs(1);

/// An API server with one Lease. Its clock stands still: only the clock of tokio may count.
#[derive(Default)]
struct Server(Mutex<State>);

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    /// Whether writes get no answer.
    is_silent: bool,
    /// How long the first read takes.
    first_read: Duration,
    /// How many writes another process overtakes.
    overtaken: u32,
    /// The answer to each write.
    refusal: Option<WriteError>,
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Writes the Lease as another holder with this clock does.
    fn renewed_by(&self, holder: &str, renewed: &str) {
        self.renewed_for(15, holder, renewed);
    }

    /// The same, of a Lease that lasts this many seconds.
    fn renewed_for(&self, seconds: u32, holder: &str, renewed: &str) {
        let mut state = self.state();
        state.version += 1;
        state.lease = Some(json!({
            "metadata": {"uid": "u", "resourceVersion": state.version.to_string()},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed},
        }));
    }

    fn holder(&self) -> Option<String> {
        let state = self.state();
        let holder = state.lease.as_ref()?["spec"]["holderIdentity"].as_str()?;
        Some(holder.to_owned())
    }
}

impl Cluster for Server {
    async fn list(
        &self,
        _: ObservedKind,
        _: &str,
        _: &Moment,
        _: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        Ok(Seen::NotServed)
    }

    fn cilium_namespace(&self) -> Option<&str> {
        None
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        let mut state = self.state();
        if state.is_silent {
            return Err(WriteError::Unknown("silent".to_owned()));
        }
        if let Some(refusal) = &state.refusal {
            return Err(refusal.clone());
        }
        if let Some(left) = state.overtaken.checked_sub(1) {
            state.overtaken = left;
            return Err(WriteError::Superseded("conflict".to_owned()));
        }
        let (Operation::Patch(new) | Operation::Create(new)) = &write.operation else {
            return Err(WriteError::Refused("unexpected".to_owned()));
        };
        let stored = state
            .lease
            .as_ref()
            .map(|lease| &lease["metadata"]["resourceVersion"]);
        if stored != new["metadata"].get("resourceVersion") {
            return Err(WriteError::Superseded("conflict".to_owned()));
        }
        state.version += 1;
        let version = state.version.to_string();
        let lease = state.lease.get_or_insert_with(|| json!({"spec": {}}));
        lease["metadata"] = json!({"uid": "u", "resourceVersion": version});
        for (key, value) in new["spec"].as_object().unwrap() {
            lease["spec"][key] = value.clone();
        }
        Ok(Written {
            version: ObjectVersion {
                uid: "u".to_owned(),
                resource_version: version,
            },
        })
    }

    async fn lock(&self, _: LeaseName) -> Result<LockSeen, ClusterError> {
        let first_read = std::mem::take(&mut self.state().first_read);
        sleep(first_read).await;
        let state = self.state();
        Ok(match &state.lease {
            None => LockSeen::Absent,
            Some(lease) => {
                let record = LockRecord::read(lease.to_string().as_bytes()).unwrap();
                LockSeen::Record(Box::new(record))
            }
        })
    }

    fn now(&self) -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }
}

const LONG_AGO: &str = "2026-01-01T10:00:00.000000Z";
const JUST_NOW: &str = "2026-01-01T12:00:00.000000Z";
const LATER: &str = "2026-01-01T18:00:00.000000Z";

fn lease(server: &Server, timing: Timing) -> Lease<'_, Server> {
    Lease {
        cluster: server,
        name: LeaseName::Apply,
        identity: "us".to_owned(),
        operation: "apply".to_owned(),
        timing,
    }
}

fn held_by_us(lock: Result<Lock, ClusterError>) -> Held {
    match lock.unwrap() {
        Lock::Held(held) => held,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_holder_is_replaced_after_its_duration_though_its_clock_was_ahead() {
    let server = Server::default();
    server.renewed_by("them", LATER);
    let lease = lease(&server, Timing::APPLY);
    // As `watch` does: attempts without waiting that share what they saw.
    let mut other = None;
    assert_eq!(
        lease.try_acquire(&mut other).await.unwrap(),
        Attempt::HeldByOther
    );
    advance(14 * SECOND).await;
    assert_eq!(
        lease.try_acquire(&mut other).await.unwrap(),
        Attempt::HeldByOther
    );
    advance(SECOND).await;
    let attempt = lease.try_acquire(&mut other).await.unwrap();
    assert!(
        matches!(attempt, Attempt::Done(Lock::Held(_))),
        "{attempt:?}"
    );
    assert_eq!(server.holder().as_deref(), Some("us"));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_starts_the_duration_anew() {
    let server = Server::default();
    server.renewed_by("them", LONG_AGO);
    let lease = lease(&server, Timing::APPLY);
    let mut other = None;
    for _ in 0..10 {
        assert_eq!(
            lease.try_acquire(&mut other).await.unwrap(),
            Attempt::HeldByOther
        );
        advance(10 * SECOND).await;
        server.renewed_by("them", LONG_AGO);
    }
}

#[tokio::test(start_paused = true)]
async fn without_patience_a_live_holder_is_an_error_at_once() {
    let server = Server::default();
    server.renewed_by("them", JUST_NOW);
    let began = Instant::now();
    let lock = lease(&server, Timing::APPLY)
        .acquire(Duration::ZERO, &mut |_| panic!("waits"))
        .await;
    assert!(matches!(lock, Err(ClusterError::Held { .. })), "{lock:?}");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn without_patience_an_abandoned_lock_costs_its_duration() {
    let server = Server::default();
    server.renewed_by("them", LONG_AGO);
    let (began, mut waits) = (Instant::now(), 0);
    let lock = lease(&server, Timing::APPLY)
        .acquire(Duration::ZERO, &mut |_| waits += 1)
        .await;
    held_by_us(lock);
    assert!((15 * SECOND..=17 * SECOND).contains(&began.elapsed()));
    assert_eq!(waits, 1);
}

#[tokio::test(start_paused = true)]
async fn without_patience_a_long_lease_is_an_error_after_a_minute() {
    let server = Server::default();
    server.renewed_for(86_400, "them", "2025-01-01T10:00:00.000000Z");
    let began = Instant::now();
    let lock = lease(&server, Timing::APPLY)
        .acquire(Duration::ZERO, &mut |_| {})
        .await;
    assert!(matches!(lock, Err(ClusterError::Held { .. })), "{lock:?}");
    let waited = began.elapsed();
    assert!((60 * SECOND..=64 * SECOND).contains(&waited), "{waited:?}");
    assert_eq!(server.holder().as_deref(), Some("them"));
}

#[tokio::test(start_paused = true)]
async fn only_a_denied_write_counts_as_a_missing_right() {
    let why = || "why".to_owned();
    let cases = [
        (WriteError::Forbidden(why()), TroubleKind::Forbidden),
        (WriteError::Refused(why()), TroubleKind::Refused),
    ];
    for (refusal, kind) in cases {
        let server = Server::default();
        server.state().refusal = Some(refusal);
        let attempt = lease(&server, Timing::LEADER).try_acquire(&mut None).await;
        let unavailable = Lock::Unavailable(Trouble::new(kind, why()));
        assert_eq!(attempt.unwrap(), Attempt::Done(unavailable));
    }
}

#[tokio::test(start_paused = true)]
async fn the_silence_of_a_holder_counts_from_when_it_was_seen() {
    let server = Server::default();
    server.renewed_by("them", LONG_AGO);
    server.state().first_read = 20 * SECOND;
    let began = Instant::now();
    let lock = lease(&server, Timing::APPLY)
        .acquire(Duration::ZERO, &mut |_| {})
        .await;
    held_by_us(lock);
    let waited = began.elapsed();
    assert!((35 * SECOND..=37 * SECOND).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_overtaken_attempt_is_repeated_after_a_pause() {
    let server = Server::default();
    server.state().overtaken = 2;
    let began = Instant::now();
    let lock = lease(&server, Timing::APPLY)
        .acquire(Duration::ZERO, &mut |_| panic!("waits for a holder"))
        .await;
    held_by_us(lock);
    let waited = began.elapsed();
    assert!(waited > Duration::ZERO && waited < SECOND, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn attempts_that_are_always_overtaken_end_with_the_patience() {
    for patience in [Duration::ZERO, 10 * SECOND] {
        let server = Server::default();
        server.state().overtaken = 10_000;
        let began = Instant::now();
        let lock = lease(&server, Timing::APPLY)
            .acquire(patience, &mut |_| {})
            .await;
        assert!(matches!(lock, Err(ClusterError::Held { .. })), "{lock:?}");
        let waited = began.elapsed();
        assert!(
            (patience..=patience + SECOND).contains(&waited),
            "{waited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_patience_a_live_holder_with_a_slow_clock_is_an_error_in_the_end() {
    let server = Server::default();
    server.renewed_by("them", LONG_AGO);
    let lease = lease(&server, Timing::APPLY);
    let renewing = async {
        loop {
            sleep(5 * SECOND).await;
            server.renewed_by("them", LONG_AGO);
        }
    };
    let mut on_wait = |_: &LockRecord| {};
    let lock = tokio::select! {
        lock = lease.acquire(Duration::ZERO, &mut on_wait) => lock,
        () = renewing => unreachable!(),
    };
    assert!(matches!(lock, Err(ClusterError::Held { .. })), "{lock:?}");
    assert_eq!(server.holder().as_deref(), Some("them"));
}

#[tokio::test(start_paused = true)]
async fn work_under_the_lock_renews_and_releases_it() {
    let server = Server::default();
    let lease = lease(&server, Timing::APPLY);
    let lock = lease.acquire(Duration::ZERO, &mut |_| {}).await.unwrap();
    lease.hold(lock, sleep(60 * SECOND)).await;
    assert_eq!(server.holder().as_deref(), Some(""));
    // One to acquire, one each five seconds, one to release.
    let writes = server.state().version;
    assert!((12..=14).contains(&writes), "{writes}");
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_when_the_lock_is_lost_and_leaves_it_alone() {
    let server = Server::default();
    let lease = lease(&server, Timing::APPLY);
    let lock = lease.acquire(Duration::ZERO, &mut |_| {}).await.unwrap();
    let work = async {
        sleep(SECOND).await;
        server.renewed_by("them", JUST_NOW);
        sleep(60 * SECOND).await;
        "done"
    };
    assert_eq!(lease.hold(lock, work).await, "done");
    assert_eq!(server.holder().as_deref(), Some("them"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_answers_gives_up_before_its_lease_expires() {
    let server = Server::default();
    let lease = lease(&server, Timing::LEADER);
    let mut held = held_by_us(lease.acquire(Duration::ZERO, &mut |_| {}).await);
    server.state().is_silent = true;
    let began = Instant::now();
    lease.renew(&mut held).await;
    assert!(
        began.elapsed() < Timing::LEADER.duration,
        "{:?}",
        began.elapsed()
    );
}
