//! What a ping saw, as iputils' `ping -D -O` prints it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, Result};

/// Answers by their sequence number, with the time at which each came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pings {
    answers: BTreeMap<u32, Duration>,
    sent: u32,
}

impl Pings {
    /// Reads the whole output.
    ///
    /// # Errors
    /// Fails if a line of an answer is not understood.
    pub fn read(output: &str) -> Result<Self> {
        let mut answers = BTreeMap::new();
        let mut sent = 0;
        for line in output.lines() {
            let Some((_, rest)) = line.split_once("icmp_seq=") else {
                continue;
            };
            let bad = || Error::unreadable("a ping's output", line);
            let number = rest.split_whitespace().next().ok_or_else(bad)?;
            let number: u32 = number.parse().map_err(|_| bad())?;
            sent = sent.max(number);
            if line.contains("bytes from") {
                answers.insert(number, time(line).ok_or_else(bad)?);
            }
        }
        Ok(Self { answers, sent })
    }

    /// How many packets were answered.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.answers.len()
    }

    /// How many packets were not.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.sent as usize - self.answers.len()
    }

    /// The longest time between two answers.
    #[must_use]
    pub fn longest_gap(&self) -> Duration {
        let times: Vec<Duration> = self.answers.values().copied().collect();
        times
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]))
            .max()
            .unwrap_or_default()
    }

    /// The most packets in a row that were not answered. The last one may still be on its way.
    #[must_use]
    pub fn longest_loss(&self) -> u32 {
        let numbers: Vec<u32> = self.answers.keys().copied().collect();
        let lost = numbers.windows(2).map(|pair| pair[1] - pair[0] - 1);
        let last = numbers.last().copied().unwrap_or_default();
        lost.max()
            .unwrap_or_default()
            .max((self.sent - last).saturating_sub(1))
    }

    /// When the first answer came, by the guest's clock.
    #[must_use]
    pub fn first(&self) -> Option<Duration> {
        self.answers.values().next().copied()
    }

    /// When the last answer came, by the guest's clock.
    #[must_use]
    pub fn last(&self) -> Option<Duration> {
        self.answers.values().next_back().copied()
    }
}

impl std::fmt::Display for Pings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "sent={} lost={} longest_loss={} longest_gap={:.3}s",
            self.sent,
            self.lost(),
            self.longest_loss(),
            self.longest_gap().as_secs_f64()
        )
    }
}

/// `[1795611846.368559] 64 bytes from …`
fn time(line: &str) -> Option<Duration> {
    let (stamp, _) = line.strip_prefix('[')?.split_once(']')?;
    Duration::try_from_secs_f64(stamp.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_losses_are_counted_between_answers() {
        let output = "PING 10.20.1.7 (10.20.1.7) 56(84) bytes of data.\n\
            [100.000000] 64 bytes from 10.20.1.7: icmp_seq=1 ttl=62 time=1.65 ms\n\
            [100.100000] 64 bytes from 10.20.1.7: icmp_seq=2 ttl=62 time=1.65 ms\n\
            [100.300000] no answer yet for icmp_seq=3\n\
            [100.310000] From 192.0.2.2 icmp_seq=4 Destination Host Unreachable\n\
            [100.500000] 64 bytes from 10.20.1.7: icmp_seq=5 ttl=62 time=1.65 ms\n";
        let pings = Pings::read(output).unwrap();
        assert_eq!((pings.answered(), pings.lost()), (3, 2));
        assert_eq!(pings.longest_loss(), 2);
        assert_eq!(pings.longest_gap(), Duration::from_millis(400));
        assert_eq!(pings.last(), Some(Duration::from_millis(100_500)));
        let ended = format!("{output}[101.3] no answer yet for icmp_seq=9\n");
        assert_eq!(Pings::read(&ended).unwrap().longest_loss(), 3);
        assert!(Pings::read("[1] 64 bytes from 10.0.0.1: icmp_seq=x ttl=1\n").is_err());
    }
}
