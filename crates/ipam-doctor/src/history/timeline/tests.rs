//! Intervals against a naive oracle that looks at the whole state after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// A file after a step: its facts, or unreadable.
type State = BTreeMap<u8, Option<BTreeSet<u8>>>;

fn facts(set: &BTreeSet<u8>) -> Said<u8, u8> {
    Said::Facts(Arc::new(set.iter().map(|fact| (*fact, *fact)).collect()))
}

fn name(file: u8) -> Arc<str> {
    format!("f{file}").into()
}

fn timeline(steps: &[State]) -> Vec<Interval<u8, u8>> {
    let mut timeline = Timeline::default();
    for step in steps {
        timeline.step(step.iter().map(|(file, said)| {
            let said = said.as_ref().map_or(Said::Unreadable, facts);
            (name(*file), said)
        }));
    }
    timeline.finish()
}

#[derive(Clone, Copy, PartialEq)]
enum Status {
    Present,
    Unknown,
    Absent,
}

/// The status of a fact after each step, from whole states.
fn statuses(steps: &[State], fact: u8) -> Vec<Status> {
    let mut whole = State::new();
    let mut said_last: BTreeMap<u8, BTreeSet<u8>> = BTreeMap::new();
    let mut statuses = Vec::new();
    for step in steps {
        whole.extend(step.clone());
        for (file, facts) in step {
            if let Some(facts) = facts {
                said_last.insert(*file, facts.clone());
            }
        }
        let is_present =
            |file: &Option<BTreeSet<u8>>| file.as_ref().is_some_and(|facts| facts.contains(&fact));
        let may_be = |(file, facts): (&u8, &Option<BTreeSet<u8>>)| {
            facts.is_none() && said_last.get(file).is_some_and(|last| last.contains(&fact))
        };
        statuses.push(
            match (whole.values().any(is_present), whole.iter().any(may_be)) {
                (true, _) => Status::Present,
                (false, true) => Status::Unknown,
                (false, false) => Status::Absent,
            },
        );
    }
    statuses
}

/// Begin, last step that shows it, and end of each interval.
fn expected(statuses: &[Status]) -> Vec<(usize, usize, Option<usize>)> {
    let mut intervals: Vec<(usize, usize, Option<usize>)> = Vec::new();
    let mut is_open = false;
    for (step, status) in statuses.iter().enumerate() {
        match (status, is_open) {
            (Status::Present, false) => {
                intervals.push((step, step, None));
                is_open = true;
            }
            (Status::Present, true) => intervals.last_mut().unwrap().1 = step,
            (Status::Absent, true) => {
                intervals.last_mut().unwrap().2 = Some(step);
                is_open = false;
            }
            (Status::Unknown, _) | (Status::Absent, false) => {}
        }
    }
    intervals
}

fn any_step() -> impl Strategy<Value = State> {
    let said = prop_oneof![
        4 => prop::collection::btree_set(0..4_u8, 0..4).prop_map(Some),
        1 => Just(None),
    ];
    prop::collection::btree_map(0..3_u8, said, 0..3)
}

proptest! {
    #[test]
    fn intervals_are_those_of_whole_states(steps in prop::collection::vec(any_step(), 0..12)) {
        let intervals = timeline(&steps);
        for fact in 0..4_u8 {
            let found: Vec<_> = intervals
                .iter()
                .filter(|interval| interval.fact == fact)
                .map(|interval| (interval.began, interval.last_seen, interval.ended))
                .collect();
            prop_assert_eq!(found, expected(&statuses(&steps, fact)), "fact {}", fact);
        }
    }
}

fn step<const N: usize>(files: [(u8, Option<&[u8]>); N]) -> State {
    let one = |(file, facts): (u8, Option<&[u8]>)| {
        (file, facts.map(|facts| facts.iter().copied().collect()))
    };
    files.into_iter().map(one).collect()
}

#[test]
fn a_fact_that_moves_to_another_file_goes_on() {
    let steps = [
        step([(0, Some(&[1]))]),
        step([(0, Some(&[])), (1, Some(&[1]))]),
    ];
    let [interval] = &timeline(&steps)[..] else {
        panic!("one interval")
    };
    assert_eq!((interval.began, interval.ended), (0, None));
    assert_eq!((&*interval.first.file, &*interval.last.file), ("f0", "f1"));
}

#[test]
fn what_a_repaired_file_says_may_be_older() {
    let steps = [
        step([(0, None)]),
        step([(0, None)]),
        step([(0, Some(&[1]))]),
    ];
    let [interval] = &timeline(&steps)[..] else {
        panic!("one interval")
    };
    assert_eq!((interval.began, interval.unread_since), (2, Some(0)));
}

#[test]
fn an_unreadable_file_ends_nothing() {
    let steps = [
        step([(0, Some(&[1]))]),
        step([(0, None)]),
        step([(1, None)]),
    ];
    let [interval] = &timeline(&steps)[..] else {
        panic!("one interval")
    };
    assert_eq!((interval.last_seen, interval.ended), (0, None));
}
