//! Time and randomness, as the retries of a live cluster get them. Must never know what they are
//! for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// How time passes between two attempts, and how chance is had.
pub trait Pace: fmt::Debug + Send + Sync {
    /// Time since some moment that stays the same.
    fn elapsed(&self) -> Duration;
    /// Waits.
    fn rest(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// A generator for one request.
    fn rng(&self) -> fastrand::Rng;
}

/// The machine's own.
#[derive(Debug)]
pub(super) struct RealPace(Instant);

impl RealPace {
    pub(super) fn new() -> RealPace {
        RealPace(Instant::now())
    }
}

impl Pace for RealPace {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn rest(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(pause))
    }

    fn rng(&self) -> fastrand::Rng {
        fastrand::Rng::new()
    }
}
