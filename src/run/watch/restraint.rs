//! Keeps from writing one object again and again, when somebody else undoes it or it never goes through: each time after a longer pause.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::plan::Target;

/// Pause before the third attempt; before the second there is none.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_millis(250);

/// Longest pause.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(5);

/// An object that was left alone for so long after its pause is as new.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(10);

/// Attempts by object.
#[derive(Debug, Default)]
pub(super) struct Restraint(BTreeMap<Target, Attempts>);

#[derive(Clone, Copy, Debug)]
struct Attempts {
    count: u32,
    not_before: Timestamp,
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

impl Restraint {
    /// How long this one must wait yet, if it must.
    pub(super) fn of(&self, target: &Target, now: Timestamp) -> Option<SignedDuration> {
        let Attempts { not_before, .. } = self.0.get(target)?;
        Some(not_before.duration_since(now)).filter(SignedDuration::is_positive)
    }

    /// Notes an attempt, and says how long the pause is that follows.
    pub(super) fn note(&mut self, target: &Target, now: Timestamp) -> SignedDuration {
        self.0.retain(|_, attempts| later(attempts.not_before, FORGOTTEN) > now);
        let count = self.0.get(target).map_or(0, |attempts| attempts.count);
        let pause = match count {
            0 => SignedDuration::ZERO,
            again => FIRST_PAUSE.saturating_mul(1 << (again - 1).min(16)).min(LONGEST_PAUSE),
        };
        self.0.insert(target.clone(), Attempts { count: count + 1, not_before: later(now, pause) });
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_forgotten() {
        let target = Target::Node("n".parse().unwrap());
        let mut restraint = Restraint::default();
        let mut now = Timestamp::UNIX_EPOCH;
        let mut pauses = Vec::new();
        for _ in 0..14 {
            assert_eq!(restraint.of(&target, now), None);
            let pause = restraint.note(&target, now);
            pauses.push(pause.as_millis());
            now = later(now, pause);
        }
        assert_eq!(pauses[..5], [0, 250, 500, 1_000, 2_000]);
        assert_eq!(pauses[13], 300_000);
        restraint.note(&target, now);
        assert_eq!(restraint.of(&target, now), Some(LONGEST_PAUSE));
        let much_later = later(now, LONGEST_PAUSE + FORGOTTEN);
        assert_eq!(restraint.note(&target, much_later), SignedDuration::ZERO);
    }
}
