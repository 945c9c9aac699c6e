//! Long lists: the first 10 entries and an exact count of the others; all of them with `--show-all`.

use std::collections::BTreeMap;

use crate::render::{Detail, limit};
use ipam_core::model::grouped_digits;

/// The first entries of a list.
#[derive(Debug)]
pub(super) struct Capped<T> {
    pub(super) shown: Vec<T>,
    /// Number of further entries.
    pub(super) hidden: usize,
}

impl<T> Capped<T> {
    pub(super) fn new(entries: impl IntoIterator<Item = T>, detail: Detail) -> Capped<T> {
        let mut entries = entries.into_iter();
        let shown = entries.by_ref().take(limit(detail)).collect();
        Capped {
            shown,
            hidden: entries.count(),
        }
    }

    /// A line about the further entries; `None` if there are none.
    pub(super) fn more(&self) -> Option<String> {
        (self.hidden > 0).then(|| {
            format!(
                "… and {} more; --show-all shows all",
                grouped_digits(self.hidden)
            )
        })
    }
}

/// Groups entries by cause. Causes are in the order of their first entry.
pub(super) fn by_cause<'t, T, K: Ord + Clone>(
    entries: &'t [T],
    cause: impl Fn(&'t T) -> K,
) -> Vec<(K, Vec<&'t T>)> {
    let mut groups: Vec<(K, Vec<&T>)> = Vec::new();
    let mut indexes: BTreeMap<K, usize> = BTreeMap::new();
    for entry in entries {
        let cause = cause(entry);
        let index = *indexes.entry(cause.clone()).or_insert_with(|| {
            groups.push((cause, Vec::new()));
            groups.len() - 1
        });
        groups[index].1.push(entry);
    }
    groups
}
