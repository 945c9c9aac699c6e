//! The API server in front of the store: what it tells those who follow, and what becomes of it
//! when the store goes back in time.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Notify;

use super::super::{ClusterError, Following};
use super::world::{Happens, Objects, SimWorld, World, Writers};
use ipam_cilium::observed::ObservedKind;

/// How many events it remembers.
const REMEMBERED: usize = 200;

/// Far beyond what a history writes.
const BUMP: u64 = 1_000_000;

/// What becomes of the resourceVersion when a snapshot is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// It goes back to that of the snapshot: its numbers come a second time.
    AsSaved,
    /// It is raised beyond all that was seen, and what was before is forgotten.
    Bumped,
}

/// Whether the API server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Serving {
    /// It does.
    #[default]
    Up,
    /// It does not.
    Down,
}

/// The store as it was.
#[derive(Clone, Debug)]
pub struct Saved {
    version: u64,
    objects: Objects,
    writers: Writers,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    There,
    Gone,
}

#[derive(Clone, Debug)]
struct Event {
    version: u64,
    kind: ObservedKind,
    object: Arc<Value>,
    told: Told,
}

#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) serving: Serving,
    events: VecDeque<Event>,
    /// What happened up to this moment is forgotten.
    forgotten: u64,
    /// Streams of an earlier run end.
    pub(super) run: u64,
    /// What it lists from memory, where the store went back in time under it: the moment and the
    /// objects.
    pub(super) memory: Option<(u64, Objects)>,
    /// The newest version that ever was.
    newest: u64,
    /// Events that were told.
    told: u64,
    happened: Arc<Notify>,
}

/// One who follows a kind.
pub(super) struct Stream {
    kind: ObservedKind,
    at: u64,
    run: u64,
}

/// What a stream says next.
pub(super) enum Next {
    Event(Arc<Value>, Told),
    Bookmark(u64),
    Nothing,
    End(Result<Following, ClusterError>),
}

impl SimWorld {
    /// Saves the store.
    pub fn save(&self) -> Saved {
        let world = self.lock();
        Saved {
            version: world.version,
            objects: world.objects.clone(),
            writers: world.writers.clone(),
        }
    }

    /// Puts the store back, under a server that goes on running or is down.
    pub fn restore(&self, saved: &Saved, revision: Revision) {
        let mut world = self.lock();
        world.note(|| format!("the store goes back to {}: {revision:?}", saved.version));
        let before = (
            world.version,
            std::mem::replace(&mut world.objects, saved.objects.clone()),
        );
        world.writers = saved.writers.clone();
        world.server.newest = world.server.newest.max(world.version);
        world.version = match revision {
            Revision::AsSaved => saved.version,
            Revision::Bumped => world.server.newest + BUMP,
        };
        world.history.clear();
        match (revision, world.server.serving) {
            // Its own stream of the store goes on from a moment that is yet to come, so it hears of
            // nothing.
            (Revision::AsSaved, Serving::Up) => {
                let memory = world.server.memory.take();
                world.server.memory =
                    Some(memory.filter(|(at, _)| *at > before.0).unwrap_or(before));
            }
            // Its stream is refused, because that moment is compacted: it reads all anew.
            (Revision::Bumped, _) | (_, Serving::Down) => world.begin_run(),
        }
    }

    /// Ends the server, or starts it.
    pub fn serve(&self, serving: Serving) {
        let mut world = self.lock();
        world.note(|| format!("the API server is {serving:?}"));
        world.server.serving = serving;
        world.begin_run();
    }

    /// The newest version that ever was.
    pub fn newest(&self) -> u64 {
        let world = self.lock();
        world.server.newest.max(world.version)
    }

    /// How many events were told so far, to all who follow.
    pub fn events(&self) -> u64 {
        self.lock().server.told
    }
}

impl World {
    fn begin_run(&mut self) {
        self.server.run += 1;
        self.server.memory = None;
        self.server.events.clear();
        self.server.forgotten = self.version;
        self.history.clear();
        self.server.happened.notify_waiters();
    }

    /// The moment that the server shows.
    fn shown(&self) -> u64 {
        self.server
            .memory
            .as_ref()
            .map_or(self.version, |(at, _)| *at)
    }

    /// Something happened in the store.
    pub(super) fn tell(&mut self, key: &(ObservedKind, String), object: Value, told: Told) {
        let version = self.version;
        if let Some((at, objects)) = &mut self.server.memory {
            if version <= *at {
                return;
            }
            *at = version;
            match told {
                Told::There => objects.insert(key.clone(), object.clone()),
                Told::Gone => objects.remove(key),
            };
        }
        self.server.events.push_back(Event {
            version,
            kind: key.0,
            object: Arc::new(object),
            told,
        });
        if self.server.events.len() > REMEMBERED
            && let Some(oldest) = self.server.events.pop_front()
        {
            self.server.forgotten = oldest.version;
        }
        self.server.happened.notify_waiters();
    }

    pub(super) fn happened(&self) -> Arc<Notify> {
        self.server.happened.clone()
    }

    pub(super) fn open(&mut self, kind: ObservedKind, from: u64) -> Result<Stream, Following> {
        let per_mille = self.faults.forgotten_moment;
        if from < self.server.forgotten || self.happens(per_mille) == Happens::Now {
            return Err(Following::Lost("too old resource version".to_owned()));
        }
        Ok(Stream {
            kind,
            at: from,
            run: self.server.run,
        })
    }

    pub(super) fn next(&mut self, stream: &mut Stream) -> Next {
        if stream.run != self.server.run {
            let is_polite = self.rng.bool();
            let reset = || {
                Err(ClusterError::Unreachable(
                    "the connection was reset".to_owned(),
                ))
            };
            return Next::End(if is_polite {
                Ok(Following::Closed)
            } else {
                reset()
            });
        }
        if stream.at < self.server.forgotten {
            return Next::End(Ok(Following::Lost("too old resource version".to_owned())));
        }
        let faults = self.faults;
        if stream.at < self.shown() && self.happens(faults.early_bookmark) == Happens::Now {
            return Next::Bookmark(self.shown());
        }
        let later = self
            .server
            .events
            .iter()
            .filter(|event| event.kind == stream.kind);
        if let Some(event) = later
            .clone()
            .find(|event| event.version > stream.at)
            .cloned()
        {
            stream.at = event.version;
            self.server.told += 1;
            if self.happens(faults.lost_notice) == Happens::Now {
                return self.next(stream);
            }
            return Next::Event(event.object, event.told);
        }
        let shown = self.shown();
        if stream.at < shown && self.rng.bool() {
            stream.at = shown;
            return Next::Bookmark(shown);
        }
        Next::Nothing
    }
}
