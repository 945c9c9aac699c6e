//! Signs that something may have changed under a directory: files that are written, replaced or
//! moved, links that are turned to another place, a directory that goes and comes back. Never says
//! what has changed; who hears of a sign reads again.

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Files are looked at when nothing has moved for so long: an editor and `git checkout` make many
/// small steps.
const QUIET: Duration = Duration::from_millis(25);

/// After they were read it must have been quiet for so long: what moved while they were read is
/// told of a moment later.
const QUIET_AFTERWARDS: Duration = Duration::from_millis(10);

/// They are looked at all the same when it does not become quiet for so long.
const UNREST: Duration = Duration::from_secs(2);

/// They are looked at so often without any sign: some file systems give none.
const POLL: Duration = Duration::from_secs(10);

/// Whether the files moved while they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stillness {
    /// They did not.
    Still,
    /// They did, and there will be another sign.
    Moved,
    /// No sign had come, so perhaps none comes here at all; there will be another look at once.
    Unknown,
}

/// What led to a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Sign,
    Time,
    SecondLook,
}

/// Listens.
pub struct DirectoryEvents {
    directory: PathBuf,
    /// `None` where the system has no more to give; then polling must do.
    watcher: Option<RecommendedWatcher>,
    watched: Vec<PathBuf>,
    relevant: Arc<Mutex<Relevant>>,
    sign: Arc<Notify>,
    cause: Cause,
}

/// Paths whose events matter: others lie beside the directory, in folders that are listened to for
/// its sake.
#[derive(Debug, Default)]
struct Relevant {
    /// The directory, by each of its names.
    within: Vec<PathBuf>,
    /// The links that lead to it.
    links: Vec<PathBuf>,
}

impl Relevant {
    fn has(&self, event: &Event) -> bool {
        let is_ours = |path: &PathBuf| {
            self.links.contains(path) || self.within.iter().any(|ours| path.starts_with(ours))
        };
        event.need_rescan() || event.paths.iter().any(is_ours)
    }
}

impl DirectoryEvents {
    /// Begins to listen.
    pub fn new(directory: &Path) -> DirectoryEvents {
        let (sign, relevant) = (
            Arc::new(Notify::new()),
            Arc::new(Mutex::new(Relevant::default())),
        );
        let (seen, ours) = (sign.clone(), relevant.clone());
        let on_event = move |event: notify::Result<Event>| {
            let matters = match &event {
                // Reading is an event, too, and reading is all that we do.
                Ok(Event {
                    kind: EventKind::Access(_),
                    ..
                }) => false,
                Ok(event) => ours
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .has(event),
                Err(_) => true,
            };
            if matters {
                seen.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(on_event).ok();
        let directory = directory.to_owned();
        let mut events = DirectoryEvents {
            directory,
            watcher,
            watched: Vec::new(),
            relevant,
            sign,
            cause: Cause::Sign,
        };
        events.listen_anew();
        events
    }

    /// Waits for a sign, and then for quiet. What is read afterwards misses nothing that had
    /// happened before.
    pub async fn changed(&mut self) {
        let wait = if self.cause == Cause::SecondLook {
            UNREST
        } else {
            POLL
        };
        let has_sign = timeout(wait, self.sign.notified()).await.is_ok();
        self.cause = match (has_sign, self.cause) {
            (true, _) => Cause::Sign,
            (false, Cause::SecondLook) => Cause::SecondLook,
            (false, Cause::Sign | Cause::Time) => Cause::Time,
        };
        let began = Instant::now();
        while began.elapsed() < UNREST && timeout(QUIET, self.sign.notified()).await.is_ok() {}
        self.listen_anew();
    }

    /// Whether what was read since [`DirectoryEvents::changed`] was at rest.
    pub async fn stillness(&mut self) -> Stillness {
        if timeout(QUIET_AFTERWARDS, self.sign.notified())
            .await
            .is_ok()
        {
            self.sign.notify_one();
            return Stillness::Moved;
        }
        match self.cause {
            Cause::Sign => Stillness::Still,
            Cause::Time => {
                self.cause = Cause::SecondLook;
                Stillness::Unknown
            }
            Cause::SecondLook => {
                self.cause = Cause::Time;
                Stillness::Unknown
            }
        }
    }

    /// A watch is on what a path meant when it began; a link or a directory of the same name may be
    /// another one by now.
    fn listen_anew(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        for path in self.watched.drain(..) {
            let _ = watcher.unwatch(&path);
        }
        let absolute =
            std::path::absolute(&self.directory).unwrap_or_else(|_| self.directory.clone());
        let links = links(&absolute);
        let within = [
            Some(absolute.clone()),
            std::fs::canonicalize(&absolute).ok(),
        ]
        .into_iter()
        .flatten()
        .collect();
        *self.relevant.lock().unwrap_or_else(PoisonError::into_inner) = Relevant {
            within,
            links: links.clone(),
        };
        let around = links
            .iter()
            .filter_map(|link| link.parent())
            .chain(absolute.parent());
        let around = around.map(|folder| (folder, RecursiveMode::NonRecursive));
        for (path, mode) in around.chain([(absolute.as_path(), RecursiveMode::Recursive)]) {
            if !self.watched.iter().any(|watched| watched == path)
                && watcher.watch(path, mode).is_ok()
            {
                self.watched.push(path.to_owned());
            }
        }
    }
}

/// The links that a path goes through.
fn links(path: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let mut so_far = PathBuf::new();
    for component in path.components() {
        so_far.push(component);
        if matches!(component, Component::Normal(_)) && so_far.is_symlink() {
            links.push(so_far.clone());
        }
    }
    links
}
