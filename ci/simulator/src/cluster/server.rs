//! The API server in front of the store: its watches, its runs, and a store that goes back in time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

use super::state::{Bookmarks, Chance, Objects, SimCluster, SimState, Writers};
use ipam_cilium::observed::ObservedKind;
use ipam_cluster::{ClusterError, Following};

/// Number of events that it remembers.
const REMEMBERED: usize = 200;

/// How long after the beginning of a stream its only bookmark comes, if bookmarks are rare.
const RARE_BOOKMARK: Duration = Duration::from_secs(53);

/// More resourceVersions than a history uses.
const BUMP: u64 = 1_000_000;

/// The resourceVersion after a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// That of the snapshot: its numbers are used a second time.
    AsSaved,
    /// Above all that were used, and the events before are forgotten.
    Bumped,
}

/// Whether the API server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Serving {
    /// It answers.
    #[default]
    Up,
    /// It refuses connections, and its streams end.
    Down,
    /// It runs on, but no packet gets through in either direction.
    Silent,
}

/// A snapshot of the store.
#[derive(Clone, Debug)]
pub struct Saved {
    version: u64,
    objects: Objects,
    writers: Writers,
}

/// An object in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectState {
    Present,
    Deleted,
}

#[derive(Clone, Debug)]
struct Event {
    version: u64,
    kind: ObservedKind,
    object: Arc<Value>,
    object_state: ObjectState,
}

#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) serving: Serving,
    events: VecDeque<Event>,
    /// Events up to this resourceVersion are forgotten.
    forgotten: u64,
    /// Number of starts. Streams of an earlier run end.
    pub(super) run: u64,
    /// The moment and the objects that it lists from memory, if the store went back in time under
    /// it.
    pub(super) memory: Option<(u64, Objects)>,
    /// The newest resourceVersion ever used.
    newest: u64,
    /// Events that were sent.
    sent: u64,
    /// Lists of each kind that were answered.
    pub(super) lists: BTreeMap<ObservedKind, usize>,
    /// Kinds that each client has listed since the last restore, by its number.
    pub(super) read: BTreeMap<u32, BTreeSet<ObservedKind>>,
    happened: Arc<Notify>,
}

/// A watch of one kind.
pub(super) struct Stream {
    kind: ObservedKind,
    at: u64,
    run: u64,
    /// When it gets its only bookmark, if bookmarks are rare.
    pub(super) bookmark_at: Instant,
}

/// What a stream does next.
pub(super) enum Next {
    Event(Arc<Value>, ObjectState),
    Bookmark(u64),
    Nothing,
    End(Result<Following, ClusterError>),
}

impl SimCluster {
    /// Takes a snapshot of the store.
    pub fn save(&self) -> Saved {
        let state = self.lock();
        Saved {
            version: state.version,
            objects: state.objects.clone(),
            writers: state.writers.clone(),
        }
    }

    /// Restores a snapshot, under a server that runs or is down.
    pub fn restore(&self, saved: &Saved, revision: Revision) {
        let mut state = self.lock();
        state.note(|| format!("the store goes back to {}: {revision:?}", saved.version));
        let before = (
            state.version,
            std::mem::replace(&mut state.objects, saved.objects.clone()),
        );
        state.writers = saved.writers.clone();
        state.server.newest = state.server.newest.max(state.version);
        state.version = match revision {
            Revision::AsSaved => saved.version,
            Revision::Bumped => state.server.newest + BUMP,
        };
        state.history.clear();
        state.server.read.clear();
        match (revision, state.server.serving) {
            // The server's own watch of the store waits for a moment that is yet to come, so it
            // gets no events.
            (Revision::AsSaved, Serving::Up | Serving::Silent) => {
                let memory = state.server.memory.take();
                state.server.memory =
                    Some(memory.filter(|(at, _)| *at > before.0).unwrap_or(before));
            }
            // The store refuses that watch, because the moment is compacted: the server reads
            // everything anew.
            (Revision::Bumped, _) | (_, Serving::Down) => state.begin_run(),
        }
    }

