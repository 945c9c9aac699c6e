//! How many writes are in flight at the same time: as many as the server gains from.
//!
//! It counts and compares; it knows no requests. A server that answers 429 or retries slowly shows
//! it by fewer writes per second.

use std::num::NonZeroUsize;
use std::time::Duration;

use tokio::time::Instant;

/// The first limit, the lowest and the highest one.
const FIRST: NonZeroUsize = NonZeroUsize::new(16).unwrap();
const LOWEST: NonZeroUsize = NonZeroUsize::new(4).unwrap();
const HIGHEST: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Writes per place in flight after which a rate is known.
const ROUNDS: usize = 8;

/// A higher limit must gain this much.
const GAIN: f64 = 1.1;

/// A rate below this part of the former one halves the limit.
const SLOWDOWN: f64 = 0.5;

/// Rates after which a higher limit is tried again.
const SETTLED_FOR: usize = 16;

/// How the limit of concurrent writes is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallelism {
    Fixed(NonZeroUsize),
    Adaptive,
}

/// The limit of concurrent writes, with the measurements that adapt it.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit {
    parallelism: Parallelism,
    now: NonZeroUsize,
    /// The limit before a higher one was tried, with its writes per second.
    before: Option<(NonZeroUsize, f64)>,
    /// How many rates to stay at this limit.
    settled_for: usize,
    /// Start of the current measurement, and number of its writes.
    window: Option<(Instant, usize)>,
}

impl From<Parallelism> for ConcurrencyLimit {
    fn from(parallelism: Parallelism) -> ConcurrencyLimit {
        ConcurrencyLimit {
            parallelism,
            now: match parallelism {
                Parallelism::Fixed(limit) => limit,
                Parallelism::Adaptive => FIRST,
            },
            before: None,
            settled_for: 0,
            window: None,
        }
    }
}

impl From<NonZeroUsize> for ConcurrencyLimit {
    fn from(limit: NonZeroUsize) -> ConcurrencyLimit {
        ConcurrencyLimit::from(Parallelism::Fixed(limit))
    }
}

impl ConcurrencyLimit {
    /// How many writes may be in flight.
    pub fn now(&self) -> NonZeroUsize {
        self.now
    }

    /// Writes begin. The time before counts for nothing.
    pub(crate) fn begin(&mut self, at: Instant) {
        self.window = Some((at, 0));
    }

    /// Counts a write that the server answered.
    pub(crate) fn answered(&mut self, at: Instant) {
        let Some((since, writes)) = &mut self.window else {
            return;
        };
        *writes += 1;
        let (since, writes) = (*since, *writes);
        if self.parallelism != Parallelism::Adaptive || writes < self.now.get() * ROUNDS {
            return;
        }
        self.window = Some((at, 0));
        let took = at.duration_since(since);
        // The clock of a simulation may stand still: then there is no rate to judge.
        if took > Duration::ZERO {
            self.judge(writes as f64 / took.as_secs_f64());
        }
    }

    /// Doubles the limit while that pays, and halves it when the server becomes slow.
    fn judge(&mut self, rate: f64) {
        match self.before {
            Some((_, before)) if self.settled_for > 0 && rate < before * SLOWDOWN => {
                let half = NonZeroUsize::new(self.now.get() / 2).unwrap_or(LOWEST);
                self.settle(half.max(LOWEST), rate);
            }
            Some(_) if self.settled_for > 1 => self.settled_for -= 1,
            Some((lower, before)) if self.settled_for == 0 && rate < before * GAIN => {
                self.settle(lower, before);
            }
            _ if self.now >= HIGHEST => self.settle(HIGHEST, rate),
            _ => {
                self.before = Some((self.now, rate));
                self.settled_for = 0;
                self.now = self.now.saturating_mul(TWO).min(HIGHEST);
            }
        }
    }

    fn settle(&mut self, limit: NonZeroUsize, rate: f64) {
        self.now = limit;
        self.before = Some((limit, rate));
        self.settled_for = SETTLED_FOR;
    }
}

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

#[cfg(test)]
mod tests {
    use super::*;

    /// The successive limits for a server that answers at most `per_second` writes per second, each
    /// after `latency`.
    fn limits(per_second: f64, latency: Duration, writes: usize) -> Vec<usize> {
        let mut limit = ConcurrencyLimit::from(Parallelism::Adaptive);
        let mut limits = vec![limit.now().get()];
        write(&mut limit, &mut limits, per_second, latency, writes);
        limits
    }

    fn write(
        limit: &mut ConcurrencyLimit,
        limits: &mut Vec<usize>,
        per_second: f64,
        latency: Duration,
        writes: usize,
    ) {
        let mut at = Instant::now();
        limit.begin(at);
        for _ in 0..writes {
            let by_latency = limit.now().get() as f64 / latency.as_secs_f64();
            at += Duration::from_secs_f64(1.0 / by_latency.min(per_second));
            limit.answered(at);
            if limits.last() != Some(&limit.now().get()) {
                limits.push(limit.now().get());
            }
        }
    }

    #[test]
    fn it_grows_while_the_server_gains_from_it() {
        let far = Duration::from_millis(50);
        assert_eq!(limits(10_000.0, far, 2_000), [16, 32, 64]);
        // 16 writes in 50 ms are 320 a second.
        assert_eq!(limits(500.0, far, 2_000), [16, 32, 64, 32]);
    }

    #[test]
    fn a_server_at_its_limit_keeps_the_first_limit_but_for_trials() {
        let near = Duration::from_millis(1);
        let limits = limits(450.0, near, 10_000);
        assert!(
            limits
                .chunks(2)
                .all(|pair| pair[0] == 16 && pair.get(1).is_none_or(|n| *n == 32))
        );
        assert!(limits.len() < 12, "{limits:?}");
    }

    #[test]
    fn a_server_that_becomes_slow_gets_fewer() {
        let mut limit = ConcurrencyLimit::from(Parallelism::Adaptive);
        let mut limits = vec![16];
        let near = Duration::from_millis(1);
        write(&mut limit, &mut limits, 450.0, near, 600);
        assert_eq!(limit.now().get(), 16);
        for slow in [100.0, 40.0, 10.0, 2.0] {
            write(&mut limit, &mut limits, slow, near, 160);
        }
        assert_eq!(limit.now(), LOWEST, "{limits:?}");
    }

    #[test]
    fn a_fixed_limit_stays_and_so_does_any_while_time_stands_still() {
        let mut fixed = ConcurrencyLimit::from(LOWEST);
        let mut limits = vec![4];
        write(
            &mut fixed,
            &mut limits,
            1e6,
            Duration::from_millis(50),
            5_000,
        );
        assert_eq!(limits, [4]);
        let mut still = ConcurrencyLimit::from(Parallelism::Adaptive);
        let at = Instant::now();
        still.begin(at);
        (0..5_000).for_each(|_| still.answered(at));
        assert_eq!(still.now(), FIRST);
    }
}
