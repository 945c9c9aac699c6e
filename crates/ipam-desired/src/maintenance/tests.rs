//! Windows against an oracle that walks through the minutes, and by hand where clocks change.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;

fn window(schedule: &str, duration: &str, zone: &str) -> MaintenanceWindow {
    MaintenanceWindow {
        schedule: schedule.parse().unwrap(),
        duration: duration.parse().unwrap(),
        time_zone: time_zone(zone).unwrap(),
        origin: origin(),
    }
}

fn origin() -> Origin {
    Origin {
        file: "p.yaml".into(),
        line: 1,
        column: 1,
        bytes: (0, 1),
    }
}

fn policy(windows: &[(&str, &str, &str)]) -> MigrationPolicy {
    let windows = windows.iter();
    MigrationPolicy {
        windows: windows
            .map(|(schedule, duration, zone)| window(schedule, duration, zone))
            .collect(),
        ..MigrationPolicy::default()
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn open(until: &str) -> WindowState {
    WindowState::Open {
        until: Some(at(until)),
    }
}

fn closed(opens: &str) -> WindowState {
    WindowState::Closed {
        opens: Some(at(opens)),
    }
}

#[test]
fn without_windows_it_is_always_open() {
    let policy = MigrationPolicy::default();
    let state = policy.state_at(at("2026-11-25T12:00Z"));
    assert_eq!(state, WindowState::Open { until: None });
    assert_eq!(policy.max_unavailable.get(), 1);
}

#[test]
fn a_window_contains_its_start_but_not_its_end() {
    let nights = policy(&[("0 22 * * 1-5", "4h", "Europe/Berlin")]);
    for (time, expected) in [
        // A Wednesday, in winter.
        ("2026-11-25T20:59:59Z", closed("2026-11-25T21:00Z")),
        ("2026-11-25T21:00Z", open("2026-11-26T01:00Z")),
        ("2026-11-26T00:59:59.999Z", open("2026-11-26T01:00Z")),
        ("2026-11-26T01:00Z", closed("2026-11-26T21:00Z")),
        // The window of Friday ends on Saturday.
        ("2026-11-28T00:30Z", open("2026-11-28T01:00Z")),
        ("2026-11-28T01:00Z", closed("2026-11-30T21:00Z")),
        // In summer.
        ("2026-07-01T19:59Z", closed("2026-07-01T20:00Z")),
        ("2026-07-01T20:00Z", open("2026-07-02T00:00Z")),
    ] {
        assert_eq!(nights.state_at(at(time)), expected, "{time}");
    }
}

#[test]
fn a_start_that_clocks_skip_is_at_the_end_of_the_gap() {
    for (schedule, zone, before, start, end) in [
        // 02:00 becomes 03:00.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-29T00:59:59Z",
            "2026-03-29T01:00Z",
            "2026-03-29T02:00Z",
        ),
        // Half an hour: 02:00 becomes 02:30.
        (
            "10 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T15:29:59Z",
            "2026-10-03T15:30Z",
            "2026-10-03T16:30Z",
        ),
        // 24:00 becomes 01:00.
        (
            "0 0 * * *",
            "America/Santiago",
            "2026-09-06T03:59:59Z",
            "2026-09-06T04:00Z",
            "2026-09-06T05:00Z",
        ),
        // A whole day that did not exist.
        (
            "0 12 30 12 *",
            "Pacific/Apia",
            "2011-12-30T09:59:59Z",
            "2011-12-30T10:00Z",
            "2011-12-30T11:00Z",
        ),
    ] {
        let policy = policy(&[(schedule, "1h", zone)]);
        assert_eq!(policy.state_at(at(before)), closed(start), "{zone}");
        assert_eq!(policy.state_at(at(start)), open(end), "{zone}");
    }
}

#[test]
fn a_start_that_clocks_show_twice_opens_once() {
    // Berlin shows 02:00 to 03:00 at 00:00Z and again at 01:00Z.
    let short = policy(&[("30 2 * * *", "20m", "Europe/Berlin")]);
    for (time, expected) in [
        ("2026-10-25T00:29Z", closed("2026-10-25T00:30Z")),
        ("2026-10-25T00:30Z", open("2026-10-25T00:50Z")),
        ("2026-10-25T00:50Z", closed("2026-10-26T01:30Z")),
        ("2026-10-25T01:10Z", closed("2026-10-26T01:30Z")),
        ("2026-10-25T01:30Z", closed("2026-10-26T01:30Z")),
    ] {
        assert_eq!(short.state_at(at(time)), expected, "{time}");
    }
    // The window of 02:50 is open while clocks show 02:00 again.
    let long = policy(&[("50 2 * * *", "30m", "Europe/Berlin")]);
    assert_eq!(
        long.state_at(at("2026-10-25T01:10Z")),
        open("2026-10-25T01:20Z")
    );
}

#[test]
fn windows_that_overlap_or_adjoin_have_one_end() {
    let policy = policy(&[
        ("0 20 * * *", "2h", "UTC"),
        ("0 21 * * *", "2h", "UTC"),
        ("0 0 * * *", "1h", "Europe/London"),
        ("0 23 * * *", "1h", "UTC"),
    ]);
    assert_eq!(
        policy.state_at(at("2026-11-25T20:30Z")),
        open("2026-11-26T01:00Z")
    );
    assert_eq!(
        policy.state_at(at("2026-11-26T01:00Z")),
        closed("2026-11-26T20:00Z")
    );
}

#[test]
fn an_end_that_is_far_away_is_none() {
    for (schedule, duration) in [
        ("* * * * *", "1m"),
        ("0 0 * * *", "24h"),
        ("* * * * * *", "1s"),
    ] {
        let policy = policy(&[(schedule, duration, "UTC")]);
        let state = policy.state_at(at("2026-11-25T12:00Z"));
        assert_eq!(state, WindowState::Open { until: None }, "{schedule}");
    }
    let longest = policy(&[("0 0 * * *", "2562047788015215h", "UTC")]);
    let state = longest.state_at(at("2026-11-25T12:00Z"));
    assert_eq!(state, WindowState::Open { until: None });
}

#[test]
fn a_schedule_with_a_year_ends() {
    let policy = policy(&[("0 0 22 5 12 * 2026", "4h", "UTC")]);
    for (time, expected) in [
        ("2026-11-25T12:00Z", closed("2026-12-05T22:00Z")),
        ("2026-12-05T22:00Z", open("2026-12-06T02:00Z")),
        ("2026-12-06T02:00Z", WindowState::Closed { opens: None }),
    ] {
        assert_eq!(policy.state_at(at(time)), expected, "{time}");
    }
}

#[test]
fn a_schedule_keeps_its_text_and_names_its_fault() {
    let schedule: Schedule = " 0  22 * * MON-FRI\n".parse().unwrap();
    assert_eq!(schedule.to_string(), "0 22 * * MON-FRI");
    assert!("@weekly".parse::<Schedule>().is_ok());
    for never in [
        "0 0 31 2 *",
        "0 0 30 2 *",
        "0 0 0 29 2 * 2027",
        "0 0 0 1 1 * 1969",
    ] {
        assert_eq!(
            never.parse::<Schedule>(),
            Err(ScheduleError::Never),
            "{never}"
        );
    }
    for wrong in [
        "",
        "0 22 * *",
        "61 * * * *",
        "0 25 * * *",
        "soon",
        "0 22 * * 1-5 x",
        "\u{202e}",
    ] {
        let error = wrong.parse::<Schedule>();
        assert!(
            matches!(error, Err(ScheduleError::NotCron { .. })),
            "{wrong}: {error:?}"
        );
    }
}

#[test]
fn time_zones_need_no_files() {
    assert_eq!(
        time_zone("Europe/Berlin").unwrap().iana_name(),
        Some("Europe/Berlin")
    );
    assert_eq!(time_zone("Europe/Atlantis"), Err(UnknownTimeZone));
    assert_eq!(time_zone(""), Err(UnknownTimeZone));
    let names = time_zone_names();
    assert!(
        names.len() > 400 && names.contains("UTC"),
        "{}",
        names.len()
    );
}

/// A schedule as sets of minutes, hours and days.
#[derive(Clone, Debug)]
struct Cron {
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    /// Days of the month, or all.
    days: Option<BTreeSet<i8>>,
    /// Days of the week from Sunday, or all.
    weekdays: Option<BTreeSet<i8>>,
}

impl Cron {
    fn text(&self) -> String {
        let list = |set: &BTreeSet<i8>| {
            let texts: Vec<String> = set.iter().map(i8::to_string).collect();
            texts.join(",")
        };
        let days = self.days.as_ref().map_or("*".to_owned(), list);
        let weekdays = self.weekdays.as_ref().map_or("*".to_owned(), list);
        let (minutes, hours) = (list(&self.minutes), list(&self.hours));
        format!("{minutes} {hours} {days} * {weekdays}")
    }

    /// POSIX: if both are given, one of the days is enough.
    fn matches(&self, civil: DateTime) -> bool {
        let day = self.days.as_ref().map(|days| days.contains(&civil.day()));
        let weekday = civil.weekday().to_sunday_zero_offset();
        let weekday = self.weekdays.as_ref().map(|days| days.contains(&weekday));
        let today = match (day, weekday) {
            (Some(day), Some(weekday)) => day || weekday,
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => true,
        };
        today && self.minutes.contains(&civil.minute()) && self.hours.contains(&civil.hour())
    }
}

/// Minutes from `from` on in which the window is open. A minute opens the window if clocks reach,
/// or skip, a civil minute of the schedule for the first time.
fn walk(window: &MaintenanceWindow, cron: &Cron, from: Timestamp, minutes: usize) -> Vec<Minute> {
    let length = usize::try_from(window.duration.as_mins()).unwrap();
    let before = length + 24 * 60;
    let mut time = from - SignedDuration::from_mins(i64::try_from(before).unwrap());
    let mut seen = window.time_zone.to_datetime(time);
    let mut left = 0;
    let mut walked = Vec::new();
    for _ in 0..before + minutes {
        let shown = window.time_zone.to_datetime(time);
        let mut opens = false;
        while seen < shown {
            seen += MINUTE;
            opens |= cron.matches(seen);
        }
        left = if opens { length } else { left };
        walked.push(Minute {
            opens,
            open: left > 0,
        });
        left = left.saturating_sub(1);
        time += MINUTE;
    }
    walked.split_off(before)
}

#[derive(Clone, Copy, Debug, Default)]
struct Minute {
    opens: bool,
    open: bool,
}

const ZONES: [&str; 14] = [
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/St_Johns",
    "America/Santiago",
    "America/Sao_Paulo",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Chatham",
];

fn crons() -> impl Strategy<Value = Cron> {
    let some = |most: i8, count| prop::collection::btree_set(0..=most, 1..count);
    let every = |step: i8, most: i8| (0..=most).step_by(step as usize).collect::<BTreeSet<i8>>();
    // Clocks change at night.
    let night = prop::collection::btree_set(0..4_i8, 1..3);
    (
        prop_oneof![
            some(59, 4),
            Just([0].into()),
            Just(every(15, 59)),
            Just(every(1, 59))
        ],
        prop_oneof![3 => night, 1 => some(23, 4), 1 => Just(every(1, 23))],
        prop::option::weighted(0.2, prop::collection::btree_set(1..=31_i8, 1..8)),
        prop::option::weighted(0.3, some(6, 5)),
    )
        .prop_map(|(minutes, hours, days, weekdays)| Cron {
            minutes,
            hours,
            days,
            weekdays,
        })
}

/// Minutes, often such that windows adjoin.
fn lengths() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(1),
        Just(15),
        Just(60),
        Just(24 * 60),
        1..180_i64,
        1..2000_i64
    ]
}

