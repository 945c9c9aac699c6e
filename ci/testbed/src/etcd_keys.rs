//! The keys of a running etcd with their values: read, and put back later.
//!
//! It must never know what tests do. Of Kubernetes it knows only the keys that an API server writes
//! for itself.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::etcdctl::{Etcdctl, ModRevision};

/// An API server renews these by itself, and misses one that is put back to an older value.
const OF_THE_SERVER: [&str; 2] = [
    "/registry/masterleases/",
    "/registry/leases/kube-system/apiserver-",
];

/// All keys as they once were.
#[derive(Debug)]
pub(crate) struct SavedKeys {
    saved: BTreeMap<String, (Vec<u8>, ModRevision)>,
}

impl SavedKeys {
    /// # Errors
    /// Fails if `etcdctl` does.
    pub(crate) fn read(etcdctl: Etcdctl<'_>) -> Result<Self> {
        let mut saved = etcdctl.values()?;
        saved.retain(|key, _| !is_of_the_server(key));
        Ok(Self { saved })
    }

    /// Deletes each key that came later, and writes each one that changed. Returns the deleted keys.
    ///
    /// # Errors
    /// Fails if `etcdctl` does.
    pub(crate) fn put_back(&mut self, etcdctl: Etcdctl<'_>) -> Result<Vec<String>> {
        let mut now = etcdctl.revisions()?;
        now.retain(|key, _| !is_of_the_server(key));
        for (key, (value, saved)) in &self.saved {
            if now.get(key) != Some(saved) {
                etcdctl.run(&["put", key], value)?;
            }
        }
        for keys in self.later(&now) {
            delete(etcdctl, &keys)?;
        }
        let is_later = |key: &String| !self.saved.contains_key(key);
        let deleted = now.into_keys().filter(is_later).collect();
        for (key, revision) in etcdctl.revisions()? {
            if let Some((_, saved)) = self.saved.get_mut(&key) {
                *saved = revision;
            }
        }
        Ok(deleted)
    }

    /// The keys that came later, in groups that have no saved key between them.
    fn later<'k>(&self, now: &'k BTreeMap<String, ModRevision>) -> Vec<Vec<&'k str>> {
        let mut groups: Vec<Vec<&str>> = Vec::new();
        let mut all: Vec<&str> = self.saved.keys().map(String::as_str).collect();
        let later = now.keys().filter(|key| !self.saved.contains_key(*key));
        let later: Vec<&'k str> = later.map(String::as_str).collect();
        all.extend(&later);
        all.sort_unstable();
        let place = |key: &str| all.binary_search(&key).unwrap_or_default();
        let mut last = None;
        for key in later {
            match groups.last_mut() {
                Some(group) if last.is_some_and(|last| place(key) == last + 1) => group.push(key),
                _ => groups.push(vec![key]),
            }
            last = Some(place(key));
        }
        groups
    }
}

fn is_of_the_server(key: &str) -> bool {
    OF_THE_SERVER.iter().any(|own| key.starts_with(own))
}

/// `keys` are all keys from the first to the last.
fn delete(etcdctl: Etcdctl<'_>, keys: &[&str]) -> Result<()> {
    let [first, .., last] = keys else {
        return etcdctl.run(&[&["del"], keys].concat(), &[]).map(drop);
    };
    // The end of a range is outside it, and this is the next key that an argument can hold.
    let end = format!("{last}\u{1}");
    etcdctl.run(&["del", first, &end], &[]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_keys_are_grouped_between_saved_ones() {
        let saved = ["/b", "/e"].map(|key| (key.to_owned(), (Vec::new(), 1)));
        let keys = SavedKeys {
            saved: saved.into(),
        };
        let now = ["/a", "/b", "/c", "/d", "/f"].map(|key| (key.to_owned(), 2));
        assert_eq!(
            keys.later(&now.into()),
            [vec!["/a"], vec!["/c", "/d"], vec!["/f"]]
        );
    }
}
