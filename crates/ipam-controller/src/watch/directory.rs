//! A directory as the source of the files. It is read after each change, and the result counts once
//! the directory no longer changes.

use std::path::Path;
use std::sync::Arc;

use super::Source;
use super::files::is_same;
use crate::Loaded;
use ipam_config::source::{DirectoryEvents, Stillness};

/// A directory of files.
pub struct Directory {
    load: Arc<dyn Fn() -> Loaded + Send + Sync>,
    events: DirectoryEvents,
    /// The last result, if the directory may have changed during the read.
    doubtful: Option<Loaded>,
}

impl Directory {
    /// Watches the directory from now on, so no later change is missed. `load` reads and checks the
    /// files.
    pub fn new(directory: &Path, load: impl Fn() -> Loaded + Send + Sync + 'static) -> Directory {
        Directory {
            load: Arc::new(load),
            events: DirectoryEvents::new(directory),
            doubtful: None,
        }
    }

    /// Reads the files now.
    pub fn load(&self) -> Loaded {
        (self.load)()
    }
}

impl Source for Directory {
    async fn next(&mut self) -> Loaded {
        loop {
            self.events.changed().await;
            let load = self.load.clone();
            // In a thread of its own: a file system may hang.
            let Ok(loaded) = tokio::task::spawn_blocking(move || load()).await else {
                continue;
            };
            let is_still = match self.events.stillness().await {
                Stillness::Still => true,
                // Two equal results mean that the directory no longer changes.
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
