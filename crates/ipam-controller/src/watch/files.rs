//! The last valid files, which apply, and the errors of newer ones.
//!
//! It reads nothing itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::Loaded;
use ipam_desired::Activity;

/// The last valid files, shared between the task that reads them and the task that plans.
#[derive(Debug)]
pub(super) struct Files {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    applied: Arc<Loaded>,
    is_new: bool,
    /// The newest files, if they have errors.
    newest_invalid: Option<Arc<Loaded>>,
    /// Whether those errors are not reported yet.
    is_unreported: bool,
}

/// Whether two reads found the same files with the same findings.
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
            applied: Arc::new(first),
            is_new: false,
            newest_invalid: None,
            is_unreported: false,
        };
        Files {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Takes files that were just read. They apply from now on, unless they have errors.
    pub(super) fn offer(&self, loaded: Loaded) {
        let mut state = self.lock();
        let newest = state.newest_invalid.as_ref().unwrap_or(&state.applied);
        if is_same(newest, &loaded) {
            return;
        }
        if loaded.has_errors() {
            if state.applied.desired.policy.activity == Activity::Active
                && let Some(paused) = state.applied.paused_by(&loaded)
            {
                state.applied = Arc::new(paused);
                state.is_new = true;
            }
            state.newest_invalid = Some(Arc::new(loaded));
            state.is_unreported = true;
        } else {
            state.applied = Arc::new(loaded);
            state.newest_invalid = None;
            state.is_unreported = false;
            state.is_new = true;
        }
        self.changed.notify_one();
    }

    pub(super) fn applied_config(&self) -> Arc<Loaded> {
        self.lock().applied.clone()
    }

    /// Files with errors that are not reported yet.
    pub(super) fn take_invalid(&self) -> Option<Arc<Loaded>> {
        let mut state = self.lock();
        let is_unreported = std::mem::take(&mut state.is_unreported);
        state.newest_invalid.clone().filter(|_| is_unreported)
    }

    /// Whether the files that apply have changed since the last call.
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
