//! Reports in the cluster: statuses and finalizers of our objects, and Events.
//!
//! Only the leader writes. What could not be written is written with the next change.

mod events;
mod statuses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, mpsc};

use super::objects::Objects;
use crate::apply::Outcome;
use crate::status::{Faults, Texts};
use crate::{ControllerEvent, EventText, Loaded, Telemetry};
use ipam_core::model::{NodeName, PoolName};
use ipam_desired::PoolState;

/// Limit of the Events that wait to be written; further ones are dropped.
const EVENTS: usize = 2_048;

/// Whether this process writes to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriterMode {
    /// This process leads, and writes.
    Active,
    /// This process stands by, and writes nothing.
    Paused,
}

/// Collects reports of the operator, and writes the statuses that they change.
#[derive(Debug)]
pub(super) struct StatusWriter {
    objects: Arc<Objects>,
    telemetry: Arc<Telemetry>,
    identity: String,
    state: Mutex<State>,
    is_active: AtomicBool,
    wake: Notify,
    /// When a block was written last.
    written: Mutex<Instant>,
    events: mpsc::Sender<EventText>,
}

#[derive(Debug, Default)]
struct State {
    /// The documents that were read last, and their errors.
    read: Texts,
    faults: Faults,
    applied: Texts,
    /// The pools of the last plan of this term.
    planned: Option<BTreeMap<PoolName, PoolState>>,
    waiting: usize,
    /// Nodes that were reported as blocked, with the reason.
    blocked: BTreeMap<NodeName, String>,
    /// Pools that were reported as exhausted.
    exhausted: BTreeSet<String>,
}

impl StatusWriter {
    pub(super) fn new(
        objects: Arc<Objects>,
        telemetry: Arc<Telemetry>,
        identity: String,
    ) -> (StatusWriter, mpsc::Receiver<EventText>) {
        let (events, receiver) = mpsc::channel(EVENTS);
        let (state, is_active, wake) = (Mutex::default(), AtomicBool::new(false), Notify::new());
        let written = Mutex::new(Instant::now());
        (
            StatusWriter {
                objects,
                telemetry,
                identity,
                state,
                is_active,
                wake,
                written,
                events,
            },
            receiver,
        )
    }

    /// Starts or pauses writing, and forgets all reports: those of another term may be old.
    pub(super) fn set_mode(&self, mode: WriterMode) {
        *self.lock() = State::default();
        self.is_active
            .store(mode == WriterMode::Active, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Records a report. Never waits.
    pub(super) fn on_event(&self, event: &ControllerEvent<'_>) {
        match event {
            ControllerEvent::ConfigApplied(loaded) => {
                let mut state = self.lock();
                state.faults = Faults::of(&loaded.findings);
                state.applied = texts(loaded);
                state.read = state.applied.clone();
            }
            ControllerEvent::Invalid(loaded) => {
                {
                    let mut state = self.lock();
                    state.faults = Faults::of(&loaded.findings);
                    state.read = texts(loaded);
                }
                self.report_invalid(loaded);
            }
            ControllerEvent::Planned(planned) => {
                let pools = planned.loaded.desired.pools.values();
                self.lock().planned =
                    Some(pools.map(|pool| (pool.name.clone(), pool.state)).collect());
                self.report_blocked(planned.plan, planned.observed);
                self.report_exhausted();
            }
            ControllerEvent::Waiting(waiting) => self.lock().waiting = waiting.for_a_person.len(),
            ControllerEvent::Finished {
                change,
                outcome: Outcome::Applied,
                ..
            } => {
                *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                if let Some(change) = change.as_node() {
                    self.report_assigned(change);
                }
            }
            _ => return,
        }
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }
}

fn texts(loaded: &Loaded) -> Texts {
    loaded
        .documents
        .files
        .iter()
        .map(|file| (file.path.clone(), file.text.clone()))
        .collect()
}
