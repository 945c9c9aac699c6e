//! Conjunctions of conditions on labels, and what two of them have in common.

use std::collections::{BTreeMap, BTreeSet};

use super::key_set::{KeySet, Values};

ipam_core::text_enum! {
    /// A comparison with a part of a value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum PartOfValue {
        Contains = "contains",
        StartsWith = "starts with",
        EndsWith = "ends with",
    }
}

impl PartOfValue {
    pub(super) fn holds(self, value: &str, part: &str) -> bool {
        match self {
            PartOfValue::Contains => value.contains(part),
            PartOfValue::StartsWith => value.starts_with(part),
            PartOfValue::EndsWith => value.ends_with(part),
        }
    }
}

/// A comparison that a present value must satisfy, or must not satisfy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Comparison {
    pub(super) part_of_value: PartOfValue,
    pub(super) part: String,
    pub(super) is_negated: bool,
}

/// A condition on one label. A finite set of values has no comparisons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) set: KeySet,
    pub(super) comparisons: BTreeSet<Comparison>,
}

impl Condition {
    fn and(self, other: Condition) -> Condition {
        let mut set = self.set.and(other.set);
        let mut comparisons = self.comparisons;
        comparisons.extend(other.comparisons);
        if let Values::Only(values) = &mut set.values {
            values.retain(|value| {
                comparisons.iter().all(|comparison| {
                    comparison.part_of_value.holds(value, &comparison.part) != comparison.is_negated
                })
            });
            comparisons.clear();
        }
        Condition { set, comparisons }
    }

    fn is_within(&self, other: &Condition) -> bool {
        other.comparisons.is_subset(&self.comparisons) && self.set.is_within(&other.set)
    }
}

impl From<KeySet> for Condition {
    fn from(set: KeySet) -> Condition {
        Condition {
            set,
            comparisons: BTreeSet::new(),
        }
    }
}

/// Conditions that must all hold. A label without a condition can have any value or be absent.
pub(super) type Conjunction = BTreeMap<String, Condition>;

/// The conjunction of both; `None` if it is empty.
pub(super) fn both(mut one: Conjunction, two: Conjunction) -> Option<Conjunction> {
    for (key, condition) in two {
        let condition = match one.remove(&key) {
            Some(other) => other.and(condition),
            None => condition,
        };
        if condition.set.is_empty() {
            return None;
        }
        one.insert(key, condition);
    }
    Some(one)
}

pub(super) fn is_within(one: &Conjunction, two: &Conjunction) -> bool {
    two.iter().all(|(key, condition)| {
        let other = one.get(key);
        other.is_some_and(|other| other.is_within(condition))
    })
}

/// The only label in which two conjunctions differ, if their union is a conjunction.
pub(super) fn only_difference(one: &Conjunction, two: &Conjunction) -> Option<String> {
    if one.len() != two.len() || !one.keys().eq(two.keys()) {
        return None;
    }
    let mut different = one.iter().zip(two.values()).filter(|((_, a), b)| a != b);
    let ((key, a), b) = different.next()?;
    let is_plain = a.comparisons.is_empty() && b.comparisons.is_empty();
    (is_plain && different.next().is_none()).then(|| key.clone())
}

pub(super) fn joined(mut one: Conjunction, mut two: Conjunction, key: &str) -> Conjunction {
    if let (Some(a), Some(b)) = (one.remove(key), two.remove(key)) {
        let set = a.set.or(b.set);
        if set != KeySet::EVERYTHING {
            one.insert(key.to_owned(), set.into());
        }
    }
    one
}

/// Disjoint conjunctions that make up the first without the second. Neither has comparisons.
pub(super) fn minus(mut from: Conjunction, part: &Conjunction) -> Vec<Conjunction> {
    let mut pieces = Vec::new();
    for (key, condition) in part {
        let set = from
            .get(key)
            .map_or(KeySet::EVERYTHING, |condition| condition.set.clone());
        let outside = set.clone().and(condition.set.clone().complement());
        if !outside.is_empty() {
            let mut piece = from.clone();
            piece.insert(key.clone(), outside.into());
            pieces.push(piece);
        }
        let inside = set.and(condition.set.clone());
        if inside.is_empty() {
            break;
        }
        from.insert(key.clone(), inside.into());
    }
    pieces
}
