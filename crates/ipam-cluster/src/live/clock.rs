//! Time and randomness for the retries of a live cluster. It must never know what is retried.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// Time between two attempts, and randomness for its jitter.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Time since a fixed moment.
    fn elapsed(&self) -> Duration;
    /// Waits for `pause`.
    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// A generator for one request.
    fn rng(&self) -> fastrand::Rng;
}

/// The clock and the randomness of the machine.
#[derive(Debug)]
pub(super) struct SystemClock(Instant);

impl SystemClock {
    pub(super) fn new() -> SystemClock {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(pause))
    }

    fn rng(&self) -> fastrand::Rng {
        fastrand::Rng::new()
    }
}