fn windows() -> impl Strategy<Value = Vec<(Cron, MaintenanceWindow)>> {
    let window = (crons(), lengths(), prop::sample::select(&ZONES[..]));
    let window = window.prop_map(|(cron, length, zone)| {
        let window = self::window(&cron.text(), &format!("{length}m"), zone);
        (cron, window)
    });
    prop::collection::vec(window, 1..4)
}

/// Whole minutes of the walk.
const HORIZON: usize = 3 * 24 * 60;

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// A time on a whole minute shortly before clocks change in the first zone, or any time.
fn shortly_before_a_change(
    windows: &[(Cron, MaintenanceWindow)],
    second: i64,
    lead: i64,
) -> Timestamp {
    let any = Timestamp::from_second(second - second % 60).unwrap();
    let change = windows[0].1.time_zone.following(any).next();
    let change = change.map_or(any, |transition| transition.timestamp());
    change - SignedDuration::from_mins(lead)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn windows_open_and_close_as_in_a_walk_through_the_minutes(
        windows in windows(),
        second in 1_104_537_600..2_240_524_800_i64,
        lead in 0..2 * 24 * 60_i64,
        samples in prop::collection::vec(0..HORIZON, 6),
    ) {
        let from = shortly_before_a_change(&windows, second, lead);
        let mut minutes = vec![Minute::default(); HORIZON];
        for (cron, window) in &windows {
            for (all, one) in minutes.iter_mut().zip(walk(window, cron, from, HORIZON)) {
                all.opens |= one.opens;
                all.open |= one.open;
            }
        }
        let time = |index: usize| from + SignedDuration::from_mins(i64::try_from(index).unwrap());
        let policy = MigrationPolicy {
            windows: windows.into_iter().map(|(_, window)| window).collect(),
            ..MigrationPolicy::default()
        };
        for index in samples {
            let (here, later) = (minutes[index], &minutes[index + 1..]);
            let next = |wanted: fn(&Minute) -> bool| later.iter().position(wanted).map(|after| time(index + 1 + after));
            let state = policy.state_at(time(index));
            let (change, expected) = match state {
                WindowState::Open { until } => {
                    prop_assert!(here.open, "{state:?} at {}", time(index));
                    (until, next(|minute| !minute.open))
                }
                WindowState::Closed { opens } => {
                    prop_assert!(!here.open, "{state:?} at {}", time(index));
                    (opens, next(|minute| minute.opens))
                }
            };
            match expected {
                Some(expected) => prop_assert_eq!(change, Some(expected), "at {}", time(index)),
                None => prop_assert!(change.is_none_or(|change| change >= time(HORIZON)), "{:?} at {}", change, time(index)),
            }
        }
    }
}
