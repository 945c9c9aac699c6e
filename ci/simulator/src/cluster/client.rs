//! One client of the simulated cluster. Others may act between any two of its steps.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::server::{Next, ObjectState, Serving, Stream};
use super::state::{Bookmarks, Chance, Objects, Sender, SimCluster, SimState, Taking};
use ipam_cilium::observed::{CLAIMS_NAME, ObservedKind};
use ipam_cluster::version_of;
use ipam_cluster::{
    Cluster, ClusterError, Follow, Following, LeaseName, ListVisitor, LockSeen, Moment,
    ObjectEvent, Seen, Stored, Write, WriteError, Written,
};
use ipam_core::model::NodeName;
use ipam_core::net::Block;

/// How long a client waits for a stream to begin.
const BEGINNING: Duration = Duration::from_secs(30);

/// Longest delay of an event, in milliseconds.
const LONGEST_DELAY: u64 = 8_000;

/// Lets the other futures run this many times.
#[derive(Debug)]
pub struct Yield(pub u32);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// What passes between two steps of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Polls of its future.
    Steps,
    /// Time of the runtime. Its clock must be paused.
    Time,
}

#[derive(Debug)]
/// A client of a simulated cluster.
pub struct SimClient {
    number: u32,
    clock: Clock,
    cluster: SimCluster,
    pins: Arc<BTreeMap<NodeName, Vec<Block>>>,
    taking: Taking,
    listed_at: AtomicU64,
}

impl SimClient {
    pub(super) fn new(
        number: u32,
        cluster: SimCluster,
        pins: Arc<BTreeMap<NodeName, Vec<Block>>>,
        clock: Clock,
    ) -> SimClient {
        SimClient {
            number,
            clock,
            cluster,
            pins,
            taking: Taking::Forbidden,
            listed_at: AtomicU64::new(0),
        }
    }

    /// Its number among the clients of its cluster.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The client of an undo, which may take blocks away from nodes.
    #[must_use]
    pub fn undoing(self) -> SimClient {
        SimClient {
            taking: Taking::Allowed,
            ..self
        }
    }

    /// Lets others run at least once, so that a crash can come before and after every request.
    async fn others(&self) {
        match self.clock {
            Clock::Steps => {
                let times = self.cluster.lock().rng.u32(1..3);
                Yield(times).await;
            }
            Clock::Time => {
                let delay = self.cluster.lock().rng.u64(1..20);
                sleep(Duration::from_millis(delay)).await;
            }
        }
    }

    /// Waits until a packet gets through. Returns the run of the server.
    async fn reached(&self) -> Result<u64, ClusterError> {
        loop {
            let happened = {
                let state = self.cluster.lock();
                match state.server.serving {
                    Serving::Up => return Ok(state.server.run),
                    Serving::Down => return Err(reset()),
                    Serving::Silent => state.happened(),
                }
            };
            happened.notified().await;
        }
    }

    /// How a stream ends after its time is up.
    fn ending(&self) -> Following {
        match self.cluster.lock().server.serving {
            Serving::Silent => Following::Silent,
            Serving::Up | Serving::Down => Following::Closed,
        }
    }

    /// Fails if the run that answers has ended.
    async fn arrives(&self, run: u64) -> Result<(), ClusterError> {
        if self.reached().await? == run {
            Ok(())
        } else {
            Err(reset())
        }
    }
}

fn reset() -> ClusterError {
    ClusterError::Unreachable("the API server does not answer: the connection was reset".to_owned())
}

impl Cluster for SimClient {
    async fn list(
        &self,
        kind: ObservedKind,
        _namespace: &str,
        moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        self.others().await;
        let run = self.reached().await?;
        let (version, objects) = {
            let mut state = self.cluster.lock();
            let per_mille = state.faults.failed_list;
            if state.chance(per_mille) == Chance::Hit {
                return Err(reset());
            }
            let listed = list(&mut state, kind, moment)?;
            *state.server.lists.entry(kind).or_default() += 1;
            if state.server.memory.is_none() {
                let read = state.server.read.entry(self.number).or_default();
                read.insert(kind);
            }
            state.note(|| {
                format!(
                    "client {} lists {} as of {}",
                    self.number,
                    kind.resource(),
                    listed.0
                )
            });
            listed
        };
        visitor.begun(&version.to_string())?;
        if kind == ObservedKind::Node {
            self.listed_at.store(version, Ordering::Relaxed);
        }
        // The pages of a list come one by one. All show the same moment.
        self.others().await;
        self.arrives(run).await?;
        for object in objects {
            visitor.object(&object.to_string())?;
        }
        Ok(Seen::All)
    }

    fn cilium_namespace(&self) -> Option<&str> {
        None
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        let sender = Sender {
            listed_at: self.listed_at.load(Ordering::Relaxed),
            pins: self.pins.clone(),
            taking: self.taking,
        };
        self.others().await;
        let unknown = |error: ClusterError| WriteError::Unknown(error.to_string());
        let run = self.reached().await.map_err(unknown)?;
        let answer = {
            let mut state = self.cluster.lock();
            state.note(|| format!("client {} writes {:?}", self.number, write.target));
            let answer = answer(&mut state, &sender, write);
            state.note(|| format!("client {} gets {answer:?}", self.number));
            answer
        };
        self.others().await;
        self.arrives(run).await.map_err(unknown)?;
        answer
    }

    async fn lock(&self, _: LeaseName) -> Result<LockSeen, ClusterError> {
        Ok(LockSeen::NotKept)
    }

