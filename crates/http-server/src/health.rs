//! What kubelet and Prometheus ask: `/livez`, `/healthz`, `/readyz`, `/metrics`. Must never know what a
//! process reports.

use std::time::Duration;

use super::{Answer, Site, Visit};

/// `Content-Type` of OpenMetrics 1.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a process reports. Must never have a secret: each client that reaches the port sees it.
pub trait Reports: Send + Sync + 'static {
    /// The answer to `/livez` and `/healthz`: kubelet restarts a process that fails.
    fn liveness(&self) -> Health;

    /// The answer to `/readyz`.
    fn readiness(&self) -> Health;

    /// The metrics in the format of OpenMetrics.
    fn metrics(&self) -> String;
}

/// The answer to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Healthy,
    /// With the reason.
    Unhealthy(String),
}

impl<R: Reports> Site for R {
    const PATIENCE: Duration = Duration::from_secs(10);

    async fn answer(&self, visit: Visit) -> Answer {
        match visit.path.as_str() {
            "/livez" | "/healthz" => probe(self.liveness()),
            "/readyz" => probe(self.readiness()),
            "/metrics" => Answer::of(OPEN_METRICS, self.metrics()),
            _ => Answer::not_found(),
        }
    }
}

fn probe(health: Health) -> Answer {
    match health {
        Health::Healthy => Answer::line("ok"),
        Health::Unhealthy(why) => Answer::unavailable(&why),
    }
}
