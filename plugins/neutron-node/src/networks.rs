//! Finds the networks whose addresses come from Neutron, in the folders where runtimes find them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::Value;

use neutron_cni::Settings;
use neutron_cni::cni::{CniError, ErrorCode};
use neutron_cni::file_error;
use neutron_cni::state::Pool;
use private_files::read_small;

/// Extensions of configuration files (libcni).
const EXTENSIONS: [&str; 3] = ["conf", "conflist", "json"];

/// How the name of the plugin ends: `cni-ipam-neutron`, or `ipam-neutron` in 2020.
pub(super) const PLUGIN: &str = "ipam-neutron";

/// Settings by name of the network. An invalid file stands under its own path.
pub(super) type Networks = BTreeMap<String, Result<Settings, CniError>>;

pub(super) fn networks(folders: &[PathBuf]) -> Result<Networks, CniError> {
    let mut networks = Networks::new();
    let files: Vec<Vec<PathBuf>> = folders
        .iter()
        .map(|folder| configurations(folder))
        .collect::<Result<_, _>>()?;
    for path in files.into_iter().flatten() {
        for (name, read) in of_file(&path) {
            add_network(&mut networks, name, read, &path.display().to_string());
        }
    }
    Ok(networks)
}

/// Adds a network that `place` configures. Two different configurations are an error.
pub(super) fn add_network(
    networks: &mut Networks,
    name: String,
    read: Result<Settings, CniError>,
    place: &str,
) {
    let is_other = networks.get(&name).is_some_and(|known| *known != read);
    let twice = || {
        CniError::new(
            ErrorCode::InvalidConfiguration,
            format!("two configurations of this network differ; one is {place}"),
            "give each network its own name",
        )
    };
    let read = if is_other { Err(twice()) } else { read };
    networks.insert(name, read);
}

/// The files of a folder that a runtime would read.
fn configurations(folder: &Path) -> Result<Vec<PathBuf>, CniError> {
    let unreadable = |why| file_error(&folder.display().to_string(), &why);
    let entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(unreadable)?;
    let paths = entries.into_iter().map(|entry| entry.path());
    let is_one = |path: &PathBuf| {
        path.extension()
            .is_some_and(|end| EXTENSIONS.iter().any(|known| end == *known))
    };
    Ok(paths.filter(is_one).collect())
}

/// Warm pools that still have ports and no configuration, each as an error with the number of
/// ports. Empty if a file is invalid: that file may configure the network.
pub(super) fn orphaned_pools(networks: &Networks, state: &Path) -> Networks {
    let known: Option<Vec<&Settings>> = networks.values().map(|read| read.as_ref().ok()).collect();
    let Some(known) = known else {
        return Networks::new();
    };
    let mut states: BTreeSet<&Path> = known
        .iter()
        .map(|settings| settings.state.as_path())
        .collect();
    states.insert(state);
    let pools = states.into_iter().flat_map(|state| {
        Pool::names(state)
            .into_iter()
            .map(move |name| (state, name))
    });
    let orphaned = pools.filter(|(state, name)| {
        !known
            .iter()
            .any(|settings| settings.state == **state && settings.network_name == *name)
    });
    let errors = orphaned.filter_map(|(state, name)| {
        let count = Pool::of(state, &name).ports().ok()?.all().count();
        let message =
            format!("this network has no configuration, and its warm pool still has {count} ports");
        let details =
            "restore its configuration with `\"warmPool\": {\"free\": 0}` until the pool is empty";
        (count > 0).then(|| {
            (
                name,
                Err(CniError::new(
                    ErrorCode::InvalidConfiguration,
                    message,
                    details,
                )),
            )
        })
    });
    errors.collect()
}

fn of_file(path: &Path) -> Vec<(String, Result<Settings, CniError>)> {
    let text = match read_small(path) {
        Ok(text) => text,
        Err(fault) => return vec![(path.display().to_string(), Err(fault.into()))],
    };
    let written: Value = match serde_json::from_str(&text) {
        Ok(written) => written,
        Err(why) => {
            let message = format!(
                "invalid JSON (line {}, column {})",
                why.line(),
                why.column()
            );
            let fault = CniError::new(ErrorCode::Decoding, message, "fix or remove the file");
            return vec![(path.display().to_string(), Err(fault))];
        }
    };
    networks_of(&written, &path.display().to_string())
}

