//! Repeats a request while the forge is busy or does not answer. Must never know what it asks for.

use std::time::{Duration, Instant};

use retry::{Backoff, Budget};

use crate::ForgeError;

/// Pauses before retries. The last figure is the longest `Retry-After` that is obeyed.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(10))
    .with_retry_after_cap(Duration::from_mins(1));

/// Retries for the time of `patience`.
pub(crate) fn patiently<T>(
    patience: Duration,
    mut attempt: impl FnMut() -> Result<T, ForgeError>,
) -> Result<T, ForgeError> {
    let until = Instant::now() + patience;
    let mut budget = Budget::new(BACKOFF.retry(fastrand::Rng::new()));
    let mut failed = 0;
    loop {
        let error = match attempt() {
            Err(error @ ForgeError::Unavailable { .. }) => error,
            answer => return answer,
        };
        if let ForgeError::Unavailable { retry_after, .. } = &error {
            budget.server_asks(*retry_after);
        }
        failed += 1;
        let left = until.saturating_duration_since(Instant::now());
        match budget.next_pause(failed, left) {
            Some(pause) => std::thread::sleep(pause),
            None => return Err(error),
        }
    }
}
