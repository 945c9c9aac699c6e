//! One client of the world. Between any two things that it does, others may do something.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use super::super::rules::version_of;
use super::super::{
    Cluster, ClusterError, Follow, Following, LeaseName, Listener, LockSeen, Moment, ObjectEvent,
    Seen, Stored, Write, WriteError, Written,
};
use super::server::{Next, Serving, Told};
use super::world::{Happens, Objects, Sender, SimWorld, World};
use ipam_cilium::observed::{CLAIMS_NAME, ObservedKind};
use ipam_core::model::NodeName;
use ipam_core::net::Block;

/// How late a notice may be, in milliseconds.
const LATEST_NOTICE: u64 = 8_000;

/// Lets others run so many times.
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

/// What passes between any two things that a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Steps of whoever polls it.
    Steps,
    /// Time of the runtime, whose clock must be paused.
    Time,
}

/// A client.
#[derive(Debug)]
pub struct SimClient {
    name: u32,
    pace: Pace,
    world: SimWorld,
    pins: Arc<BTreeMap<NodeName, Vec<Block>>>,
    listed_at: AtomicU64,
}

impl SimClient {
    pub(super) fn new(
        name: u32,
        world: SimWorld,
        pins: Arc<BTreeMap<NodeName, Vec<Block>>>,
        pace: Pace,
    ) -> SimClient {
        SimClient {
            name,
            pace,
            world,
            pins,
            listed_at: AtomicU64::new(0),
        }
    }

    /// At least once, so that a crash can come before and after every request.
    async fn others(&self) {
        match self.pace {
            Pace::Steps => {
                let times = self.world.lock().rng.u32(1..3);
                Yield(times).await;
            }
            Pace::Time => {
                let way = self.world.lock().rng.u64(1..20);
                sleep(Duration::from_millis(way)).await;
            }
        }
    }

    /// The run of the server, where it answers.
    fn reached(&self) -> Result<u64, ClusterError> {
        let world = self.world.lock();
        match world.server.serving {
            Serving::Up => Ok(world.server.run),
            Serving::Down => Err(reset()),
        }
    }

    /// Whether an answer of this run still arrives.
    fn arrives(&self, run: u64) -> Result<(), ClusterError> {
        if self.reached()? == run {
            Ok(())
        } else {
            Err(reset())
        }
    }
}

fn reset() -> ClusterError {
    ClusterError::Unreachable("the connection was reset".to_owned())
}

impl Cluster for SimClient {
    async fn list(
        &self,
        kind: ObservedKind,
        _namespace: &str,
        moment: &Moment,
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        self.others().await;
        let run = self.reached()?;
        let (version, objects) = {
            let mut world = self.world.lock();
            let per_mille = world.faults.failed_list;
            if world.happens(per_mille) == Happens::Now {
                return Err(reset());
            }
            let listed = list(&mut world, kind, moment)?;
            world.note(|| {
                format!(
                    "client {} lists {} as of {}",
                    self.name,
                    kind.resource(),
                    listed.0
                )
            });
            listed
        };
        listener.begun(&version.to_string())?;
        if kind == ObservedKind::Node {
            self.listed_at.store(version, Ordering::Relaxed);
        }
        // The pages of a list come one by one, and all show the same moment.
        self.others().await;
        self.arrives(run)?;
        for object in objects {
            listener.object(&object.to_string())?;
        }
        Ok(Seen::All)
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        let sender = Sender {
            listed_at: self.listed_at.load(Ordering::Relaxed),
            pins: self.pins.clone(),
        };
        self.others().await;
        let unknown = |error: ClusterError| WriteError::Unknown(error.to_string());
        let run = self.reached().map_err(unknown)?;
        let answer = {
            let mut world = self.world.lock();
            world.note(|| format!("client {} writes {:?}", self.name, write.target));
            let answer = answer(&mut world, &sender, write);
            world.note(|| format!("client {} is told {answer:?}", self.name));
            answer
        };
        self.others().await;
        self.arrives(run).map_err(unknown)?;
        answer
    }

