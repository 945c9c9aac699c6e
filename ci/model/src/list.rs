//! A short list without heap memory: states are copied and compared millions of times, and an
//! allocation for each copy would be most of the cost.

use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// Maximum number of nodes, blocks or appliers in a world.
pub(crate) const MOST: usize = 3;

/// Up to [`MOST`] values.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct List<T> {
    values: [T; MOST],
    length: u8,
}

impl<T: Copy + Default> List<T> {
    /// `count` copies of a value.
    pub(crate) fn of(value: T, count: u8) -> List<T> {
        (0..count).map(|_| value).collect()
    }

    /// Removes and returns the first values, at most `count`.
    pub(crate) fn take_first(&mut self, count: usize) -> List<T> {
        let (first, rest) = self.split_at(count.min(self.len()));
        let (first, rest) = (
            first.iter().copied().collect(),
            rest.iter().copied().collect(),
        );
        *self = rest;
        first
    }

    /// Drops the others.
    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        *self = self.iter().filter(|value| keep(value)).copied().collect();
    }
}

/// Panics beyond [`MOST`], which bounds do not allow.
impl<T: Copy + Default> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        for value in values {
            self.values[usize::from(self.length)] = value;
            self.length += 1;
        }
    }
}

impl<T: Copy + Default> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> List<T> {
        let mut list = List::default();
        list.extend(values);
        list
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[..usize::from(self.length)]
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[..usize::from(self.length)]
    }
}

impl<'l, T> IntoIterator for &'l List<T> {
    type Item = &'l T;
    type IntoIter = std::slice::Iter<'l, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'l, T> IntoIterator for &'l mut List<T> {
    type Item = &'l mut T;
    type IntoIter = std::slice::IterMut<'l, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<T: PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &List<T>) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for List<T> {}

impl<T: PartialOrd> PartialOrd for List<T> {
    fn partial_cmp(&self, other: &List<T>) -> Option<std::cmp::Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: Ord> Ord for List<T> {
    fn cmp(&self, other: &List<T>) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: Hash> Hash for List<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
