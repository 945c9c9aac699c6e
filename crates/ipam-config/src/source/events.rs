//! Watches a directory for changes of files, links and the directory itself. Reports that something
//! may have changed, never what: the caller reads everything again.

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Time without an event before files are read. An editor and `git checkout` make many small steps.
const DEBOUNCE: Duration = Duration::from_millis(25);

/// Time without an event after files are read. Events of changes during the read arrive late.
const SETTLE: Duration = Duration::from_millis(10);

/// Longest time to wait for [`DEBOUNCE`].
const MAX_DEBOUNCE: Duration = Duration::from_secs(2);

/// Interval of reads without an event. Some file systems send no events.
const POLL: Duration = Duration::from_secs(10);

/// Limit of the links that Linux follows in one path.
const MAX_LINKS: usize = 40;

/// Whether the files changed while they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stillness {
    Still,
    /// The files changed; another event follows.
    Moved,
    /// Unknown, because no event led to the read. Another read follows at once.
    Unknown,
}

/// Why the files of a directory are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Event,
    Time,
    SecondRead,
}

/// A watched directory.
pub struct DirectoryEvents {
    directory: PathBuf,
    /// `None` if the system has no free watches. Then only [`POLL`] finds changes.
    watcher: Option<RecommendedWatcher>,
    watched: Vec<PathBuf>,
    relevant: Arc<Mutex<Relevant>>,
    event: Arc<Notify>,
    cause: Cause,
}

/// Paths whose events matter. Watched parent folders also send events of other paths.
#[derive(Debug, Default)]
struct Relevant {
    /// The watched directory, by each of its names.
    within: Vec<PathBuf>,
    /// The symbolic links in the path of the directory.
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
    /// Starts to watch a directory.
    pub fn new(directory: &Path) -> DirectoryEvents {
        let (changed, relevant) = (
            Arc::new(Notify::new()),
            Arc::new(Mutex::new(Relevant::default())),
        );
        let (notify, ours) = (changed.clone(), relevant.clone());
        let on_event = move |event: notify::Result<Event>| {
            let matters = match &event {
                // Reads by `cilium-ipam` itself cause these events.
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
                notify.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(on_event).ok();
        let directory = directory.to_owned();
        let mut events = DirectoryEvents {
            directory,
            watcher,
            watched: Vec::new(),
            relevant,
            event: changed,
            cause: Cause::Event,
        };
        events.watch_again();
        events
    }

    /// Waits for an event, then until none follows. A read afterwards sees every earlier change.
    pub async fn changed(&mut self) {
        let wait = if self.cause == Cause::SecondRead {
            MAX_DEBOUNCE
        } else {
            POLL
        };
        let has_event = timeout(wait, self.event.notified()).await.is_ok();
        self.cause = match (has_event, self.cause) {
            (true, _) => Cause::Event,
            (false, Cause::SecondRead) => Cause::SecondRead,
            (false, Cause::Event | Cause::Time) => Cause::Time,
        };
        let began = Instant::now();
        while began.elapsed() < MAX_DEBOUNCE
            && timeout(DEBOUNCE, self.event.notified()).await.is_ok()
        {}
        self.watch_again();
    }

    /// Whether files changed since [`DirectoryEvents::changed`] returned.
    pub async fn stillness(&mut self) -> Stillness {
        if timeout(SETTLE, self.event.notified()).await.is_ok() {
            self.event.notify_one();
            return Stillness::Moved;
        }
        match self.cause {
            Cause::Event => Stillness::Still,
            Cause::Time => {
                self.cause = Cause::SecondRead;
                Stillness::Unknown
            }
            Cause::SecondRead => {
                self.cause = Cause::Time;
                Stillness::Unknown
            }
        }
    }

    /// Replaces all watches. A watch stays on the old directory if a link or directory is replaced.
    fn watch_again(&mut self) {
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

/// The symbolic links that the system follows for an absolute path: those in the path, and those in
/// the path of each link's target.
fn links(path: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let mut so_far = PathBuf::new();
    let mut left: Vec<PathBuf> = parts(path).rev().collect();
    while let Some(part) = left.pop() {
        if part.as_os_str() == ".." {
            so_far.pop();
            continue;
        }
        so_far.push(part);
        let Ok(target) = std::fs::read_link(&so_far) else {
            continue;
        };
        links.push(so_far.clone());
        if links.len() == MAX_LINKS {
            break;
        }
        so_far.pop();
        left.extend(parts(&target).rev());
    }
    links
}

/// The components of a path, without `.`. The root replaces what it is joined to.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = PathBuf> {
    path.components()
        .filter(|component| *component != Component::CurDir)
        .map(|component| PathBuf::from(component.as_os_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_links_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        std::fs::create_dir_all(at("releases/1/pools")).unwrap();
        for (target, link) in [
            ("releases/1", "current"),
            ("../current/./pools", "releases/pools"),
        ] {
            std::os::unix::fs::symlink(target, at(link)).unwrap();
        }
        std::os::unix::fs::symlink(at("releases/pools"), at("pools")).unwrap();
        let found = links(&at("pools"));
        assert_eq!(found, [at("pools"), at("releases/pools"), at("current")]);
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        assert_eq!(links(&at("loop")).len(), MAX_LINKS);
    }
}
