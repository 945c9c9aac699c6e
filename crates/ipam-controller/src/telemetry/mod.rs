//! What machines are told: metrics for Prometheus, and whether the process lives and is ready. It
//! hears the news and decides nothing.

mod metrics;
mod server;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::metrics::Metrics;
use super::ControllerEvent;
use crate::apply::Outcome;
use ipam_planner::plan::Overview;

pub use server::Server;

/// What is told.
#[derive(Debug, Default)]
pub struct Telemetry {
    metrics: Metrics,
    overview: Mutex<Option<Overview>>,
    is_ready: AtomicBool,
    /// What does not work at the moment.
    trouble: Mutex<Option<String>>,
}

/// What a kubelet is told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// What is missing.
    Unready(String),
}

impl Telemetry {
    /// What this process needs was read, so that it can do its part.
    pub fn ready(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
    }

    fn readiness(&self) -> Readiness {
        if !self.is_ready.load(Ordering::Relaxed) {
            return Readiness::Unready("not everything was read yet".to_owned());
        }
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.clone().map_or(Readiness::Ready, Readiness::Unready)
    }

    fn has_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// The metrics as text.
    pub fn text(&self) -> String {
        self.metrics.text()
    }

    /// The last plan in numbers, with what was applied since.
    pub fn overview(&self) -> Option<Overview> {
        self.lock().clone()
    }

    /// Takes note of the news.
    pub fn on_event(&self, event: &ControllerEvent<'_>) {
        match event {
            ControllerEvent::Planned(planned) => {
                let overview =
                    Overview::of(planned.plan, &planned.loaded.desired, planned.observed);
                self.metrics.overview(&overview);
                *self.lock() = Some(overview);
            }
            ControllerEvent::Finished {
                change,
                outcome: Outcome::Applied,
                ..
            } => {
                if let (Some(change), Some(overview)) = (change.as_node(), self.lock().as_mut()) {
                    overview.note(change);
                    let pool = change
                        .pool
                        .as_ref()
                        .and_then(|name| overview.pools.get_key_value(name));
                    pool.into_iter()
                        .for_each(|(name, pool)| self.metrics.pool(name, pool));
                }
            }
            ControllerEvent::Trouble(why) => self.has_trouble(Some((*why).to_owned())),
            ControllerEvent::Recovered => self.has_trouble(None),
            // What was known of another term may be old.
            ControllerEvent::Leads | ControllerEvent::StandsBy(_) => {
                *self.lock() = None;
                self.has_trouble(None);
            }
            _ => {}
        }
        self.metrics.on_event(event);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Overview>> {
        self.overview.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
