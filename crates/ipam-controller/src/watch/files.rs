//! The files that are in force, and what became of the newest ones.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::Loaded;
use ipam_desired::Activity;

/// The last good files, shared between who reads them and who plans from them.
#[derive(Debug)]
pub(super) struct Files {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    in_force: Arc<Loaded>,
    is_new: bool,
    /// The newest ones, where they have faults.
    newest_invalid: Option<Arc<Loaded>>,
    /// Whether that was not told yet.
    is_untold: bool,
}

/// Whether two readings found the same files, with the same to say of them.
pub(super) fn is_same(one: &Loaded, other: &Loaded) -> bool {
    let Loaded {
        documents,
        findings,
        revision,
        desired: _,
    } = one;
    documents.files == other.documents.files
        && *findings == other.findings
        && *revision == other.revision
}

impl Files {
    pub(super) fn new(first: Loaded) -> Files {
        let state = State {
            in_force: Arc::new(first),
            is_new: false,
            newest_invalid: None,
            is_untold: false,
        };
        Files {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Takes files that were just read: as those in force, or as what is wrong with the newest
    /// ones.
    pub(super) fn offer(&self, loaded: Loaded) {
        let mut state = self.lock();
        let newest = state.newest_invalid.as_ref().unwrap_or(&state.in_force);
        if is_same(newest, &loaded) {
            return;
        }
        if loaded.has_errors() {
            if state.in_force.desired.policy.activity == Activity::Active
                && let Some(paused) = state.in_force.paused_by(&loaded)
            {
                state.in_force = Arc::new(paused);
                state.is_new = true;
            }
            state.newest_invalid = Some(Arc::new(loaded));
            state.is_untold = true;
        } else {
            state.in_force = Arc::new(loaded);
            state.newest_invalid = None;
            state.is_untold = false;
            state.is_new = true;
        }
        self.changed.notify_one();
    }

    pub(super) fn in_force(&self) -> Arc<Loaded> {
        self.lock().in_force.clone()
    }

    /// Files with faults that were not told of yet.
    pub(super) fn take_invalid(&self) -> Option<Arc<Loaded>> {
        let mut state = self.lock();
        let is_untold = std::mem::take(&mut state.is_untold);
        state.newest_invalid.clone().filter(|_| is_untold)
    }

    /// Whether those in force are others than the last time.
    pub(super) fn take_is_new(&self) -> bool {
        std::mem::take(&mut self.lock().is_new)
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
