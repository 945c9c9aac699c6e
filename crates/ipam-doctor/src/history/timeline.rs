//! Computes from the changes of each step when each fact began and ended.
//!
//! An unreadable file neither begins nor ends a fact: the facts before it stay open. The cost of a
//! step depends only on its changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The content of a file after a step. The marks, such as lines, are not part of the facts.
#[derive(Clone, Debug)]
pub enum Said<K, M> {
    /// The facts in the file. A removed file has none.
    Facts(Arc<BTreeMap<K, M>>),
    Unreadable,
}

/// A file, with the mark of a fact in this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<M> {
    pub file: Arc<str>,
    pub mark: M,
}

/// A time in which a fact held, by numbers of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval<K, M> {
    pub fact: K,
    /// Number of the first step that shows the fact.
    pub began: usize,
    pub first: Place<M>,
    /// The file could not be read from this step on until it began: it may be older.
    pub unread_since: Option<usize>,
    /// The last step that shows the fact. Later steps of the interval cannot be read.
    pub last_seen: usize,
    pub last: Place<M>,
    /// The first step without the fact; `None` if the fact still holds or its end is not known.
    pub ended: Option<usize>,
}

struct File<K, M> {
    facts: Arc<BTreeMap<K, M>>,
    /// The first step at which the file cannot be read; `facts` are from before that step.
    unread_since: Option<usize>,
}

struct Open<K, M> {
    interval: Interval<K, M>,
    /// Of the latest steps, which cannot be read, the first one.
    unseen_since: Option<usize>,
}

/// Takes the steps one by one, the oldest first.
pub struct Timeline<K, M> {
    files: BTreeMap<Arc<str>, File<K, M>>,
    /// For each fact, the files that say it, or said it before they became unreadable.
    holders: BTreeMap<K, BTreeSet<Arc<str>>>,
    open: BTreeMap<K, Open<K, M>>,
    closed: Vec<Interval<K, M>>,
    steps: usize,
}

impl<K: Ord + Clone, M: Clone> Default for Timeline<K, M> {
    fn default() -> Timeline<K, M> {
        Timeline {
            files: BTreeMap::new(),
            holders: BTreeMap::new(),
            open: BTreeMap::new(),
            closed: Vec::new(),
            steps: 0,
        }
    }
}

impl<K: Ord + Clone, M: Clone> Timeline<K, M> {
    /// Adds a step in which these files changed.
    pub fn step(&mut self, changes: impl IntoIterator<Item = (Arc<str>, Said<K, M>)>) {
        let mut touched = BTreeSet::new();
        // Files that this step makes readable: what they say may be older.
        let mut repaired = BTreeMap::new();
        for (name, said) in changes {
            self.file(name, said, &mut touched, &mut repaired);
        }
        for fact in touched {
            self.judge(fact, &repaired);
        }
        self.steps += 1;
    }

    fn file(
        &mut self,
        name: Arc<str>,
        said: Said<K, M>,
        touched: &mut BTreeSet<K>,
        repaired: &mut BTreeMap<Arc<str>, usize>,
    ) {
        let old = self.files.remove(&name);
        let old_facts = old
            .as_ref()
            .map(|file| file.facts.clone())
            .unwrap_or_default();
        let was_unread = old.and_then(|file| file.unread_since);
        touched.extend(old_facts.keys().cloned());
        let file = match said {
            Said::Unreadable => File {
                facts: old_facts,
                unread_since: was_unread.or(Some(self.steps)),
            },
            Said::Facts(facts) => {
                for fact in old_facts.keys() {
                    self.forget(fact, &name);
                }
                for fact in facts.keys() {
                    let holders = self.holders.entry(fact.clone()).or_default();
                    holders.insert(name.clone());
                }
                touched.extend(facts.keys().cloned());
                repaired.extend(was_unread.map(|since| (name.clone(), since)));
                File {
                    facts,
                    unread_since: None,
                }
            }
        };
        if file.unread_since.is_some() || !file.facts.is_empty() {
            self.files.insert(name, file);
        }
    }

    fn forget(&mut self, fact: &K, file: &Arc<str>) {
        if let Some(holders) = self.holders.get_mut(fact) {
            holders.remove(file);
            if holders.is_empty() {
                self.holders.remove(fact);
            }
        }
    }

    /// The current place of a fact.
    fn place(&self, fact: &K) -> Option<Place<M>> {
        self.holders.get(fact)?.iter().find_map(|name| {
            let file = self.files.get(name)?;
            file.unread_since.is_none().then_some(())?;
            Some(Place {
                file: name.clone(),
                mark: file.facts.get(fact)?.clone(),
            })
        })
    }

    fn judge(&mut self, fact: K, repaired: &BTreeMap<Arc<str>, usize>) {
        let now = self.steps;
        let place = self.place(&fact);
        let may_hold = self.holders.contains_key(&fact);
        match (place, self.open.get_mut(&fact)) {
            (Some(place), Some(open)) => {
                open.unseen_since = None;
                open.interval.last = place;
            }
            (Some(place), None) => {
                let interval = Interval {
                    fact: fact.clone(),
                    began: now,
                    unread_since: repaired.get(&place.file).copied(),
                    first: place.clone(),
                    last_seen: now,
                    last: place,
                    ended: None,
                };
                let open = Open {
                    interval,
                    unseen_since: None,
                };
                self.open.insert(fact, open);
            }
            (None, Some(open)) if may_hold => {
                open.unseen_since.get_or_insert(now);
            }
            (None, Some(_)) => {
                if let Some(open) = self.open.remove(&fact) {
                    self.closed.push(open.until(Some(now), now));
                }
            }
            (None, None) => {}
        }
    }

    /// All intervals, sorted by their first step and their facts.
    pub fn finish(self) -> Vec<Interval<K, M>> {
        let mut intervals = self.closed;
        let open = self.open.into_values();
        intervals.extend(open.map(|open| open.until(None, self.steps)));
        intervals.sort_by(|a, b| (a.began, &a.fact).cmp(&(b.began, &b.fact)));
        intervals
    }
}

impl<K, M> Open<K, M> {
    /// The interval, when the steps before `now` are all that could show it.
    fn until(self, ended: Option<usize>, now: usize) -> Interval<K, M> {
        Interval {
            last_seen: self.unseen_since.unwrap_or(now).saturating_sub(1),
            ended,
            ..self.interval
        }
    }
}

#[cfg(test)]
mod tests;