    async fn lock(&self, _: LeaseName) -> Result<LockSeen, ClusterError> {
        Ok(LockSeen::NotKept)
    }

    fn now(&self) -> Timestamp {
        self.world.lock().now
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        Ok(())
    }
}

impl Follow for SimClient {
    async fn stored_claims(&self) -> Result<Stored, ClusterError> {
        self.others().await;
        self.reached()?;
        let stored = {
            let world = self.world.lock();
            let claims = world
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
        self.reached()?;
        let (opened, happened, open) = {
            let mut world = self.world.lock();
            (
                world.open(kind, from),
                world.happened(),
                Duration::from_secs(world.rng.u64(10..56)),
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
            let next = self.world.lock().next(&mut stream);
            match next {
                Next::Event(object, Told::There) => on_event(ObjectEvent::Changed(&object)),
                Next::Event(object, Told::Gone) => on_event(ObjectEvent::Deleted(&object)),
                Next::Bookmark(version) => on_event(ObjectEvent::Bookmark(&version.to_string())),
                Next::End(end) => return end,
                Next::Nothing => {
                    if timeout_at(end, happening).await.is_err() {
                        return Ok(Following::Closed);
                    }
                    let way = self.world.lock().way_of_notice();
                    sleep(way).await;
                }
            }
        }
    }
}

impl World {
    /// Each kind has a stream of its own, and none knows how late another is.
    fn way_of_notice(&mut self) -> Duration {
        let per_mille = self.faults.late_notice;
        let most = if self.happens(per_mille) == Happens::Now {
            LATEST_NOTICE
        } else {
            30
        };
        Duration::from_millis(self.rng.u64(1..most))
    }
}

fn list(
    world: &mut World,
    kind: ObservedKind,
    moment: &Moment,
) -> Result<(u64, Vec<Value>), ClusterError> {
    if let Some((at, objects)) = &world.server.memory {
        return match moment {
            Moment::Of(version) if *version != at.to_string() => Err(ClusterError::Expired {
                resource: kind.resource(),
            }),
            Moment::Of(_) | Moment::Latest => Ok((*at, of_kind(objects, kind))),
        };
    }
    let (per_mille, earlier) = (world.faults.stale_list, world.history.len());
    let seen = match moment {
        Moment::Of(version) if *version != world.version.to_string() => {
            let there = world
                .history
                .iter()
                .position(|(at, _)| at.to_string() == *version);
            Some(there.ok_or(ClusterError::Expired {
                resource: kind.resource(),
            })?)
        }
        Moment::Of(_) => None,
        Moment::Latest if earlier > 0 && world.happens(per_mille) == Happens::Now => {
            Some(world.rng.usize(..earlier))
        }
        Moment::Latest => None,
    };
    let (version, objects) = match seen {
        Some(index) => (world.history[index].0, &world.history[index].1),
        None => (world.version, &world.objects),
    };
    let mut objects = of_kind(objects, kind);
    world.rng.shuffle(&mut objects);
    Ok((version, objects))
}

fn of_kind(objects: &Objects, kind: ObservedKind) -> Vec<Value> {
    objects
        .iter()
        .filter(|((of, _), _)| *of == kind)
        .map(|(_, object)| object.clone())
        .collect()
}

fn answer(world: &mut World, sender: &Sender, write: &Write) -> Result<Written, WriteError> {
    let lost = |what: &str| Err(WriteError::Unknown(what.to_owned()));
    let faults = world.faults;
    if world.happens(faults.lost_request) == Happens::Now {
        return lost("the request was lost");
    }
    if world.happens(faults.conflict) == Happens::Now {
        return Err(WriteError::Superseded(
            "a conflict for no reason".to_owned(),
        ));
    }
    if world.happens(faults.late_landing) == Happens::Now {
        world.late.push((sender.clone(), write.clone()));
        return lost("no answer in time");
    }
    let answer = world.write(sender, write);
    if world.happens(faults.lost_answer) == Happens::Now {
        lost("the answer was lost")
    } else {
        answer
    }
}
