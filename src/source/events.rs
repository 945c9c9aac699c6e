//! Signs that something may have changed under a directory: files that are written, replaced or moved, links that are turned to another
//! place, a directory that goes and comes back. Never says what has changed; who hears of a sign reads again.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Files are looked at when nothing has moved for so long: an editor and `git checkout` make many small steps.
const QUIET: Duration = Duration::from_millis(50);

/// After they were read it must have been quiet for so long: what moved while they were read is told of a moment later.
const QUIET_AFTERWARDS: Duration = Duration::from_millis(20);

/// They are looked at so often without any sign: some file systems give none.
const POLL: Duration = Duration::from_secs(10);

/// Listens.
pub struct DirectoryEvents {
    directory: PathBuf,
    /// `None` where the system has no more to give; then polling must do.
    watcher: Option<RecommendedWatcher>,
    watched: Vec<PathBuf>,
    sign: Arc<Notify>,
}

impl DirectoryEvents {
    /// Begins to listen.
    pub fn new(directory: &Path) -> DirectoryEvents {
        let sign = Arc::new(Notify::new());
        let seen = sign.clone();
        let on_event = move |event: notify::Result<Event>| {
            // Reading is an event, too, and reading is all that we do.
            if !matches!(event, Ok(Event { kind: EventKind::Access(_), .. })) {
                seen.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(on_event).ok();
        let mut events = DirectoryEvents { directory: directory.to_owned(), watcher, watched: Vec::new(), sign };
        events.listen_anew();
        events
    }

    /// Waits for a sign, and then for quiet. What is read afterwards misses nothing that had happened before.
    pub async fn changed(&mut self) {
        let _ = timeout(POLL, self.sign.notified()).await;
        while timeout(QUIET, self.sign.notified()).await.is_ok() {}
        self.listen_anew();
    }

    /// Whether nothing has moved since [`DirectoryEvents::changed`]; if something has, that is a sign, and what was read may be of two minds.
    pub async fn are_quiet(&self) -> bool {
        let moved = timeout(QUIET_AFTERWARDS, self.sign.notified()).await.is_ok();
        if moved {
            self.sign.notify_one();
        }
        !moved
    }

    /// A watch is on what a path meant when it began; a link or a directory of the same name may be another one by now.
    fn listen_anew(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        for path in self.watched.drain(..) {
            let _ = watcher.unwatch(&path);
        }
        let absolute = std::path::absolute(&self.directory).unwrap_or_else(|_| self.directory.clone());
        let around = links(&absolute).into_iter().chain(absolute.parent().map(Path::to_owned));
        let around = around.map(|folder| (folder, RecursiveMode::NonRecursive));
        for (path, mode) in around.chain([(absolute.clone(), RecursiveMode::Recursive)]) {
            if !self.watched.contains(&path) && watcher.watch(&path, mode).is_ok() {
                self.watched.push(path);
            }
        }
    }
}

/// The folders in which the links lie that a path goes through.
fn links(path: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut so_far = PathBuf::new();
    for component in path.components() {
        so_far.push(component);
        let is_link = matches!(component, Component::Normal(_)) && so_far.is_symlink();
        if let Some(folder) = so_far.parent().filter(|_| is_link) {
            folders.push(folder.to_owned());
        }
    }
    folders
}
