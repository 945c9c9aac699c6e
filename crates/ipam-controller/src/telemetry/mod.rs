//! Metrics for Prometheus, liveness and readiness.
//!
//! It records reports and decides nothing.

mod metrics;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::metrics::Metrics;
use super::ControllerEvent;
use http_server::{Health, Reports};
use ipam_cluster::TroubleKind;
use ipam_plan::capacity::{Capacity, capacity};
use ipam_plan::overview::Overview;

/// Metrics and health, which the HTTP server shows.
#[derive(Debug, Default)]
pub struct Telemetry {
    metrics: Metrics,
    overview: Mutex<Option<Overview>>,
    is_ready: AtomicBool,
    /// Why the controller cannot work now. Only the log has the texts of the API server.
    error: Mutex<Option<TroubleKind>>,
}

impl Telemetry {
    /// Marks the process as ready: it has read everything that it needs.
    pub fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
    }

    fn set_error(&self, error: Option<TroubleKind>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// The metrics in the format of OpenMetrics, of one plan.
    pub fn text(&self) -> String {
        let _whole = self.lock();
        self.metrics.text()
    }

    /// The last plan in numbers. A plan follows each write.
    pub fn overview(&self) -> Option<Overview> {
        self.lock().clone()
    }

    /// Updates metrics and health by a report of the controller.
    pub fn on_event(&self, event: &ControllerEvent<'_>) {
        match event {
            ControllerEvent::Planned(planned) => {
                let (desired, observed) = (&planned.loaded.desired, planned.observed);
                let counted = capacity(observed, Some((desired, planned.plan)));
                let overview = Overview::of(planned.plan, desired, observed, &counted);
                let mut last = self.lock();
                self.metrics.overview(&overview);
                self.metrics.capacity(&counted);
                *last = Some(overview);
            }
            ControllerEvent::Unhealthy(why) => self.set_error(Some(why.kind)),
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

    /// Updates the metrics by a count of a cluster for which nothing is planned.
    pub fn counted(&self, capacity: &Capacity, nodes: usize) {
        let _whole = self.lock();
        self.metrics.capacity(capacity);
        self.metrics.nodes(nodes);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Overview>> {
        self.overview.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports for Telemetry {
    fn liveness(&self) -> Health {
        Health::Healthy
    }

    fn readiness(&self) -> Health {
        if !self.is_ready.load(Ordering::Relaxed) {
            return Health::Unhealthy("not everything was read yet".to_owned());
        }
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.map_or(Health::Healthy, |kind| {
            Health::Unhealthy(format!("{kind}; see the log"))
        })
    }

    fn metrics(&self) -> String {
        self.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_cluster::Trouble;

    #[test]
    fn no_text_of_the_api_server_is_served() {
        let telemetry = Telemetry::default();
        telemetry.set_ready();
        let secret = "token abc of https://10.9.8.7:6443 is not valid";
        let trouble = Trouble::new(TroubleKind::Refused, secret);
        telemetry.on_event(&ControllerEvent::Unhealthy(&trouble));
        let why = "the API server refuses a request; see the log".to_owned();
        assert_eq!(telemetry.readiness(), Health::Unhealthy(why));
        let metrics = telemetry.metrics();
        assert!(metrics.contains("cilium_ipam_trouble 1"), "{metrics}");
        assert!(!metrics.contains("10.9.8.7"), "{metrics}");
        telemetry.on_event(&ControllerEvent::Recovered);
        assert_eq!(telemetry.readiness(), Health::Healthy);
    }
}
