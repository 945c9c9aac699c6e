//! Networks that no file of `--networks` configures, such as those of NetworkAttachmentDefinitions.
//! The runtime's cache has the configuration with which it attached each interface. Without interfaces
//! on this node, such a network is emptied and forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use crate::networks::{Networks, plugins_of};
use neutron_cni::Settings;
use private_files::{disk, kept, state_folder};

/// The folder of configurations in the state directory. They may have a password, as the runtime's
/// cache may.
const FOLDER: &str = "networks";

/// What the daemon knows of such networks between runs.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// When the cache had an interface of each network last, or when the daemon first looked.
    seen: BTreeMap<String, Instant>,
    /// Networks that are emptied.
    emptied: BTreeSet<String>,
}

impl Learned {
    /// The networks of the runtimes' caches that `known` lacks, and those that were there before.
    /// Without an interface for `grace`, a network has an empty pool and no pairs.
    pub(super) fn networks(
        &mut self,
        known: &Networks,
        (results, state): (&[PathBuf], &Path),
        (now, grace): (Instant, Duration),
    ) -> Networks {
        let cached = configurations(results);
        let folder = state.join(FOLDER);
        let mut written = stored(&folder);
        self.emptied.clear();
        for (name, plugin) in cached.iter().flatten() {
            self.seen.insert(name.clone(), now);
            if !known.contains_key(name) && written.get(name) != Some(plugin) {
                store(state, &folder, name, plugin);
            }
            written.insert(name.clone(), plugin.clone());
        }
        written.retain(|name, _| !known.contains_key(name));
        let mut networks = Networks::new();
        for (name, mut plugin) in written {
            let seen = *self.seen.entry(name.clone()).or_insert(now);
            // While the cache cannot be read, interfaces of the network may exist.
            if cached.is_ok() && now.saturating_duration_since(seen) >= grace {
                empty(&mut plugin);
                self.emptied.insert(name.clone());
            }
            networks.insert(name, Settings::read(plugin.to_string().as_bytes()));
        }
        networks
    }

    /// Whether this network is being emptied.
    pub(super) fn is_emptied(&self, name: &str) -> bool {
        self.emptied.contains(name)
    }

    /// Forgets a network without ports.
    pub(super) fn forget(&mut self, name: &str, state: &Path) {
        self.seen.remove(name);
        let _ = disk::remove(&path(&state.join(FOLDER), name));
    }
}

/// The newest configuration of each network in the caches. Fails if a file cannot be read; a folder
/// may be absent.
fn configurations(folders: &[PathBuf]) -> io::Result<BTreeMap<String, Value>> {
    let mut newest: BTreeMap<String, (SystemTime, Value)> = BTreeMap::new();
    for folder in folders {
        let entries = match fs::read_dir(folder) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let (at, bytes) = match fs::metadata(&path).and_then(|file| file.modified()) {
                // A DEL removed it since the folder was listed.
                Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
                at => (at?, fs::read(&path)?),
            };
            for (name, plugin) in configuration(&bytes).into_iter().flatten() {
                if newest.get(&name).is_none_or(|(other, _)| *other <= at) {
                    newest.insert(name, (at, plugin));
                }
            }
        }
    }
    let plugins = newest.into_iter();
    Ok(plugins.map(|(name, (_, plugin))| (name, plugin)).collect())
}

/// The plugins in a result of libcni (`cachedInfo` in `libcni/api.go` @ 1.3.0). Old ones have none.
fn configuration(cached: &[u8]) -> Option<Vec<(String, Value)>> {
    let cached: Value = serde_json::from_slice(cached).ok()?;
    let encoded = cached["config"].as_str()?;
    let written = serde_json::from_slice(&BASE64_STANDARD.decode(encoded).ok()?).ok()?;
    let named = |plugin: Value| {
        let settings = Settings::read(plugin.to_string().as_bytes()).ok()?;
        Some((settings.network_name, plugin))
    };
    Some(plugins_of(&written).into_iter().filter_map(named).collect())
}

