//! What machines are told: metrics for Prometheus, and whether the process lives and is ready. It hears the news and decides nothing.

mod metrics;
mod server;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::metrics::Metrics;
use super::News;
use crate::apply::Outcome;
use crate::plan::Overview;

pub use server::Server;

/// What is told.
#[derive(Debug, Default)]
pub struct Telemetry {
    metrics: Metrics,
    overview: Mutex<Option<Overview>>,
    is_ready: AtomicBool,
}

impl Telemetry {
    /// What is asked for was read, so that this process can do its part.
    pub fn ready(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
    }

    fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
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
    pub fn hear(&self, news: &News<'_>) {
        match news {
            News::Planned(planned) => {
                let overview = Overview::of(planned.plan, &planned.loaded.desired, planned.observed);
                self.metrics.overview(&overview);
                *self.lock() = Some(overview);
            }
            News::Finished { change, outcome: Outcome::Applied, .. } => {
                if let (Some(change), Some(overview)) = (change.as_node(), self.lock().as_mut()) {
                    overview.note(change);
                    let pool = change.pool.as_ref().and_then(|name| overview.pools.get_key_value(name));
                    pool.into_iter().for_each(|(name, pool)| self.metrics.pool(name, pool));
                }
            }
            // What was known of another term may be old.
            News::Leads | News::StandsBy(_) => *self.lock() = None,
            _ => {}
        }
        self.metrics.hear(news);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Overview>> {
        self.overview.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