    fn now(&self) -> Timestamp {
        self.cluster.lock().now
    }
}

impl Follow for SimClient {
    async fn stored_claims(&self) -> Result<Stored, ClusterError> {
        self.others().await;
        self.reached().await?;
        let stored = {
            let state = self.cluster.lock();
            let claims = state
                .objects
                .get(&(ObservedKind::Claims, CLAIMS_NAME.to_owned()));
            claims.map_or(Stored::Absent, |claims| {
                Stored::At(
                    version_of(claims)
                        .resource_version
                        .parse()
                        .unwrap_or_default(),
                )
            })
        };
        self.others().await;
        Ok(stored)
    }

    async fn follow(
        &self,
        kind: ObservedKind,
        _namespace: &str,
        from: u64,
        on_event: &mut (dyn FnMut(ObjectEvent<'_>) + Send),
    ) -> Result<Following, ClusterError> {
        self.others().await;
        let Ok(reached) = timeout(BEGINNING, self.reached()).await else {
            return Ok(Following::Silent);
        };
        reached?;
        let (opened, happened, open) = {
            let mut state = self.cluster.lock();
            (
                state.open(kind, from),
                state.happened(),
                Duration::from_secs(state.rng.u64(10..56)),
            )
        };
        let mut stream = match opened {
            Ok(stream) => stream,
            Err(following) => return Ok(following),
        };
        let end = Instant::now() + open;
        loop {
            let mut happening = std::pin::pin!(happened.notified());
            happening.as_mut().enable();
            let next = self.cluster.lock().next(&mut stream);
            match next {
                Next::Event(object, ObjectState::Present) => {
                    on_event(ObjectEvent::Changed(&object))
                }
                Next::Event(object, ObjectState::Deleted) => {
                    on_event(ObjectEvent::Deleted(&object))
                }
                Next::Bookmark(version) => on_event(ObjectEvent::Bookmark(&version.to_string())),
                Next::End(end) => return end,
                Next::Nothing => {
                    let wake_at = self.cluster.lock().wake_at(&stream, end);
                    if timeout_at(wake_at, happening).await.is_err() {
                        if wake_at < end {
                            continue;
                        }
                        return Ok(self.ending());
                    }
                    let delay = self.cluster.lock().event_delay();
                    sleep(delay).await;
                }
            }
        }
    }
}

impl SimState {
    /// When a stream that ends at `end` has something to do although nothing happens.
    fn wake_at(&self, stream: &Stream, end: Instant) -> Instant {
        match self.faults.bookmarks {
            Bookmarks::Rare if stream.bookmark_at > Instant::now() => end.min(stream.bookmark_at),
            Bookmarks::Rare | Bookmarks::Often => end,
        }
    }

    /// Delay of the next event. Each kind has its own stream with its own delays.
    fn event_delay(&mut self) -> Duration {
        let per_mille = self.faults.late_notice;
        let most = if self.chance(per_mille) == Chance::Hit {
            LONGEST_DELAY
        } else {
            30
        };
        Duration::from_millis(self.rng.u64(1..most))
    }
}

fn list(
    state: &mut SimState,
    kind: ObservedKind,
    moment: &Moment,
) -> Result<(u64, Vec<Value>), ClusterError> {
    if let Some((at, objects)) = &state.server.memory {
        return match moment {
            Moment::Of(version) if *version != at.to_string() => Err(ClusterError::Expired {
                resource: kind.resource(),
            }),
            Moment::Of(_) | Moment::Latest => Ok((*at, of_kind(objects, kind))),
        };
    }
    let (per_mille, earlier) = (state.faults.stale_list, state.history.len());
    let seen = match moment {
        Moment::Of(version) if *version != state.version.to_string() => {
            let there = state
                .history
                .iter()
                .position(|(at, _)| at.to_string() == *version);
            Some(there.ok_or(ClusterError::Expired {
                resource: kind.resource(),
            })?)
        }
        Moment::Of(_) => None,
        Moment::Latest if earlier > 0 && state.chance(per_mille) == Chance::Hit => {
            Some(state.rng.usize(..earlier))
        }
        Moment::Latest => None,
    };
    let (version, objects) = match seen {
        Some(index) => (state.history[index].0, &state.history[index].1),
        None => (state.version, &state.objects),
    };
    let mut objects = of_kind(objects, kind);
    state.rng.shuffle(&mut objects);
    Ok((version, objects))
}

fn of_kind(objects: &Objects, kind: ObservedKind) -> Vec<Value> {
    objects
        .iter()
        .filter(|((of, _), _)| *of == kind)
        .map(|(_, object)| object.clone())
        .collect()
}

fn answer(state: &mut SimState, sender: &Sender, write: &Write) -> Result<Written, WriteError> {
    let lost = |what: &str| Err(WriteError::Unknown(what.to_owned()));
    let faults = state.faults;
    if state.chance(faults.lost_request) == Chance::Hit {
        return lost("the request was lost");
    }
    if state.chance(faults.conflict) == Chance::Hit {
        return Err(WriteError::Superseded(
            "a conflict for no reason".to_owned(),
        ));
    }
    if state.chance(faults.late_landing) == Chance::Hit {
        state.late.push((sender.clone(), write.clone()));
        return lost("no answer in time");
    }
    let answer = state.write(sender, write);
    if state.chance(faults.lost_answer) == Chance::Hit {
        lost("the answer was lost")
    } else {
        answer
    }
}
