//! Sets of values of one label, with or without its absence. They are closed under intersection,
//! union and complement.

use std::collections::BTreeSet;

use ipam_core::model::{Operator, Requirement, Selector};

/// Values of one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Values {
    Only(BTreeSet<String>),
    AllBut(BTreeSet<String>),
}

/// Values of one label, with or without the absence of the label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeySet {
    pub(super) has_absent: bool,
    pub(super) values: Values,
}

impl KeySet {
    pub(super) const EVERYTHING: KeySet = KeySet {
        has_absent: true,
        values: Values::AllBut(BTreeSet::new()),
    };

    pub(super) fn and(self, other: KeySet) -> KeySet {
        let values = match (self.values, other.values) {
            (Values::Only(mut one), Values::Only(two)) => {
                one.retain(|value| two.contains(value));
                Values::Only(one)
            }
            (Values::Only(mut only), Values::AllBut(but))
            | (Values::AllBut(but), Values::Only(mut only)) => {
                only.retain(|value| !but.contains(value));
                Values::Only(only)
            }
            (Values::AllBut(one), Values::AllBut(two)) => {
                let (mut more, fewer) = if one.len() < two.len() {
                    (two, one)
                } else {
                    (one, two)
                };
                more.extend(fewer);
                Values::AllBut(more)
            }
        };
        KeySet {
            has_absent: self.has_absent && other.has_absent,
            values,
        }
    }

    pub(super) fn complement(self) -> KeySet {
        KeySet {
            has_absent: !self.has_absent,
            values: match self.values {
                Values::Only(values) => Values::AllBut(values),
                Values::AllBut(values) => Values::Only(values),
            },
        }
    }

    pub(super) fn or(self, other: KeySet) -> KeySet {
        self.complement().and(other.complement()).complement()
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(&self.values, Values::Only(values) if values.is_empty()) && !self.has_absent
    }

    pub(super) fn is_within(&self, other: &KeySet) -> bool {
        let has_values = match (&self.values, &other.values) {
            (Values::Only(one), Values::Only(two)) => one.is_subset(two),
            (Values::Only(one), Values::AllBut(but)) => one.is_disjoint(but),
            (Values::AllBut(_), Values::Only(_)) => false,
            (Values::AllBut(one), Values::AllBut(two)) => two.is_subset(one),
        };
        has_values && (!self.has_absent || other.has_absent)
    }

    /// The requirements that select this set; `None` if no LabelSelector does.
    pub(super) fn operators(&self) -> Option<Vec<Operator>> {
        Some(match (&self.values, self.has_absent) {
            (Values::Only(values), true) if values.is_empty() => vec![Operator::DoesNotExist],
            (Values::Only(_), true) => return None,
            (Values::Only(values), false) => vec![Operator::In(values.clone())],
            (Values::AllBut(values), true) if values.is_empty() => Vec::new(),
            (Values::AllBut(values), true) => vec![Operator::NotIn(values.clone())],
            (Values::AllBut(values), false) if values.is_empty() => vec![Operator::Exists],
            (Values::AllBut(values), false) => {
                vec![Operator::Exists, Operator::NotIn(values.clone())]
            }
        })
    }

    pub(super) fn described(&self, key: &str) -> String {
        let operators = match (&self.values, self.has_absent) {
            (Values::Only(values), true) if !values.is_empty() => {
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                return format!("(!{key} or {key} in ({}))", values.join(","));
            }
            _ => self.operators().unwrap_or_default(),
        };
        let requirements = operators
            .into_iter()
            .filter_map(|operator| Requirement::new(key, operator).ok());
        Selector::all_of(requirements).to_string()
    }
}
