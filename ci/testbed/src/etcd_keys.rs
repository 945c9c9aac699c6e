//! The keys of a running etcd with their values: read, and put back later.
//!
//! It must never know what tests do. Of Kubernetes it knows only the keys that an API server writes
//! for itself.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::error::{Error, Result};

const ALL: &str = "/registry/";
/// An API server renews these by itself, and misses one that is put back to an older value.
const OF_THE_SERVER: [&str; 2] = [
    "/registry/masterleases/",
    "/registry/leases/kube-system/apiserver-",
];

/// etcd's revision of the last write of a key.
type ModRevision = u64;

/// All keys as they once were.
#[derive(Debug)]
pub(crate) struct SavedKeys {
    saved: BTreeMap<String, (Vec<u8>, ModRevision)>,
}

impl SavedKeys {
    /// `etcdctl` makes a command of that program for one etcd.
    ///
    /// # Errors
    /// Fails if `etcdctl` does.
    pub(crate) fn read(etcdctl: &impl Fn() -> Result<Command>) -> Result<Self> {
        let mut saved = BTreeMap::new();
        for (key, entry) in entries(etcdctl, &[])? {
            let value = decoded(&entry["value"])?;
            saved.insert(key, (value, revision(&entry)?));
        }
        Ok(Self { saved })
    }

    /// Deletes each key that came later, and writes each one that changed. Returns the deleted keys.
    ///
    /// # Errors
    /// Fails if `etcdctl` does.
    pub(crate) fn put_back(
        &mut self,
        etcdctl: &impl Fn() -> Result<Command>,
    ) -> Result<Vec<String>> {
        let now = revisions(etcdctl)?;
        for (key, (value, saved)) in &self.saved {
            if now.get(key) != Some(saved) {
                put(etcdctl()?, key, value)?;
            }
        }
        for keys in self.later(&now) {
            delete(etcdctl()?, &keys)?;
        }
        let is_later = |key: &String| !self.saved.contains_key(key);
        let deleted = now.into_keys().filter(is_later).collect();
        for (key, revision) in revisions(etcdctl)? {
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

fn revisions(etcdctl: &impl Fn() -> Result<Command>) -> Result<BTreeMap<String, ModRevision>> {
    let entries = entries(etcdctl, &["--keys-only"])?;
    let revision = |(key, entry)| revision(&entry).map(|revision| (key, revision));
    entries.into_iter().map(revision).collect()
}

fn entries(etcdctl: &impl Fn() -> Result<Command>, flags: &[&str]) -> Result<Vec<(String, Value)>> {
    let mut command = etcdctl()?;
    command.args(["get", ALL, "--prefix", "--write-out=json"]);
    command.args(flags);
    let printed = run(command, &[])?;
    let mut answer: Value =
        serde_json::from_slice(&printed).map_err(|why| Error::unreadable("etcdctl", why))?;
    let entries = match answer["kvs"].take() {
        Value::Array(entries) => entries,
        _ => Vec::new(),
    };
    let mut named = Vec::new();
    for entry in entries {
        let key = String::from_utf8_lossy(&decoded(&entry["key"])?).into_owned();
        if !OF_THE_SERVER.iter().any(|own| key.starts_with(own)) {
            named.push((key, entry));
        }
    }
    Ok(named)
}

fn revision(entry: &Value) -> Result<ModRevision> {
    let revision = entry["mod_revision"].as_u64();
    revision.ok_or_else(|| Error::unreadable("a key of etcd", "it has no revision"))
}

fn decoded(field: &Value) -> Result<Vec<u8>> {
    let encoded = field.as_str().unwrap_or_default();
    STANDARD
        .decode(encoded)
        .map_err(|why| Error::unreadable("a key of etcd", why))
}

fn put(mut command: Command, key: &str, value: &[u8]) -> Result<()> {
    command.args(["put", key]);
    run(command, value).map(drop)
}

/// `keys` are all keys from the first to the last.
fn delete(mut command: Command, keys: &[&str]) -> Result<()> {
    let [first, .., last] = keys else {
        command.arg("del").args(keys);
        return run(command, &[]).map(drop);
    };
    // The end of a range is outside of it, and this is the next key that an argument can hold.
    command.args(["del", first, &format!("{last}\u{1}")]);
    run(command, &[]).map(drop)
}

fn run(mut command: Command, input: &[u8]) -> Result<Vec<u8>> {
    let failed = |source| Error::file("etcdctl")(source);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Error::Failed {
        program: "etcdctl".to_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
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
