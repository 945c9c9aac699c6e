//! How long to wait before something that failed is tried again, for the whole program.
//!
//! Must never know what is tried. It never sleeps and reads no clock: time and randomness are
//! arguments.

mod header;

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use fastrand::Rng;

pub use header::retry_after;

/// The unit of `Retry-After`. A server that asks for less asks for nothing: the own pauses apply,
/// so that `Retry-After: 0` cannot make a client send without end.
const LEAST_ASKED: Duration = Duration::from_secs(1);

/// Bounds of the pauses between attempts. Each pause lies in `floor..=cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    floor: Duration,
    longest: Duration,
    cap: Duration,
}

impl Backoff {
    /// Pauses that begin at `floor` and about double up to `longest`. A server cannot ask for more
    /// than `longest` either.
    #[must_use]
    pub const fn new(floor: Duration, longest: Duration) -> Backoff {
        let longest = if longest.as_nanos() < floor.as_nanos() {
            floor
        } else {
            longest
        };
        Backoff {
            floor,
            longest,
            cap: longest,
        }
    }

    /// The same, but a server may ask for pauses of up to `cap`.
    #[must_use]
    pub const fn obeying(self, cap: Duration) -> Backoff {
        let Backoff { floor, longest, .. } = self;
        let cap = if cap.as_nanos() < longest.as_nanos() {
            longest
        } else {
            cap
        };
        Backoff {
            floor,
            longest,
            cap,
        }
    }

    /// A first attempt has failed, or will.
    #[must_use]
    pub fn retry(self, mut rng: Rng) -> Retry {
        Retry {
            backoff: self,
            growth: self.growth(rng.u64(..)),
            rng,
        }
    }

    /// The jitter is up to the pause itself, so half of the longest one still leaves room for it.
    fn growth(self, seed: u64) -> ExponentialBackoff {
        ExponentialBuilder::new()
            .with_min_delay(self.floor)
            .with_max_delay(self.longest / 2)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(seed)
            .build()
    }
}

/// A period that differs by up to a quarter, so that programs that were started together do not
/// stay together.
#[must_use]
pub fn spread(about: Duration, rng: &mut Rng) -> Duration {
    (about - about / 4).saturating_add((about / 2).mul_f64(rng.f64()))
}

/// One thing that is tried until it succeeds or until patience ends.
#[derive(Debug)]
pub struct Retry {
    backoff: Backoff,
    growth: ExponentialBackoff,
    rng: Rng,
}

impl Retry {
    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        self.pause_asked(None)
    }

    /// The next pause, `None` when patience ends. `asked` is what the server asks for, `left` is
    /// what is left of patience. The last pause is cut to what is left, so sums of pauses never
    /// exceed patience.
    pub fn pause_within(&mut self, left: Duration, asked: Option<Duration>) -> Option<Duration> {
        (!left.is_zero() && left >= self.backoff.floor).then(|| self.pause_asked(asked).min(left))
    }

    /// Begins with short pauses again.
    pub fn reset(&mut self) {
        self.growth = self.backoff.growth(self.rng.u64(..));
    }

    fn pause_asked(&mut self, asked: Option<Duration>) -> Duration {
        let Backoff {
            floor,
            longest,
            cap,
        } = self.backoff;
        // Attempts count even where the server names the pause.
        let own = self.growth.next().unwrap_or(longest).clamp(floor, longest);
        match asked.filter(|asked| *asked >= LEAST_ASKED) {
            None => own,
            // Never sooner than asked, and not all clients at the same moment.
            Some(asked) => {
                let asked = asked.min(cap);
                asked
                    .saturating_add(asked.mul_f64(self.rng.f64() / 2.0))
                    .clamp(floor, cap)
            }
        }
    }
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
            let backoff = Backoff::new(floor, longest).obeying(cap);
            let cap = floor.max(longest).max(cap);
            let now = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
            let mut retry = backoff.retry(fastrand::Rng::with_seed(seed));
            for (index, header) in headers.iter().enumerate() {
                let asked = header.as_ref().and_then(|text| retry_after(text.as_bytes(), now));
                let pause = retry.pause_asked(asked);
                prop_assert!((floor..=cap).contains(&pause), "{header:?}: {pause:?} is not in {floor:?}..={cap:?}");
                if let Some(asked) = asked.filter(|asked| *asked >= SECOND) {
                    prop_assert!(pause >= asked.min(cap), "{pause:?} is sooner than the server asks ({asked:?})");
                }
                if index % 20 == 19 {
                    retry.reset();
                }
            }
        }

        #[test]
        fn patience_bounds_attempts_and_their_sum(
            floor in (1..2_000_u64).prop_map(Duration::from_millis),
            longest in (1..60_000_u64).prop_map(Duration::from_millis),
            cap in durations(),
            patience in prop_oneof![(0..600_000_u64).prop_map(Duration::from_millis), (0..2_000_u64).prop_map(Duration::from_micros)],
            seed in any::<u64>(),
            headers in proptest::collection::vec(headers(), 1..20),
        ) {
            let longest = longest.max(floor);
            let now = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
            let mut retry = Backoff::new(floor, longest).obeying(cap).retry(fastrand::Rng::with_seed(seed));
            let mut waited = Duration::ZERO;
            let mut pauses = 0;
            for header in headers.iter().cycle() {
                let asked = header.as_ref().and_then(|text| retry_after(text.as_bytes(), now));
                let Some(pause) = retry.pause_within(patience - waited, asked) else { break };
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
    fn a_period_is_spread_by_a_quarter() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..100 {
            assert!((3 * SECOND..=5 * SECOND).contains(&spread(4 * SECOND, &mut rng)));
            let _ = spread(Duration::MAX, &mut rng);
        }
    }

    #[test]
    fn equal_seeds_give_equal_pauses() {
        let pauses = |seed| {
            let mut retry = Backoff::new(SECOND, 60 * SECOND).retry(fastrand::Rng::with_seed(seed));
            (0..9)
                .map(|n| retry.pause_asked((n % 2 == 0).then_some(2 * SECOND)))
                .collect::<Vec<_>>()
        };
        assert_eq!(pauses(7), pauses(7));
        assert_ne!(pauses(7), pauses(8));
    }
}
