//! Maintenance windows of `migrate`: when nodes may be changed, and how many at a time. Knows
//! neither a clock nor nodes: the time is an argument.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use croner::Cron;
use croner::errors::CronError;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use ipam_core::model::Origin;

/// When `migrate` changes nodes, and how many at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationPolicy {
    /// Times in which nodes may be changed. Empty: at any time.
    pub windows: Vec<MaintenanceWindow>,
    /// Limit of the nodes that are changed at a time.
    pub max_unavailable: NonZeroUsize,
}

impl Default for MigrationPolicy {
    fn default() -> MigrationPolicy {
        MigrationPolicy {
            windows: Vec::new(),
            max_unavailable: NonZeroUsize::MIN,
        }
    }
}

/// A time in which nodes may be changed, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceWindow {
    /// When the window opens, in the civil time of `time_zone`.
    pub schedule: Schedule,
    /// How long it stays open: elapsed time, whatever clocks are set to. Positive.
    pub duration: SignedDuration,
    pub time_zone: TimeZone,
    pub origin: Origin,
}

/// Whether a window is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowState {
    Open {
        /// When the last of the windows that join each other closes. `None`: not within
        /// [`MigrationPolicy::NEAR`], or not at all.
        until: Option<Timestamp>,
    },
    Closed {
        /// When the next window opens. `None`: never again.
        opens: Option<Timestamp>,
    },
}

impl MigrationPolicy {
    /// How far ahead the end of an open window is searched for.
    pub const NEAR: SignedDuration = SignedDuration::from_hours(7 * 24);
    /// Maximum number of adjacent windows to search: one-minute windows for a week.
    const JOINED: usize = 7 * 24 * 60;

    /// Whether a window is open at a time. A window contains its start, but not its end.
    pub fn state_at(&self, at: Timestamp) -> WindowState {
        if self.windows.is_empty() {
            return WindowState::Open { until: None };
        }
        match self.close_after(at) {
            Some(end) => WindowState::Open {
                until: self.joined_end(at, end),
            },
            None => WindowState::Closed {
                opens: (self.windows.iter())
                    .filter_map(|window| window.next_start(at))
                    .min(),
            },
        }
    }

    /// A time in the time zone of the windows, if they have one in common, and otherwise in UTC.
    pub fn local(&self, at: Timestamp) -> String {
        let zone = self.windows.first().map(|window| &window.time_zone);
        let is_common = |zone: &&TimeZone| self.windows.iter().all(|one| one.time_zone == **zone);
        match zone.filter(is_common) {
            Some(zone) if *zone != TimeZone::UTC => {
                let local = at.to_zoned(zone.clone());
                local.strftime("%Y-%m-%dT%H:%M:%S%:z (%Q)").to_string()
            }
            Some(_) | None => at.to_string(),
        }
    }

    /// When the last window closes that is open at `at`; `None` if none is open.
    fn close_after(&self, at: Timestamp) -> Option<Timestamp> {
        (self.windows.iter())
            .filter_map(|window| window.close_after(at))
            .max()
    }

    /// Follows windows that open before, or just when, the last one closes.
    fn joined_end(&self, at: Timestamp, mut end: Timestamp) -> Option<Timestamp> {
        for _ in 0..MigrationPolicy::JOINED {
            if end.duration_since(at) > MigrationPolicy::NEAR {
                return None;
            }
            match self.close_after(end) {
                Some(later) => end = later,
                None => return Some(end),
            }
        }
        None
    }
}

impl MaintenanceWindow {
    /// When the window that is open at a time closes. Windows of one schedule have one duration,
    /// so the last one that opened closes last.
    fn close_after(&self, at: Timestamp) -> Option<Timestamp> {
        let start = self.last_start(at)?;
        let end = start.checked_add(self.duration).unwrap_or(Timestamp::MAX);
        (end > at).then_some(end)
    }

    /// The last start at or before a time.
    fn last_start(&self, at: Timestamp) -> Option<Timestamp> {
        let civil = self.time_zone.to_datetime(at);
        // While a clock that was set back repeats an hour, later civil times are in the past too.
        let repeated = (self.schedule.after(civil))
            .map_while(|civil| self.start(civil))
            .take_while(|start| *start <= at)
            .last();
        repeated.or_else(|| self.start(self.schedule.last(civil)?))
    }

