//! A back-off per object: each further write of the same object waits longer. It limits writes that
//! another process undoes, or that always fail.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use ipam_plan::plan::{Change, Target};
use retry::{Backoff, Retry};

/// Pauses from the third attempt on; the second one has none.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(5 * 60));

/// How long an object is remembered after its pause.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// Attempts by object. A re-created node is another object.
#[derive(Debug, Default)]
pub(super) struct WriteBackoff(BTreeMap<(Target, String), Attempts>);

#[derive(Debug)]
struct Attempts {
    /// `None` after the first attempt.
    retry: Option<Retry>,
    not_before: Instant,
}

fn key(change: &Change) -> (Target, String) {
    (
        change.target(),
        change
            .as_node()
            .map(|node| node.guard.uid.clone())
            .unwrap_or_default(),
    )
}

impl WriteBackoff {
    /// Remaining time of the pause of the change's object; `None` without a pause.
    pub(super) fn pause_left(&self, change: &Change, now: Instant) -> Option<Duration> {
        self.pause_of(&key(change), now)
    }

    /// Records an attempt to write, and returns the pause after it.
    pub(super) fn note(&mut self, change: &Change, now: Instant) -> Duration {
        self.note_key(key(change), now)
    }

    /// Forgets objects whose pause is long over.
    pub(super) fn prune(&mut self, now: Instant) {
        self.0
            .retain(|_, attempts| attempts.not_before + FORGOTTEN > now);
    }

    fn pause_of(&self, key: &(Target, String), now: Instant) -> Option<Duration> {
        let Attempts { not_before, .. } = self.0.get(key)?;
        not_before
            .checked_duration_since(now)
            .filter(|pause| !pause.is_zero())
    }

    fn note_key(&mut self, key: (Target, String), now: Instant) -> Duration {
        let Some(attempts) = self
            .0
            .get_mut(&key)
            .filter(|attempts| attempts.not_before + FORGOTTEN > now)
        else {
            self.0.insert(
                key,
                Attempts {
                    retry: None,
                    not_before: now,
                },
            );
            return Duration::ZERO;
        };
        let pause = attempts
            .retry
            .get_or_insert_with(|| BACKOFF.retry(fastrand::Rng::new()))
            .pause();
        attempts.not_before = now + pause;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_forgotten() {
        let key = || (Target::Node("n".parse().unwrap()), "u".to_owned());
        let mut write_backoff = WriteBackoff::default();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..14 {
            assert_eq!(write_backoff.pause_of(&key(), now), None);
            let pause = write_backoff.note_key(key(), now);
            pauses.push(pause);
            now += pause;
        }
        assert_eq!(pauses[0], Duration::ZERO);
        for (index, pause) in pauses[1..5].iter().enumerate() {
            let least = Duration::from_millis(250 << index);
            assert!((least..=2 * least).contains(pause), "{pauses:?}");
        }
        let longest = Duration::from_secs(5 * 60);
        assert!((longest / 2..=longest).contains(&pauses[13]), "{pauses:?}");
        let last = write_backoff.note_key(key(), now);
        assert_eq!(write_backoff.pause_of(&key(), now), Some(last));
        assert_eq!(
            write_backoff.note_key(key(), now + last + FORGOTTEN),
            Duration::ZERO
        );
    }
}
