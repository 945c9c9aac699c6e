//! Retries of one attempt after another within a limit of time. Reads no clock: the caller passes
//! the time that is left.

use std::time::Duration;

use crate::Retry;

/// The pauses of a client that retries until its time is over, and what its server asked for.
#[derive(Debug)]
pub struct Budget {
    retry: Retry,
    retry_after: Option<Duration>,
}

impl Budget {
    /// A budget with the pauses of `retry`.
    #[must_use]
    pub fn new(retry: Retry) -> Budget {
        Budget {
            retry,
            retry_after: None,
        }
    }

    /// Records the pause that the last answer asked for (`Retry-After`). It holds for one pause.
    pub fn server_asks(&mut self, pause: Option<Duration>) {
        self.retry_after = pause;
    }

    /// The pause before the next attempt. `failed` counts the failures of this attempt, from 1; the
    /// first one starts with short pauses again. `None` if no time would be left for the attempt.
    pub fn next_pause(&mut self, failed: u32, left: Duration) -> Option<Duration> {
        if failed <= 1 {
            self.retry.reset();
        }
        self.retry
            .pause_within(left, self.retry_after.take())
            .filter(|pause| *pause < left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backoff;

    const MINUTE: Duration = Duration::from_mins(1);

    fn budget() -> Budget {
        let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
        Budget::new(backoff.retry(fastrand::Rng::with_seed(7)))
    }

    #[test]
    fn a_pause_leaves_time_for_the_attempt() {
        let mut budget = budget();
        assert_eq!(budget.next_pause(1, Duration::ZERO), None);
        assert_eq!(budget.next_pause(1, Duration::from_millis(199)), None);
        assert_eq!(
            budget.next_pause(1, Duration::from_millis(200)),
            None,
            "the pause would take all of it"
        );
        assert!(budget.next_pause(1, MINUTE).is_some());
    }

    #[test]
    fn the_first_failure_starts_with_short_pauses_again() {
        let mut budget = budget();
        for failed in 2..20 {
            budget.next_pause(failed, MINUTE);
        }
        assert!(budget.next_pause(20, MINUTE) >= Some(Duration::from_secs(1)));
        assert!(budget.next_pause(1, MINUTE) < Some(Duration::from_millis(401)));
    }

    #[test]
    fn what_the_server_asks_holds_for_one_pause() {
        let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
        let backoff = backoff.with_retry_after_cap(Duration::from_secs(10));
        let mut budget = Budget::new(backoff.retry(fastrand::Rng::with_seed(7)));
        budget.server_asks(Some(Duration::from_secs(5)));
        assert!(budget.next_pause(1, MINUTE) >= Some(Duration::from_secs(5)));
        assert!(budget.next_pause(2, MINUTE) <= Some(Duration::from_secs(2)));
    }
}