/// The networks of a configuration in `place`, with their settings as a runtime passes them: with the
/// name and the version of the list.
pub(super) fn networks_of(
    written: &Value,
    place: &str,
) -> Vec<(String, Result<Settings, CniError>)> {
    let plugins = match &written["plugins"] {
        Value::Array(plugins) => plugins.clone(),
        _ => vec![written.clone()],
    };
    let ours = plugins.into_iter().filter(is_ours);
    ours.map(|mut plugin| {
        for key in ["name", "cniVersion"] {
            plugin[key] = written[key].clone();
        }
        let settings = Settings::read(plugin.to_string().as_bytes());
        let name = settings.as_ref().map_or_else(
            |_| place.to_owned(),
            |settings| settings.network_name.clone(),
        );
        (name, settings)
    })
    .collect()
}

fn is_ours(plugin: &Value) -> bool {
    plugin["ipam"]["type"]
        .as_str()
        .is_some_and(|kind| kind.ends_with(PLUGIN))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use neutron_cni::cni::Arguments;
    use neutron_cni::{MadeFor, PooledPort};

    #[test]
    fn only_files_with_this_plugin_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, value: &Value| {
            fs::write(folder.path().join(name), value.to_string()).unwrap()
        };
        let ours = json!({"type": "cni-ipam-neutron", "networks": []});
        let ptp = json!({"type": "ptp", "ipam": ours});
        write(
            "1.conflist",
            &json!({"cniVersion": "1.1.0", "name": "one", "plugins": [ptp, {"type": "tuning"}]}),
        );
        write(
            "2.conf",
            &json!({"cniVersion": "0.3.1", "name": "two", "ipam": {"type": "ipam-neutron"}}),
        );
        write(
            "3.conf",
            &json!({"cniVersion": "1.1.0", "name": "three", "ipam": {"type": "host-local"}}),
        );
        write(
            "4.conf.bak",
            &json!({"cniVersion": "1.1.0", "name": "four", "ipam": {"type": "ipam-neutron"}}),
        );
        write(
            "5.json",
            &json!({"name": "five", "ipam": {"type": "ipam-neutron"}}),
        );
        fs::write(folder.path().join("6.conf"), "{").unwrap();
        let networks = networks(&[folder.path().to_owned()]).unwrap();
        let five = folder.path().join("5.json").display().to_string();
        let reported: Vec<(&str, bool)> = networks
            .iter()
            .map(|(name, read)| (name.as_str(), read.is_ok()))
            .collect();
        let six = folder.path().join("6.conf").display().to_string();
        let mut expected = vec![
            ("one", true),
            ("two", true),
            (five.as_str(), false),
            (six.as_str(), false),
        ];
        expected.sort_unstable();
        assert_eq!(reported, expected);
    }

    #[test]
    fn an_orphaned_pool_is_reported_while_it_has_ports() {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let id = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";
        let ipam = json!({"type": "cni-ipam-neutron", "networks": [id], "cloud": "c", "stateDirectory": state.path()});
        let one = json!({"cniVersion": "1.1.0", "name": "one", "type": "ptp", "ipam": ipam});
        let write = |name: &str, value: &Value| {
            fs::write(folder.path().join(name), value.to_string()).unwrap()
        };
        write("1.conf", &one);
        let settings = Settings::read(one.to_string().as_bytes()).unwrap();
        let port = serde_json::from_value(json!({"id": id, "network_id": id})).unwrap();
        let made_for = MadeFor::of(&settings.request(&Arguments::default()).unwrap());
        let pools = ["one", "gone"].map(|name| Pool::of(state.path(), name));
        let read = || networks(&[folder.path().to_owned()]).unwrap();
        let reported = || {
            orphaned_pools(&read(), state.path())
                .into_keys()
                .collect::<Vec<_>>()
        };
        pools.iter().for_each(|pool| pool.create_folders().unwrap());
        assert_eq!(reported(), [""; 0]);
        let pooled = PooledPort { port, made_for };
        pools.iter().for_each(|pool| {
            pool.record_created("p", &pooled)
                .and_then(|()| pool.publish("p", &pooled.port.id))
                .unwrap()
        });
        assert_eq!(reported(), ["gone"]);
        fs::write(
            folder.path().join("2.conf"),
            json!({"plugins": [{"ipam": {"type": "ipam-neutron"}}]}).to_string(),
        )
        .unwrap();
        assert_eq!(reported(), [""; 0], "the invalid file may configure it");
    }
}
