//! How long a supply lasts at the pace at which nodes were created.
//!
//! Only nodes that still exist show their creation. A node that replaced another one counts as growth
//! although it needed no further block, so the supply lasts at least as long as computed.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::Row;
use ipam_core::model::{NodeName, count, grouped_digits};

/// How long a supply lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeLeft {
    /// Nothing is free.
    None,
    /// At least this number of days.
    AtLeastDays(u64),
    /// By the trend of several observations, this number of days.
    Days(u64),
    /// No node was added in the last 90 days.
    NoGrowth,
    /// Too little is known, such as of a cluster younger than a week.
    #[default]
    Unknown,
}

/// The pace is the fastest of these windows, in days.
const WINDOWS: [i64; 3] = [7, 30, 90];

/// Nodes of this first time are the size with which a cluster began.
const BEGINNING: SignedDuration = SignedDuration::from_hours(24);

const SECONDS_OF_A_DAY: f64 = 86_400.0;

/// Supplies that last longer are not told apart.
const MOST_DAYS: u64 = 36_500;

impl TimeLeft {
    /// By the creation of the nodes that have a block of the row.
    pub(super) fn of(
        row: &Row,
        created: impl Fn(&NodeName) -> Option<Timestamp>,
        now: Timestamp,
    ) -> TimeLeft {
        if row.is_full() {
            return TimeLeft::None;
        }
        let mut times: Vec<Timestamp> = row.holders.iter().filter_map(created).collect();
        times.sort_unstable();
        let Some(first) = times.first().copied() else {
            return TimeLeft::Unknown;
        };
        let age = now.duration_since(first);
        if age < days(WINDOWS[0]) {
            return TimeLeft::Unknown;
        }
        let added = &times[times.partition_point(|time| time.duration_since(first) <= BEGINNING)..];
        let pace = |window: &i64| {
            let from = now.duration_since(first).min(days(*window));
            let young = added
                .iter()
                .filter(|time| now.duration_since(**time) <= from);
            young.count() as f64 / (from.as_secs_f64() / SECONDS_OF_A_DAY)
        };
        let nodes_a_day = WINDOWS.iter().map(pace).fold(0.0, f64::max);
        let blocks_of_a_node = row.counts.used as f64 / times.len() as f64;
        match in_days(row.counts.free, nodes_a_day * blocks_of_a_node) {
            Some(days) => TimeLeft::AtLeastDays(days),
            None => TimeLeft::NoGrowth,
        }
    }

    /// By the used blocks of several observations: the trend of least squares. Unknown with fewer than
    /// two moments.
    pub fn by_trend(used: &[(Timestamp, u128)], free: u128) -> TimeLeft {
        let Some((first, _)) = used.first() else {
            return TimeLeft::Unknown;
        };
        if free == 0 {
            return TimeLeft::None;
        }
        let points: Vec<(f64, f64)> = used
            .iter()
            .map(|(time, used)| (time.duration_since(*first).as_secs_f64(), *used as f64))
            .collect();
        let mean =
            |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
        let (middle, level) = (mean(|point| point.0), mean(|point| point.1));
        let spread: f64 = points.iter().map(|(x, _)| (x - middle).powi(2)).sum();
        if spread == 0.0 {
            return TimeLeft::Unknown;
        }
        let slope: f64 = points
            .iter()
            .map(|(x, y)| (x - middle) * (y - level))
            .sum::<f64>()
            / spread;
        match in_days(free, slope * SECONDS_OF_A_DAY) {
            Some(days) => TimeLeft::Days(days),
            None => TimeLeft::NoGrowth,
        }
    }
}

/// Days until `free` is used; `None` without growth.
fn in_days(free: u128, a_day: f64) -> Option<u64> {
    (a_day > 0.0).then(|| ((free as f64 / a_day) as u64).min(MOST_DAYS))
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

impl fmt::Display for TimeLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |days: &u64| match *days {
            MOST_DAYS.. => format!("{} days", grouped_digits(MOST_DAYS)),
            days => count(days as usize, "day"),
        };
        match self {
            TimeLeft::None => f.write_str("full"),
            TimeLeft::AtLeastDays(days) => write!(f, "at least {}", words(days)),
            TimeLeft::Days(days) => write!(f, "about {}", words(days)),
            TimeLeft::NoGrowth => f.write_str("no growth"),
            TimeLeft::Unknown => f.write_str("unknown"),
        }
    }
}
