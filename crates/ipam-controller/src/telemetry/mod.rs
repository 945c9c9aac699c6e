//! Metrics for Prometheus, liveness and readiness.
//!
//! It records reports and decides nothing.

mod metrics;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use self::metrics::Metrics;
use super::ControllerEvent;
use crate::apply::Outcome;
use crate::http_server::{Answer, Site, Visit};
use ipam_planner::plan::Overview;

/// `Content-Type` of OpenMetrics 1.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that the server shows.
#[derive(Debug, Default)]
pub struct Telemetry {
    metrics: Metrics,
    overview: Mutex<Option<Overview>>,
    is_ready: AtomicBool,
    /// Why the controller cannot work now.
    error: Mutex<Option<String>>,
}

/// The answer to `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// With the reason.
    Unready(String),
}

impl Telemetry {
    /// Marks the process as ready: it has read everything that it needs.
    pub fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
    }

    fn readiness(&self) -> Readiness {
        if !self.is_ready.load(Ordering::Relaxed) {
            return Readiness::Unready("not everything was read yet".to_owned());
        }
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.clone().map_or(Readiness::Ready, Readiness::Unready)
    }

    fn set_error(&self, error: Option<String>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// The metrics in the format of OpenMetrics.
    pub fn text(&self) -> String {
        self.metrics.text()
    }

    /// The last whole plan in numbers, with the changes applied since.
    pub fn overview(&self) -> Option<Overview> {
        self.lock().clone()
    }

    /// Records a report.
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
            ControllerEvent::Unhealthy(why) => self.set_error(Some((*why).to_owned())),
            ControllerEvent::Recovered => self.set_error(None),
            // Data of another term may be old.
            ControllerEvent::Leading | ControllerEvent::Standby(_) => {
                *self.lock() = None;
                self.set_error(None);
            }
            _ => {}
        }
        self.metrics.on_event(event);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Overview>> {
        self.overview.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For kubelet and Prometheus: `/livez`, `/readyz`, `/metrics`. It must never show a secret.
impl Site for Telemetry {
    const PATIENCE: Duration = Duration::from_secs(10);

    async fn answer(&self, visit: Visit) -> Answer {
        match visit.path.as_str() {
            "/livez" => Answer::line("ok"),
            "/readyz" => match self.readiness() {
                Readiness::Ready => Answer::line("ok"),
                Readiness::Unready(why) => Answer::unavailable(&why),
            },
            "/metrics" => Answer::of(OPEN_METRICS, self.text()),
            _ => Answer::not_found(),
        }
    }
}
