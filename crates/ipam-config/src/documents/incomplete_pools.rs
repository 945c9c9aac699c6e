//! Pools that exist but have faults. A pin that may belong to one of them is not checked: its fault
//! would repeat the fault of the pool.

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct IncompletePools {
    names: BTreeSet<String>,
    unnamed: usize,
}

impl IncompletePools {
    /// Adds a document that is, or may be, a pool. `name` is `None` if it cannot be read.
    pub(super) fn add(&mut self, name: Option<&str>) {
        match name {
            Some(name) => {
                self.names.insert(name.to_owned());
            }
            None => self.unnamed += 1,
        }
    }

    /// Whether parts of the pool with this name are missing.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether a pool with this name may exist although it was not read.
    pub(super) fn may_exist(&self, name: &str) -> bool {
        self.unnamed > 0 || self.contains(name)
    }

    /// Whether every pool was read completely.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.unnamed == 0
    }
}
