//! Waiting for something to come about, with a deadline.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Far longer than anything that a test waits for takes, also on a busy machine. It ends a test
/// that waits in vain.
pub const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(50);

/// Asks `probe` again and again until it has an answer, for `limit` at the most.
///
/// # Errors
/// [`Error::Timeout`] when the time is over, or what `probe` failed with.
pub fn wait_until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = probe()? {
            return Ok(answer);
        }
        if start.elapsed() > limit {
            return Err(Error::Timeout {
                what: what.to_owned(),
                waited: limit,
                detail: String::new(),
            });
        }
        sleep(PAUSE);
    }
}
