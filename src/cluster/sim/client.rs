//! One client of the world. Between any two things that it does, others may do something.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use jiff::Timestamp;
use serde_json::Value;

use super::super::{Cluster, ClusterError, LeaseName, Listener, LockSeen, Moment, Seen, Write, WriteError, Written};
use super::world::{Happens, Sender, SimWorld, World};
use crate::model::NodeName;
use crate::net::Block;
use crate::observed::ObservedKind;

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

/// A client.
#[derive(Debug)]
pub struct SimClient {
    name: u32,
    world: SimWorld,
    pins: Arc<BTreeMap<NodeName, Vec<Block>>>,
    listed_at: AtomicU64,
}

impl SimClient {
    pub(super) fn new(name: u32, world: SimWorld, pins: Arc<BTreeMap<NodeName, Vec<Block>>>) -> SimClient {
        SimClient { name, world, pins, listed_at: AtomicU64::new(0) }
    }

    /// At least once, so that a crash can come before and after every request.
    async fn others(&self) {
        let times = self.world.lock().rng.u32(1..3);
        Yield(times).await;
    }
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
        let (version, objects) = {
            let mut world = self.world.lock();
            let per_mille = world.faults.failed_list;
            if world.happens(per_mille) == Happens::Now {
                return Err(ClusterError::Unreachable("the connection was reset".to_owned()));
            }
            let listed = list(&mut world, kind, moment)?;
            world.note(|| format!("client {} lists {} as of {}", self.name, kind.resource(), listed.0));
            listed
        };
        listener.begun(&version.to_string())?;
        if kind == ObservedKind::Node {
            self.listed_at.store(version, Ordering::Relaxed);
        }
        // The pages of a list come one by one, and all show the same moment.
        self.others().await;
        for object in objects {
            listener.object(&object.to_string())?;
        }
        Ok(Seen::All)
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        let sender = Sender { listed_at: self.listed_at.load(Ordering::Relaxed), pins: self.pins.clone() };
        self.others().await;
        let answer = {
            let mut world = self.world.lock();
            world.note(|| format!("client {} writes {:?}", self.name, write.target));
            let answer = answer(&mut world, &sender, write);
            world.note(|| format!("client {} is told {answer:?}", self.name));
            answer
        };
        self.others().await;
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

fn list(world: &mut World, kind: ObservedKind, moment: &Moment) -> Result<(u64, Vec<Value>), ClusterError> {
    let (per_mille, earlier) = (world.faults.stale_list, world.history.len());
    let seen = match moment {
        Moment::Of(version) if *version != world.version.to_string() => {
            let there = world.history.iter().position(|(at, _)| at.to_string() == *version);
            Some(there.ok_or(ClusterError::Expired { resource: kind.resource() })?)
        }
        Moment::Of(_) => None,
        Moment::Latest if earlier > 0 && world.happens(per_mille) == Happens::Now => Some(world.rng.usize(..earlier)),
        Moment::Latest => None,
    };
    let (version, objects) = match seen {
        Some(index) => (world.history[index].0, &world.history[index].1),
        None => (world.version, &world.objects),
    };
    let mut objects: Vec<Value> =
        objects.iter().filter(|((of, _), _)| *of == kind).map(|(_, object)| object.clone()).collect();
    world.rng.shuffle(&mut objects);
    Ok((version, objects))
}

fn answer(world: &mut World, sender: &Sender, write: &Write) -> Result<Written, WriteError> {
    let lost = |what: &str| Err(WriteError::Unknown(what.to_owned()));
    let faults = world.faults;
    if world.happens(faults.lost_request) == Happens::Now {
        return lost("the request was lost");
    }
    if world.happens(faults.conflict) == Happens::Now {
        return Err(WriteError::Superseded("a conflict for no reason".to_owned()));
    }
    if world.happens(faults.late_landing) == Happens::Now {
        world.late.push((sender.clone(), write.clone()));
        return lost("no answer in time");
    }
    let answer = world.write(sender, write);
    if world.happens(faults.lost_answer) == Happens::Now { lost("the answer was lost") } else { answer }
}
