//! Finds the selectors that match some labels, without a walk over all selectors.

use std::collections::{BTreeMap, BTreeSet};

use super::{Labels, Operator, Requirement, Selector};

/// An index of selectors. Each is filed under one of its requirements, the rarest, so that labels
/// lead to few selectors that do not match.
#[derive(Clone, Debug, Default)]
pub struct SelectorIndex {
    by_key: BTreeMap<String, OfKey>,
    /// Places of selectors that require no label.
    others: Vec<usize>,
}

/// Places of selectors that require one label.
#[derive(Clone, Debug, Default)]
struct OfKey {
    with_any_value: Vec<usize>,
    by_value: BTreeMap<String, Vec<usize>>,
}

/// How many requirements name each value of a label.
type Popularity<'s> = BTreeMap<(&'s str, &'s str), usize>;

impl SelectorIndex {
    /// Builds the index. The place of a selector is its position in `selectors`.
    pub fn new<'s>(
        selectors: impl IntoIterator<Item = &'s Selector, IntoIter: Clone>,
    ) -> SelectorIndex {
        let selectors = selectors.into_iter();
        let popularity = popularity(selectors.clone());
        let mut index = SelectorIndex::default();
        for (place, selector) in selectors.enumerate() {
            index.add(place, selector, &popularity);
        }
        index
    }

    fn add(&mut self, place: usize, selector: &Selector, popularity: &Popularity<'_>) {
        let uses = |key: &str, values: &BTreeSet<String>| -> usize {
            let uses = values
                .iter()
                .filter_map(|value| popularity.get(&(key, value.as_str())));
            uses.sum()
        };
        let rarest = selector
            .requirements()
            .filter_map(|requirement| Some((requirement.key(), values(requirement)?)))
            .min_by_key(|(key, values)| uses(key, values));
        let is_present = |one: &&Requirement| *one.operator() == Operator::Exists;
        if let Some((key, values)) = rarest {
            let of_key = self.by_key.entry(key.to_owned()).or_default();
            for value in values {
                of_key
                    .by_value
                    .entry(value.clone())
                    .or_default()
                    .push(place);
            }
        } else if let Some(present) = selector.requirements().find(is_present) {
            let of_key = self.by_key.entry(present.key().to_owned()).or_default();
            of_key.with_any_value.push(place);
        } else {
            self.others.push(place);
        }
    }

    /// Places of the selectors that match these labels, in order. `selector` has the selector of a
    /// place.
    pub fn matching<'s>(
        &self,
        labels: &Labels,
        selector: impl Fn(usize) -> &'s Selector,
    ) -> impl DoubleEndedIterator<Item = usize> {
        let places = self.possible(labels).into_iter();
        places.filter(move |place| selector(*place).matches(labels))
    }

    /// Places of selectors, each once and in order. No other selector matches these labels.
    fn possible(&self, labels: &Labels) -> Vec<usize> {
        let mut places = self.others.clone();
        let mut add = |of_key: &OfKey, value: &str| {
            places.extend(&of_key.with_any_value);
            places.extend(of_key.by_value.get(value).into_iter().flatten());
        };
        // A node has more labels than most directories have keys in their selectors.
        if self.by_key.len() < labels.len() {
            for (key, of_key) in &self.by_key {
                if let Some(value) = labels.get(key) {
                    add(of_key, value);
                }
            }
        } else {
            for (key, value) in labels {
                if let Some(of_key) = self.by_key.get(key) {
                    add(of_key, value);
                }
            }
        }
        places.sort_unstable();
        places
    }
}

fn popularity<'s>(selectors: impl Iterator<Item = &'s Selector>) -> Popularity<'s> {
    let mut popularity = Popularity::new();
    for requirement in selectors.flat_map(Selector::requirements) {
        for value in values(requirement).into_iter().flatten() {
            *popularity.entry((requirement.key(), value)).or_default() += 1;
        }
    }
    popularity
}

/// The values of which a requirement requires one.
fn values(requirement: &Requirement) -> Option<&BTreeSet<String>> {
    match requirement.operator() {
        Operator::In(values) => Some(values),
        Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requirement(key: &str, operator: u8, values: &[u8]) -> Requirement {
        let values = || values.iter().map(|value| format!("v{value}")).collect();
        let operator = match operator {
            0 => Operator::In(values()),
            1 => Operator::NotIn(values()),
            2 => Operator::Exists,
            _ => Operator::DoesNotExist,
        };
        Requirement::new(key, operator).unwrap()
    }

    fn labels(of_keys: &[Option<u8>]) -> Labels {
        let present = of_keys.iter().zip(["a", "b", "c"]);
        present
            .filter_map(|(value, key)| Some((key.to_owned(), format!("v{}", (*value)?))))
            .collect()
    }

    #[test]
    fn the_labels_of_one_rack_lead_to_its_selectors_only() {
        let rack = |rack: u8| requirement("b", 0, &[rack]);
        let of_rack = |n: u8| Selector::all_of([requirement("a", 0, &[0]), rack(n)]);
        let mut selectors: Vec<Selector> = (1..200).map(of_rack).collect();
        selectors.push(Selector::all_of([requirement("c", 2, &[])]));
        selectors.push(Selector::default());
        let index = SelectorIndex::new(&selectors);
        let of_seven = labels(&[Some(0), Some(7), None]);
        assert_eq!(index.possible(&of_seven), [6, 200]);
        let without_rack = labels(&[Some(0), None, Some(9)]);
        assert_eq!(index.possible(&without_rack), [199, 200]);
    }

    proptest! {
        #[test]
        fn selectors_are_found_as_by_a_walk(
            selectors in prop::collection::vec(
                prop::collection::vec((0usize..3, 0u8..4, prop::collection::vec(0u8..4, 1..3)), 0..4),
                0..12,
            ),
            of_keys in prop::collection::vec(prop::option::of(0u8..4), 3),
        ) {
            let of = |(key, operator, values): &(usize, u8, Vec<u8>)| {
                requirement(["a", "b", "c"][*key], *operator, values)
            };
            let selectors: Vec<Selector> = selectors
                .iter()
                .map(|requirements| Selector::all_of(requirements.iter().map(of)))
                .collect();
            let labels = labels(&of_keys);
            let matches = |place: &usize| selectors[*place].matches(&labels);
            let walk: Vec<usize> = (0..selectors.len()).filter(matches).collect();
            let index = SelectorIndex::new(&selectors);
            let found: Vec<usize> = index.matching(&labels, |place| &selectors[place]).collect();
            prop_assert_eq!(found, walk);
        }
    }
}
