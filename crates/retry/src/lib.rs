//! Exponential back-off with jitter, for every retry of the program.
//!
//! It must never know what is retried. It does not sleep and reads no clock: time and randomness
//! are arguments.
//!
//! Retries of one attempt after another within a limit of time.
//!
//! The header `Retry-After` (RFC 9110, 10.2.3): seconds or a date.

use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use fastrand::Rng;

/// Shortest `Retry-After` that counts, which is its unit. A shorter one is ignored, so that
/// `Retry-After: 0` cannot make a client send in a tight loop.
const MIN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Bounds of the pauses between attempts. Each pause lies in `min..=retry_after_cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    retry_after_cap: Duration,
}

impl Backoff {
    /// Pauses start at `min` and about double up to `max`. `max` also caps `Retry-After`.
    #[must_use]
    pub const fn new(min: Duration, max: Duration) -> Backoff {
        let max = if max.as_nanos() < min.as_nanos() {
            min
        } else {
            max
        };
        Backoff {
            min,
            max,
            retry_after_cap: max,
        }
    }

    /// Follows a server's `Retry-After` up to `cap`.
    #[must_use]
    pub const fn with_retry_after_cap(self, cap: Duration) -> Backoff {
        let Backoff { min, max, .. } = self;
        let retry_after_cap = if cap.as_nanos() < max.as_nanos() {
            max
        } else {
            cap
        };
        Backoff {
            min,
            max,
            retry_after_cap,
        }
    }

    /// Starts the sequence of pauses.
    #[must_use]
    pub fn retry(self, mut rng: Rng) -> Retry {
        Retry {
            backoff: self,
            schedule: self.schedule(rng.u64(..)),
            rng,
        }
    }

    /// The jitter is at most the pause itself, so the schedule grows to half of `max`.
    fn schedule(self, seed: u64) -> ExponentialBackoff {
        ExponentialBuilder::new()
            .with_min_delay(self.min)
            .with_max_delay(self.max / 2)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(seed)
            .build()
    }
}

/// `period` plus or minus up to a quarter, so that replicas that start together drift apart.
#[must_use]
pub fn jittered(period: Duration, rng: &mut Rng) -> Duration {
    (period - period / 4).saturating_add((period / 2).mul_f64(rng.f64()))
}

/// The pauses of one operation that is retried until it succeeds or its time is over.
#[derive(Debug)]
pub struct Retry {
    backoff: Backoff,
    schedule: ExponentialBackoff,
    rng: Rng,
}

impl Retry {
    /// The next pause, without a `Retry-After`.
    pub fn pause(&mut self) -> Duration {
        self.next_pause(None)
    }

    /// The next pause within the time that is `left`; `None` if the retry must stop.
    ///
    /// The last pause is cut to `left`, so the sum of all pauses never exceeds the total time.
    pub fn pause_within(
        &mut self,
        left: Duration,
        retry_after: Option<Duration>,
    ) -> Option<Duration> {
        (!left.is_zero() && left >= self.backoff.min)
            .then(|| self.next_pause(retry_after).min(left))
    }

    /// Starts again with the shortest pause.
    pub fn reset(&mut self) {
        self.schedule = self.backoff.schedule(self.rng.u64(..));
    }

    fn next_pause(&mut self, retry_after: Option<Duration>) -> Duration {
        let Backoff {
            min,
            max,
            retry_after_cap,
        } = self.backoff;
        // An attempt lengthens the next pause even if the server names this one.
        let own = self.schedule.next().unwrap_or(max).clamp(min, max);
        match retry_after.filter(|requested| *requested >= MIN_RETRY_AFTER) {
            None => own,
            // Never sooner than the server asks, and with jitter.
            Some(requested) => {
                let requested = requested.min(retry_after_cap);
                requested
                    .saturating_add(requested.mul_f64(self.rng.f64() / 2.0))
                    .clamp(min, retry_after_cap)
            }
        }
    }
}

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

/// How long the server asks to wait, counted from `now`. Zero for a date in the past, `None` for a
/// value that is neither seconds nor a date.
#[must_use]
pub fn retry_after(value: &[u8], now: SystemTime) -> Option<Duration> {
    let text = str::from_utf8(value).ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // An overflow still means a long time.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn durations() -> impl Strategy<Value = Duration> {
        let edges = [
            Duration::ZERO,
            Duration::from_nanos(1),
            SECOND,
            Duration::from_secs(u64::MAX),
            Duration::MAX,
        ];
        prop_oneof![
            any::<u64>().prop_map(Duration::from_secs),
            any::<u64>().prop_map(Duration::from_nanos),
            (0..600_000_u64).prop_map(Duration::from_millis),
            proptest::sample::select(edges.to_vec()),
        ]
    }

    fn headers() -> impl Strategy<Value = Option<String>> {
        let now = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let numbers = prop_oneof![Just(0), Just(1), Just(u64::MAX), 0..100_u64, any::<u64>()];
        let dates = (-100_000..100_000_i64).prop_map(move |offset| {
            let by = Duration::from_secs(offset.unsigned_abs());
            httpdate::fmt_http_date(if offset < 0 { now - by } else { now + by })
        });
        let any_text = ".*";
        prop_oneof![
            Just(None),
            numbers.prop_map(|number| Some(number.to_string())),
            "[0-9]{1,40}".prop_map(Some),
            dates.prop_map(Some),
            any_text.prop_map(Some),
        ]
    }

    /// How many pauses there can be at most: all but the last grow to at least a second, unless the
    /// bounds keep them below that.
    fn most_pauses(patience: Duration, floor: Duration, longest: Duration) -> u128 {
        let (mut pauses, mut spent) = (1, Duration::ZERO);
        let mut least = floor;
        let enough = SECOND.min(longest / 2).max(floor);
        while least < enough && spent < patience {
            pauses += 1;
            spent = spent.saturating_add(least);
            least = least.saturating_mul(2);
        }
        pauses + patience.saturating_sub(spent).as_nanos() / enough.as_nanos() + 1
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn every_pause_is_within_its_bounds(
            floor in durations(), longest in durations(), cap in durations(), seed in any::<u64>(),
            headers in proptest::collection::vec(headers(), 1..60),
        ) {
            let backoff = Backoff::new(floor, longest).with_retry_after_cap(cap);
            let cap = floor.max(longest).max(cap);
            let now = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
            let mut retry = backoff.retry(fastrand::Rng::with_seed(seed));
            for (index, header) in headers.iter().enumerate() {
                let requested = header.as_ref().and_then(|text| retry_after(text.as_bytes(), now));
                let pause = retry.next_pause(requested);
                prop_assert!((floor..=cap).contains(&pause), "{header:?}: {pause:?} is not in {floor:?}..={cap:?}");
                if let Some(requested) = requested.filter(|requested| *requested >= SECOND) {
                    prop_assert!(pause >= requested.min(cap), "{pause:?} is sooner than the server asks ({requested:?})");
                }
                if index % 20 == 19 {
                    retry.reset();
                }
            }
        }

        #[test]
        fn the_time_bounds_attempts_and_their_sum(
            floor in (1..2_000_u64).prop_map(Duration::from_millis),
            longest in (1..60_000_u64).prop_map(Duration::from_millis),
            cap in durations(),
            patience in prop_oneof![(0..600_000_u64).prop_map(Duration::from_millis), (0..2_000_u64).prop_map(Duration::from_micros)],
            seed in any::<u64>(),
            headers in proptest::collection::vec(headers(), 1..20),
        ) {
            let longest = longest.max(floor);
            let now = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
            let mut retry = Backoff::new(floor, longest).with_retry_after_cap(cap).retry(fastrand::Rng::with_seed(seed));
            let mut waited = Duration::ZERO;
            let mut pauses = 0;
            for header in headers.iter().cycle() {
                let requested = header.as_ref().and_then(|text| retry_after(text.as_bytes(), now));
                let Some(pause) = retry.pause_within(patience - waited, requested) else { break };
                prop_assert!((floor..=longest.max(cap)).contains(&pause));
                waited += pause;
                pauses += 1;
                prop_assert!(waited <= patience);
                prop_assert!(pauses <= most_pauses(patience, floor, longest), "{pauses} pauses in {patience:?}");
            }
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut retry = Backoff::new(Duration::from_millis(100), 10 * SECOND)
            .retry(fastrand::Rng::with_seed(1));
        let mut least = Duration::from_millis(100);
        for _ in 0..100 {
            let pause = retry.pause();
            // The arithmetic of backon has 24 bits.
            assert!(
                pause >= least.mul_f64(0.9999) && pause <= 10 * SECOND,
                "{pause:?} after {least:?}"
            );
            least = (least * 2).min(5 * SECOND);
        }
        retry.reset();
        assert!(retry.pause() <= Duration::from_millis(200));
    }

    #[test]
    fn jitter_is_at_most_a_quarter() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..100 {
            assert!((3 * SECOND..=5 * SECOND).contains(&jittered(4 * SECOND, &mut rng)));
            let _ = jittered(Duration::MAX, &mut rng);
        }
    }

    #[test]
    fn equal_seeds_give_equal_pauses() {
        let pauses = |seed| {
            let mut retry = Backoff::new(SECOND, 60 * SECOND).retry(fastrand::Rng::with_seed(seed));
            (0..9)
                .map(|n| retry.next_pause((n % 2 == 0).then_some(2 * SECOND)))
                .collect::<Vec<_>>()
        };
        assert_eq!(pauses(7), pauses(7));
        assert_ne!(pauses(7), pauses(8));
    }
}

#[cfg(test)]
mod budget_tests {
    use super::Backoff;
    use super::*;

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

#[cfg(test)]
mod header_tests {
    use super::*;

    #[test]
    fn seconds_dates_and_garbage() {
        // Sun, 06 Nov 1994 08:49:37 GMT, the RFC's own example.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 30);
        let seconds = |text: &str| retry_after(text.as_bytes(), now).map(|pause| pause.as_secs());
        let cases = [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("18446744073709551615", Some(u64::MAX)),
            ("99999999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(30)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(30)),
            ("Sun Nov  6 08:49:37 1994", Some(30)),
            ("Sat, 05 Nov 1994 08:49:37 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("+1", None),
            ("1 s", None),
            ("soon", None),
            ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ];
        for (text, expected) in cases {
            assert_eq!(seconds(text), expected, "{text:?}");
        }
        assert_eq!(retry_after(b"\xff1", now), None);
    }
}