/// Configurations that earlier runs stored, by network.
fn stored(folder: &Path) -> BTreeMap<String, Value> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries
        .map(|entry| entry.path())
        .filter(|path| !kept::is_unfinished(path));
    let read = |path: PathBuf| {
        let plugin: Value = kept::read(&path)?;
        Some((plugin["name"].as_str()?.to_owned(), plugin))
    };
    paths.filter_map(read).collect()
}

/// If this fails, the next run stores it.
fn store(state: &Path, folder: &Path, name: &str, plugin: &Value) {
    let is_there = state_folder(state).is_ok() && disk::create_folders(folder).is_ok();
    if is_there {
        let _ = kept::keep_synced(&path(folder, name), plugin);
    }
}

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.json"))
}

/// Asks for no free ports and no pairs.
fn empty(plugin: &mut Value) {
    let ipam = &mut plugin["ipam"];
    if !ipam["warmPool"].is_null() {
        ipam["warmPool"] = json!({"free": 0});
    }
    if let Some(pairs) = ipam["allowedAddressPairs"].as_object_mut() {
        pairs.insert("ranges".to_owned(), json!([]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";
    const GRACE: Duration = Duration::from_secs(600);

    fn list(name: &str, free: usize) -> Value {
        let ipam = json!({"type": "cni-ipam-neutron", "networks": [ID], "cloud": "c", "warmPool": {"free": free},
            "allowedAddressPairs": {"interface": "eth0"}});
        json!({"cniVersion": "1.1.0", "name": name, "plugins": [{"type": "ptp", "ipam": ipam}]})
    }

    fn remember(folder: &Path, file: &str, configuration: &str) {
        let cached = json!({"kind": "cniCacheV1", "containerId": file, "ifName": "net1", "config": BASE64_STANDARD.encode(configuration)});
        fs::write(folder.join(file), cached.to_string()).unwrap();
    }

    fn free(networks: &Networks, name: &str) -> Option<usize> {
        let settings = networks.get(name)?.as_ref().unwrap();
        settings.daemon_config().unwrap().pool.map(|size| size.free)
    }

    #[test]
    fn a_network_of_the_cache_lasts_until_it_has_no_interfaces() {
        let (results, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [results.path().to_owned(), results.path().join("absent")];
        let state = state.path().join("state");
        let (known, begin) = (Networks::new(), Instant::now());
        let networks = |learned: &mut Learned, known: &Networks, seconds: u64| {
            let now = begin + Duration::from_secs(seconds);
            learned.networks(known, (&folders, &state), (now, GRACE))
        };
        remember(results.path(), "a", &list("nad", 2).to_string());
        remember(results.path(), "b", "{}");
        fs::write(results.path().join("c"), r#"{"kind": "old"}"#).unwrap();
        let mut learned = Learned::default();
        assert_eq!(free(&networks(&mut learned, &known, 0), "nad"), Some(2));
        // A file of `--networks` wins.
        let configured = Networks::from([("nad".to_owned(), Settings::read(b"{}"))]);
        assert!(networks(&mut learned, &configured, 1).is_empty());
        fs::remove_file(results.path().join("a")).unwrap();
        let mut again = Learned::default();
        for learned in [&mut learned, &mut again] {
            assert_eq!(free(&networks(learned, &known, 500), "nad"), Some(2));
            assert!(!learned.is_emptied("nad"));
        }
        assert_eq!(free(&networks(&mut learned, &known, 700), "nad"), Some(0));
        assert!(learned.is_emptied("nad"));
        assert_eq!(free(&networks(&mut again, &known, 700), "nad"), Some(2));
        // A cache that cannot be read is no evidence.
        fs::create_dir(results.path().join("d")).unwrap();
        assert_eq!(free(&networks(&mut learned, &known, 900), "nad"), Some(2));
        fs::remove_dir(results.path().join("d")).unwrap();
        remember(results.path(), "e", &list("nad", 3).to_string());
        assert_eq!(free(&networks(&mut learned, &known, 901), "nad"), Some(3));
        fs::remove_file(results.path().join("e")).unwrap();
        learned.forget("nad", &state);
        assert!(networks(&mut learned, &known, 902).is_empty());
    }
}
