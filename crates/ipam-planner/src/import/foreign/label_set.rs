//! Sets of labelled objects, as unions of conditions on labels. Decides whether one LabelSelector
//! selects exactly such a set. Knows no language of selectors.

use std::collections::{BTreeMap, BTreeSet};

use super::conjunction::{
    Comparison, Condition, Conjunction, PartOfValue, both, is_within, joined, minus,
    only_difference,
};
use super::key_set::{KeySet, Values};
use super::listed;
use ipam_core::model::{Operator, Requirement, RequirementError, Selector};

/// The most conjunctions in a union. More are refused, so that no selector costs much time.
const MOST_CONJUNCTIONS: usize = 256;

/// Why no LabelSelector selects exactly a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Inexpressible {
    /// A comparison with a part of a value.
    #[error("`{key} {comparison} '{part}'` looks at a part of a label's value")]
    PartOfValue {
        key: String,
        comparison: PartOfValue,
        part: String,
    },
    /// Objects without the label and objects with some values of it.
    #[error(
        "it selects objects without the label `{key}` and also objects with {key} in ({values})"
    )]
    AbsentOrValue { key: String, values: String },
    /// Alternatives that differ in several labels.
    #[error("it selects alternatives on several labels: {0}")]
    Alternatives(String),
    #[error("it has too many alternatives")]
    TooComplex,
    #[error(transparent)]
    Requirement(#[from] RequirementError),
}

/// A union of conjunctions. None of them is empty or lies within another one.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelSet(Vec<Conjunction>);

impl LabelSet {
    pub(super) fn everything() -> LabelSet {
        LabelSet(vec![Conjunction::new()])
    }

    pub(super) fn nothing() -> LabelSet {
        LabelSet::default()
    }

    /// Objects with the label and one of these values. Values that no label can have are dropped.
    pub(super) fn with_value(key: &str, values: impl IntoIterator<Item = String>) -> LabelSet {
        let is_possible =
            |value: &String| Requirement::new("a", Operator::In([value.clone()].into())).is_ok();
        let only = values.into_iter().filter(is_possible).collect();
        LabelSet::of(
            key,
            KeySet {
                has_absent: false,
                values: Values::Only(only),
            },
        )
    }

    /// Objects with the label.
    pub(super) fn with_label(key: &str) -> LabelSet {
        LabelSet::of(
            key,
            KeySet {
                has_absent: false,
                values: Values::AllBut(BTreeSet::new()),
            },
        )
    }

    /// Objects whose value of the label satisfies a comparison.
    pub(super) fn with_part(key: &str, part_of_value: PartOfValue, part: &str) -> LabelSet {
        let mut set = LabelSet::with_label(key);
        if !part.is_empty() {
            set.compare(part_of_value, part, false);
        }
        set
    }

    /// The complement of [`LabelSet::with_part`].
    pub(super) fn without_part(key: &str, part_of_value: PartOfValue, part: &str) -> LabelSet {
        if part.is_empty() || !is_key(key) {
            return LabelSet::with_label(key).complement_of_one(key);
        }
        let everything = Condition::from(KeySet::EVERYTHING);
        let mut set = LabelSet(vec![[(key.to_owned(), everything)].into()]);
        set.compare(part_of_value, part, true);
        set
    }

    fn compare(&mut self, part_of_value: PartOfValue, part: &str, is_negated: bool) {
        let conditions = self.0.iter_mut().flat_map(BTreeMap::values_mut);
        conditions.for_each(|condition| {
            condition.comparisons.insert(Comparison {
                part_of_value,
                part: part.to_owned(),
                is_negated,
            });
        });
    }

    /// The complement of a set of conditions on this label alone, without comparisons.
    pub(super) fn complement_of_one(self, key: &str) -> LabelSet {
        let sets = self.0.into_iter().map(|mut conjunction| {
            let condition = conjunction.remove(key);
            condition.map_or(KeySet::EVERYTHING, |condition| condition.set)
        });
        let nothing = KeySet::EVERYTHING.complement();
        LabelSet::of(key, sets.fold(nothing, KeySet::or).complement())
    }

    fn of(key: &str, set: KeySet) -> LabelSet {
        // A label that no object can have is absent.
        if !is_key(key) {
            return match set.has_absent {
                true => LabelSet::everything(),
                false => LabelSet::nothing(),
            };
        }
        if set.is_empty() {
            return LabelSet::nothing();
        }
        if set == KeySet::EVERYTHING {
            return LabelSet::everything();
        }
        LabelSet(vec![[(key.to_owned(), set.into())].into()])
    }

    /// # Errors
    /// Fails if the result has too many conjunctions.
    pub(super) fn or(self, other: LabelSet) -> Result<LabelSet, Inexpressible> {
        let (mut more, fewer) = if self.0.len() < other.0.len() {
            (other, self)
        } else {
            (self, other)
        };
        fewer.0.into_iter().try_for_each(|one| more.add(one))?;
        Ok(more)
    }