    /// The first start after a time.
    fn next_start(&self, at: Timestamp) -> Option<Timestamp> {
        (self.schedule.after(self.time_zone.to_datetime(at)))
            .map_while(|civil| self.start(civil))
            .find(|start| *start > at)
    }

    /// The instant of a civil time: the first one if clocks show it twice, and the end of the gap
    /// if they skip it. Later civil times never have earlier instants.
    fn start(&self, civil: DateTime) -> Option<Timestamp> {
        match self.time_zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(civil).ok(),
            AmbiguousOffset::Fold { before, after: _ } => before.to_timestamp(civil).ok(),
            AmbiguousOffset::Gap { before, after } => {
                let beyond = before.to_timestamp(civil).ok()?;
                let next = beyond.checked_add(SignedDuration::from_nanos(1)).ok()?;
                (self.time_zone.preceding(next))
                    .find(|transition| transition.offset() == after)
                    .map(|transition| transition.timestamp())
            }
        }
    }
}

/// A cron schedule in civil time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    text: String,
    cron: Cron,
}

impl Schedule {
    /// Start of the search for an occurrence. A schedule that does not occur after it never does.
    const BEGINNING: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    /// In these years, each day of a month is each day of the week. The search without a year goes
    /// on to the year 5000, which takes 100 times as long.
    const ALL_DAYS: &str = "1970-1999";

    /// The last occurrence at or before a civil time.
    fn last(&self, civil: DateTime) -> Option<DateTime> {
        self.cron.find_previous_occurrence(&civil, true).ok()
    }

    /// All occurrences of the schedule after a civil time.
    fn after(&self, civil: DateTime) -> impl Iterator<Item = DateTime> + '_ {
        std::iter::successors(self.next(civil), |civil| self.next(*civil))
    }

    fn next(&self, civil: DateTime) -> Option<DateTime> {
        self.cron.find_next_occurrence(&civil, false).ok()
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Schedule, ScheduleError> {
        let parsed = |text: &str| {
            let cron = text.parse::<Cron>();
            cron.map_err(|error| ScheduleError::NotCron {
                reason: reason(error),
            })
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        let within_all_days = match words.len() {
            5 => format!("0 {text} {}", Schedule::ALL_DAYS),
            6 => format!("{text} {}", Schedule::ALL_DAYS),
            _ => text.clone(),
        };
        let schedule = Schedule {
            cron: parsed(&text)?,
            text,
        };
        match parsed(&within_all_days)?.find_next_occurrence(&Schedule::BEGINNING, true) {
            Ok(_) => Ok(schedule),
            Err(_) => Err(ScheduleError::Never),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error("which is not a cron schedule: {reason}")]
    NotCron { reason: String },
    #[error("which never occurs")]
    Never,
}

/// The message of the cron parser without the name of its error type.
fn reason(error: CronError) -> String {
    match error {
        CronError::InvalidPattern(text)
        | CronError::IllegalCharacters(text)
        | CronError::ComponentError(text) => text,
        CronError::EmptyPattern => "it is empty".to_owned(),
        error @ (CronError::InvalidDate
        | CronError::InvalidTime
        | CronError::TimeSearchLimitExceeded) => error.to_string(),
    }
}

/// The time zone of an IANA name, from the data that the program brings along.
///
/// # Errors
/// Fails if no time zone has the name.
pub fn time_zone(name: &str) -> Result<TimeZone, UnknownTimeZone> {
    TimeZoneDatabase::bundled()
        .get(name)
        .map_err(|_| UnknownTimeZone)
}

/// The names that [`time_zone`] knows, in order.
pub fn time_zone_names() -> BTreeSet<String> {
    let names = TimeZoneDatabase::bundled();
    names.available().map(|name| name.to_string()).collect()
}

/// No time zone has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("which is not an IANA time zone")]
pub struct UnknownTimeZone;

#[cfg(test)]
mod tests;
