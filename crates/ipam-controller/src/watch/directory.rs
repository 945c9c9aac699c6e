//! A directory as the source of the files: read again when something stirs in it, and believed when
//! it is at rest.

use std::path::Path;
use std::sync::Arc;

use super::Source;
use super::files::is_same;
use crate::Loaded;
use ipam_config::source::{DirectoryEvents, Stillness};

/// A directory.
pub struct Directory {
    load: Arc<dyn Fn() -> Loaded + Send + Sync>,
    events: DirectoryEvents,
    /// The last reading, where it is not known whether the directory was at rest.
    doubtful: Option<Loaded>,
}

impl Directory {
    /// Begins to listen, so that nothing is missed that happens after it; `load` reads and checks
    /// the files.
    pub fn new(directory: &Path, load: impl Fn() -> Loaded + Send + Sync + 'static) -> Directory {
        Directory {
            load: Arc::new(load),
            events: DirectoryEvents::new(directory),
            doubtful: None,
        }
    }

    /// The files as they are now.
    pub fn load(&self) -> Loaded {
        (self.load)()
    }
}

impl Source for Directory {
    async fn next(&mut self) -> Loaded {
        loop {
            self.events.changed().await;
            let load = self.load.clone();
            // Beside everything else: a file system may hang.
            let Ok(loaded) = tokio::task::spawn_blocking(move || load()).await else {
                continue;
            };
            let is_still = match self.events.stillness().await {
                Stillness::Still => true,
                // Two readings that are the same show no directory in motion.
                Stillness::Moved | Stillness::Unknown => self
                    .doubtful
                    .as_ref()
                    .is_some_and(|last| is_same(last, &loaded)),
            };
            if is_still {
                self.doubtful = None;
                return loaded;
            }
            self.doubtful = Some(loaded);
        }
    }
}