    /// # Errors
    /// Fails if the result has too many conjunctions.
    pub(super) fn and(self, other: LabelSet) -> Result<LabelSet, Inexpressible> {
        if let ([_], [_]) = (&*self.0, &*other.0) {
            let both = self
                .0
                .into_iter()
                .zip(other.0)
                .filter_map(|(a, b)| both(a, b));
            return Ok(LabelSet(both.collect()));
        }
        let mut set = LabelSet::nothing();
        for one in &self.0 {
            for two in &other.0 {
                if let Some(conjunction) = both(one.clone(), two.clone()) {
                    set.add(conjunction)?;
                }
            }
        }
        Ok(set)
    }

    fn add(&mut self, mut new: Conjunction) -> Result<(), Inexpressible> {
        let mut place = 0;
        while let Some(old) = self.0.get(place) {
            if is_within(&new, old) {
                return Ok(());
            }
            if is_within(old, &new) {
                self.0.swap_remove(place);
            } else if let Some(key) = only_difference(old, &new) {
                let old = self.0.swap_remove(place);
                new = joined(old, new, &key);
                place = 0;
            } else {
                place += 1;
            }
        }
        self.0.push(new);
        match self.0.len() > MOST_CONJUNCTIONS {
            true => Err(Inexpressible::TooComplex),
            false => Ok(()),
        }
    }

    /// The LabelSelector that selects exactly this set; `None` if the set is empty.
    ///
    /// # Errors
    /// Fails if no LabelSelector does.
    pub(super) fn selector(&self) -> Result<Option<Selector>, Inexpressible> {
        if self.0.is_empty() {
            return Ok(None);
        }
        for (key, condition) in self.0.iter().flatten() {
            if let Some(comparison) = condition.comparisons.first() {
                return Err(Inexpressible::PartOfValue {
                    key: key.clone(),
                    comparison: comparison.part_of_value,
                    part: comparison.part.clone(),
                });
            }
        }
        let hull = self.hull();
        if !self.covers(&hull)? {
            return Err(Inexpressible::Alternatives(self.alternatives()));
        }
        let mut requirements = Vec::new();
        for (key, condition) in &hull {
            let operators = condition.set.operators().ok_or_else(|| {
                let values = match &condition.set.values {
                    Values::Only(values) | Values::AllBut(values) => values,
                };
                Inexpressible::AbsentOrValue {
                    key: key.clone(),
                    values: values.iter().cloned().collect::<Vec<_>>().join(","),
                }
            })?;
            for operator in operators {
                requirements.push(Requirement::new(key, operator)?);
            }
        }
        Ok(Some(Selector::all_of(requirements)))
    }

    /// The smallest conjunction that contains the set.
    fn hull(&self) -> Conjunction {
        let mut conjunctions = self.0.iter();
        let mut hull = conjunctions.next().cloned().unwrap_or_default();
        for conjunction in conjunctions {
            hull = hull
                .into_iter()
                .filter_map(|(key, condition)| {
                    let other = conjunction.get(&key)?.set.clone();
                    let set = condition.set.or(other);
                    (set != KeySet::EVERYTHING).then(|| (key, set.into()))
                })
                .collect();
        }
        hull
    }

    /// Whether the union contains all of a conjunction.
    fn covers(&self, conjunction: &Conjunction) -> Result<bool, Inexpressible> {
        let mut rest = vec![conjunction.clone()];
        for part in &self.0 {
            rest = rest.into_iter().flat_map(|one| minus(one, part)).collect();
            if rest.len() > MOST_CONJUNCTIONS * 16 {
                return Err(Inexpressible::TooComplex);
            }
        }
        Ok(rest.is_empty())
    }

    fn alternatives(&self) -> String {
        listed(self.0.iter().map(|conjunction| {
            let described = conjunction
                .iter()
                .map(|(key, condition)| condition.set.described(key));
            described.collect::<Vec<_>>().join(",")
        }))
    }
}

/// # Errors
/// Fails if the alternatives are too many.
pub(super) fn any_of<'s>(
    selectors: impl IntoIterator<Item = &'s Selector>,
) -> Result<LabelSet, Inexpressible> {
    let mut set = LabelSet::nothing();
    for selector in selectors {
        set = set.or(LabelSet::from_selector(selector)?)?;
    }
    Ok(set)
}

impl LabelSet {
    pub(super) fn from_selector(selector: &Selector) -> Result<LabelSet, Inexpressible> {
        selector
            .requirements()
            .try_fold(LabelSet::everything(), |set, requirement| {
                let key = requirement.key();
                set.and(match requirement.operator() {
                    Operator::In(values) => LabelSet::with_value(key, values.iter().cloned()),
                    Operator::NotIn(values) => {
                        LabelSet::with_value(key, values.iter().cloned()).complement_of_one(key)
                    }
                    Operator::Exists => LabelSet::with_label(key),
                    Operator::DoesNotExist => LabelSet::with_label(key).complement_of_one(key),
                })
            })
    }
}

fn is_key(text: &str) -> bool {
    Requirement::new(text, Operator::Exists).is_ok()
}
