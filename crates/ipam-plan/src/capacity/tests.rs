//! Tests of what is counted, and of the pace of growth.

use jiff::{SignedDuration, Timestamp};

use super::*;
use ipam_core::net::Block;

fn row(free: u128, used: u128, holders: &[&str]) -> Row {
    Row {
        of: Supplier::ClusterPool,
        family: Family::Ipv4,
        ranges: Vec::new(),
        size: None,
        counts: BlockCounts {
            total: free + used,
            used,
            reserved: 0,
            free,
        },
        longest_free: None,
        holders: holders.iter().map(|name| name.parse().unwrap()).collect(),
        time_left: TimeLeft::Unknown,
    }
}

fn day(day: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * day)
}

/// The time left on day 100 of nodes that were created on these days.
fn left(free: u128, days: &[i64]) -> TimeLeft {
    let names: Vec<String> = (0..days.len()).map(|index| format!("n{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let created = |name: &NodeName| {
        let index: usize = name.as_str()[1..].parse().unwrap();
        Some(day(days[index]))
    };
    TimeLeft::of(&row(free, days.len() as u128, &names), created, day(100))
}

#[test]
fn the_fastest_window_gives_the_pace_and_the_first_nodes_are_no_growth() {
    assert_eq!(left(10, &[0, 0, 0, 95, 96, 97]), TimeLeft::AtLeastDays(23));
    assert_eq!(left(10, &[0, 0, 1]), TimeLeft::NoGrowth);
    assert_eq!(
        left(10, &[96, 97]),
        TimeLeft::Unknown,
        "younger than a week"
    );
    assert_eq!(left(0, &[0, 99]), TimeLeft::None);
    assert_eq!(left(10, &[]), TimeLeft::Unknown, "no node");
}

#[test]
fn the_trend_of_observations_is_a_line() {
    let used = [(day(0), 10), (day(10), 20), (day(20), 30)];
    assert_eq!(TimeLeft::by_trend(&used, 50), TimeLeft::Days(50));
    assert_eq!(TimeLeft::by_trend(&used[..1], 50), TimeLeft::Unknown);
    let shrinking = [(day(0), 30), (day(10), 20)];
    assert_eq!(TimeLeft::by_trend(&shrinking, 50), TimeLeft::NoGrowth);
}

#[test]
fn reserved_blocks_are_neither_used_nor_free() {
    let mut one = row(2, 3, &[]);
    one.counts.reserved = 5;
    one.counts.total = 10;
    assert_eq!((one.usable(), one.percent()), (5, 60));
    let none = row(0, 0, &[]);
    assert_eq!(none.percent(), 100, "without a usable block");
}

#[test]
fn controllers_refuse_ranges_that_they_cannot_cut() {
    let block = |text: &str| text.parse::<Block>().unwrap();
    let size = |family, prefix| BlockSize::new(family, prefix).unwrap();
    assert!(refused(block("10.0.0.0/25"), size(Family::Ipv4, 24)).is_some());
    assert!(refused(block("10.0.0.0/8"), size(Family::Ipv4, 26)).is_none());
    assert!(refused(block("fd00::/48"), size(Family::Ipv6, 64)).is_none());
    assert!(refused(block("fd00::/40"), size(Family::Ipv6, 64)).is_some());
}