    /// Whether a client has listed everything since the last restore.
    pub fn has_read(&self, client: u32) -> bool {
        let state = self.lock();
        let read = state.server.read.get(&client);
        read.is_some_and(|read| {
            ObservedKind::OF_PLANS
                .iter()
                .all(|kind| read.contains(kind))
        })
    }

    /// Starts the server, ends it, or cuts it off. Of the requests that a server has when it
    /// ends, some are done, without an answer.
    pub fn serve(&self, serving: Serving) {
        let mut state = self.lock();
        state.note(|| format!("the API server is {serving:?}"));
        let before = std::mem::replace(&mut state.server.serving, serving);
        if [before, serving].contains(&Serving::Down) {
            state.end_late_writes();
            state.begin_run();
        } else {
            state.server.happened.notify_waiters();
        }
    }

    /// The newest resourceVersion ever used.
    pub fn newest(&self) -> u64 {
        let state = self.lock();
        state.server.newest.max(state.version)
    }

    /// Number of lists of a kind that were answered.
    #[cfg(test)]
    pub fn lists(&self, kind: ObservedKind) -> usize {
        let state = self.lock();
        state.server.lists.get(&kind).copied().unwrap_or_default()
    }

    /// Number of events that were sent, to all clients.
    pub fn events(&self) -> u64 {
        self.lock().server.sent
    }
}

impl SimState {
    fn end_late_writes(&mut self) {
        for (sender, write) in std::mem::take(&mut self.late) {
            if self.rng.bool() {
                let _ = self.write(&sender, &write);
            }
        }
    }

    fn begin_run(&mut self) {
        self.server.run += 1;
        self.server.memory = None;
        self.server.events.clear();
        self.server.forgotten = self.version;
        self.history.clear();
        self.server.happened.notify_waiters();
    }

    /// The resourceVersion that the server shows.
    fn shown(&self) -> u64 {
        self.server
            .memory
            .as_ref()
            .map_or(self.version, |(at, _)| *at)
    }

    /// Sends a change of the store to the streams.
    pub(super) fn publish(
        &mut self,
        key: &(ObservedKind, String),
        object: Value,
        object_state: ObjectState,
    ) {
        let version = self.version;
        if let Some((at, objects)) = &mut self.server.memory {
            if version <= *at {
                return;
            }
            *at = version;
            match object_state {
                ObjectState::Present => objects.insert(key.clone(), object.clone()),
                ObjectState::Deleted => objects.remove(key),
            };
        }
        self.server.events.push_back(Event {
            version,
            kind: key.0,
            object: Arc::new(object),
            object_state,
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
        if from < self.server.forgotten || self.chance(per_mille) == Chance::Hit {
            return Err(Following::Lost("too old resource version".to_owned()));
        }
        Ok(Stream {
            kind,
            at: from,
            run: self.server.run,
            bookmark_at: Instant::now() + RARE_BOOKMARK,
        })
    }

    pub(super) fn next(&mut self, stream: &mut Stream) -> Next {
        if self.server.serving == Serving::Silent {
            return Next::Nothing;
        }
        if stream.run != self.server.run {
            let is_polite = self.rng.bool();
            let reset = || {
                Err(ClusterError::Unreachable(
                    "the API server does not answer: the connection was reset".to_owned(),
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
        if stream.at < self.shown() && self.chance(faults.early_bookmark) == Chance::Hit {
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
            self.server.sent += 1;
            if self.chance(faults.lost_notice) == Chance::Hit {
                return self.next(stream);
            }
            return Next::Event(event.object, event.object_state);
        }
        let shown = self.shown();
        let is_late = self.chance(faults.late_bookmark) == Chance::Hit;
        let is_due = match faults.bookmarks {
            Bookmarks::Often => self.rng.bool(),
            Bookmarks::Rare => stream.bookmark_at <= Instant::now(),
        };
        if stream.at < shown && !is_late && is_due {
            stream.at = shown;
            return Next::Bookmark(shown);
        }
        Next::Nothing
    }
}
