//! Pools that are there but were not read whole. A pin that may belong to one of them is not
//! judged: its fault would be the pool's fault again.

use std::collections::BTreeSet;

/// What is not known of the pools.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    names: BTreeSet<String>,
    unnamed: usize,
}

impl Doubt {
    /// Notes a pool, or something that may be one, by the name that it has if that can be read.
    pub(super) fn note(&mut self, name: Option<&str>) {
        match name {
            Some(name) => {
                self.names.insert(name.to_owned());
            }
            None => self.unnamed += 1,
        }
    }

    /// Whether there may be more to a pool of this name than what was read.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether a pool of this name may be there although none was read.
    pub(super) fn may_have(&self, name: &str) -> bool {
        self.unnamed > 0 || self.has(name)
    }

    /// Whether every pool was read whole.
    pub(super) fn is_none(&self) -> bool {
        self.names.is_empty() && self.unnamed == 0
    }
}
