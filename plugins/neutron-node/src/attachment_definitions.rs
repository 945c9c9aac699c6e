//! Networks that only a NetworkAttachmentDefinition configures. Reads those of some namespaces from
//! Kubernetes as a Pod does, with the token of its ServiceAccount. Must never know Neutron.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use crate::log;
use crate::networks::{Networks, PLUGIN, add_network, networks_of};
use crate::service_account::{ServiceAccount, StatusCode};
use crate::telemetry::Listing;
use neutron_cni::cni::{Arguments, CniError, ErrorCode};
use neutron_cni::{Settings, VmInterface};

/// Largest configuration in bytes.
const LARGEST: usize = 64 << 10;

/// The networks of the definitions as Kubernetes listed them last.
pub(super) struct AttachmentDefinitions {
    namespaces: Vec<String>,
    service_account: ServiceAccount,
    /// The state directory, which all networks of the definitions use.
    state: PathBuf,
    interval: Duration,
    last_list: Option<Instant>,
    /// Definitions of the last list, by namespace.
    listed: BTreeMap<String, Vec<Definition>>,
    /// Namespaces whose last answer was 404, while definitions are known.
    vanished: BTreeSet<String>,
    /// Names that a file configured since the start of the daemon. Such a file may be broken, or away
    /// for a moment.
    of_files: BTreeSet<String>,
    /// Why a namespace could not be listed, by namespace.
    unlisted: BTreeMap<String, String>,
    /// By place. Each is reported once.
    reported: BTreeMap<String, String>,
}

/// A NetworkAttachmentDefinition that may configure a network of the plugin.
#[derive(Clone, Debug)]
struct Definition {
    /// The definition as `NAMESPACE/NAME`.
    place: String,
    /// Settings of the definition's networks, or why it is invalid.
    networks: Result<Vec<Settings>, CniError>,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    namespace: String,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default)]
    config: String,
}

impl AttachmentDefinitions {
    /// Lists the definitions of these namespaces at most once per `interval`.
    pub(super) fn new(
        namespaces: Vec<String>,
        service_account: &Path,
        state: &Path,
        interval: Duration,
    ) -> AttachmentDefinitions {
        AttachmentDefinitions {
            namespaces,
            service_account: ServiceAccount::of(service_account),
            state: state.to_owned(),
            interval,
            last_list: None,
            listed: BTreeMap::new(),
            vanished: BTreeSet::new(),
            of_files: BTreeSet::new(),
            unlisted: BTreeMap::new(),
            reported: BTreeMap::new(),
        }
    }

    /// The valid networks of the definitions, without those of files, and whether they are all. While
    /// they cannot be listed, the last ones count. While a file is invalid, none does: it may configure
    /// the same network.
    pub(super) fn networks(&mut self, of_files: &Networks) -> (Networks, Listing) {
        let is_due = |last: Instant| last.elapsed() >= self.interval;
        if self.last_list.is_none_or(is_due) {
            self.last_list = Some(Instant::now());
            self.unlisted = self.list();
        }
        self.of_files.extend(of_files.keys().cloned());
        let (mut networks, mut errors) = self.defined(of_files);
        errors.extend(self.unlisted.clone());
        let has_invalid_file = of_files.values().any(Result::is_err);
        if has_invalid_file {
            networks.clear();
        }
        let listing = match errors.is_empty() && !has_invalid_file {
            true => Listing::Complete,
            false => Listing::Partial,
        };
        self.report(errors);
        (networks, listing)
    }

    /// The networks that no file configures, and the errors by place.
    fn defined(&self, of_files: &Networks) -> (Networks, BTreeMap<String, String>) {
        let (mut networks, mut errors) = (Networks::new(), BTreeMap::new());
        for Definition {
            place,
            networks: of,
        } in self.listed.values().flatten()
        {
            match of {
                Err(error) => drop(errors.insert(place.clone(), shown(error))),
                Ok(settings) => {
                    for settings in settings {
                        let name = settings.network_name.clone();
                        if self.of_files.contains(&name) {
                            if !of_files.contains_key(&name) {
                                errors.insert(place.clone(), was_of_a_file(&name));
                            }
                            continue;
                        }
                        add_network(&mut networks, name, Ok(settings.clone()), place);
                    }
                }
            }
        }
        let conflicts = networks.extract_if(.., |_, read| read.is_err());
        let conflicts = conflicts.filter_map(|(name, read)| Some((name, shown(&read.err()?))));
        errors.extend(conflicts);
        (networks, errors)
    }

    /// Lists each namespace. Returns the errors by namespace.
    fn list(&mut self) -> BTreeMap<String, String> {
        let mut errors = BTreeMap::new();
        for namespace in &self.namespaces {
            let answer = list(&self.service_account, namespace, &self.state);
            let is_known = self
                .listed
                .get(namespace)
                .is_some_and(|listed| !listed.is_empty());
            match answer {
                // A server that just started may not serve the kind yet.
                Ok(None) if is_known && self.vanished.insert(namespace.clone()) => {}
                Ok(listed) => {
                    self.vanished.remove(namespace);
                    let listed = listed.unwrap_or_default();
                    self.listed.insert(namespace.clone(), listed);
                }
                Err(error) => {
                    errors.insert(namespace.clone(), shown(&error));
                }
            }
        }
        errors
    }

    /// Reports new errors, and those that ended. Other people may create a definition, so an invalid one
    /// is no error of the daemon.
    fn report(&mut self, errors: BTreeMap<String, String>) {
        for (place, error) in &errors {
            if self.reported.get(place) != Some(error) {
                log(
                    "network-attachment-definitions",
                    &format!("{place}: {error}"),
                );
            }
        }
        for place in self.reported.keys() {
            if !errors.contains_key(place) {
                log(
                    "network-attachment-definitions",
                    &format!("{place}: recovered"),
                );
            }
        }
        self.reported = errors;
    }
}

impl Definition {
    /// `None` if it configures no network of the plugin. Multus reads a definition without
    /// `spec.config` from a file.
    fn of(item: Item, state: &Path) -> Option<Definition> {
        let Item { metadata, spec } = item;
        if !spec.config.contains(PLUGIN) {
            return None;
        }
        let place = format!("{}/{}", metadata.namespace, metadata.name);
        let networks = networks_in(&metadata.name, &spec.config, &place, state);
        Some(Definition { place, networks })
    }
}

/// The networks in a `spec.config`. A configuration without a name has that of its definition
/// (`GetCNIConfigFromSpec` in `pkg/netattachdef` of the network-attachment-definition-client).
fn networks_in(
    name: &str,
    config: &str,
    place: &str,
    state: &Path,
) -> Result<Vec<Settings>, CniError> {
    if config.len() > LARGEST {
        return Err(invalid("`spec.config` has more than 64 KiB"));
    }
    let mut written: Value = serde_json::from_str(config)
        .ok()
        .filter(Value::is_object)
        .ok_or_else(|| invalid("`spec.config` is no object of JSON"))?;
    let written_name = &written["name"];
    if written_name.is_null() || written_name == "" {
        written["name"] = name.into();
    }
    let networks = networks_of(&written, place).into_iter();
    networks
        .map(|(_, read)| read.and_then(|settings| of_any_node(settings, state)))
        .collect()
}

/// Refuses what cannot be right on all nodes, and what no sync could use.
fn of_any_node(settings: Settings, state: &Path) -> Result<Settings, CniError> {
    settings.request(&Arguments::default())?;
    let pairs = settings.daemon_config()?.pairs;
    let has_port = pairs.is_some_and(|pairs| matches!(pairs.on, VmInterface::Port(_)));
    if settings.node.is_some() || has_port {
        return Err(invalid(
            "a definition is for all nodes, so `node` and `allowedAddressPairs.port` cannot be set",
        ));
    }
    if settings.state != state {
        let state = state.display();
        return Err(invalid(&format!("`stateDirectory` must be {state}")));
    }
    Ok(settings)
}

fn was_of_a_file(network: &str) -> String {
    format!(
        "a file configured the network {network} since the daemon started (restart the daemon to use the definition)"
    )
}

fn shown(error: &CniError) -> String {
    format!("{} ({})", error.message, error.details)
}

fn invalid(what: &str) -> CniError {
    let way_out = "fix the NetworkAttachmentDefinition";
    CniError::new(ErrorCode::InvalidConfiguration, what, way_out)
}

/// The definitions of a namespace, in one answer, so that none is missing between two pages; `None` if
/// the cluster has no such kind.
fn list(
    service_account: &ServiceAccount,
    namespace: &str,
    state: &Path,
) -> Result<Option<Vec<Definition>>, CniError> {
    let path =
        format!("/apis/k8s.cni.cncf.io/v1/namespaces/{namespace}/network-attachment-definitions");
    let (status, body) = service_account.get(&path)?;
    match status {
        StatusCode::OK => {
            let list: List = serde_json::from_slice(&body)
                .map_err(|why| unreadable(&format!("the answer is no list: {why}")))?;
            let items = list.items.into_iter();
            Ok(Some(
                items
                    .filter_map(|item| Definition::of(item, state))
                    .collect(),
            ))
        }
        StatusCode::NOT_FOUND => Ok(None),
        status => Err(unreadable(&format!(
            "Kubernetes answers {}",
            status.as_u16()
        ))),
    }
}

fn unreadable(why: &str) -> CniError {
    CniError::new(
        ErrorCode::TryAgainLater,
        format!("cannot list the NetworkAttachmentDefinitions of this namespace: {why}"),
        "the daemon tries again; see `neutronNode.attachmentDefinitions` of the chart",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const STATE: &str = "/var/lib/cni/cilium-ipam-neutron";

    fn configuration(name: &str, free: usize) -> Value {
        let id = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";
        let ipam = json!({"type": "cni-ipam-neutron", "networks": [id], "cloud": "c", "warmPool": {"free": free}});
        json!({"cniVersion": "1.1.0", "name": name, "plugins": [{"type": "ptp", "ipam": ipam}]})
    }

    fn with(name: &str, key: &str, value: &str) -> String {
        let mut written = configuration(name, 1);
        written["plugins"][0]["ipam"][key] = value.into();
        written.to_string()
    }

    fn definition(name: &str, config: &str) -> Option<Definition> {
        let item =
            json!({"metadata": {"namespace": "team", "name": name}, "spec": {"config": config}});
        Definition::of(serde_json::from_value(item).unwrap(), Path::new(STATE))
    }

    /// No server answers its requests.
    fn definitions(listed: impl IntoIterator<Item = Option<Definition>>) -> AttachmentDefinitions {
        let mut definitions = AttachmentDefinitions::new(
            vec!["team".to_owned()],
            Path::new("/nowhere"),
            Path::new(STATE),
            Duration::from_mins(1),
        );
        let listed: Vec<Definition> = listed.into_iter().flatten().collect();
        definitions.listed = [("team".to_owned(), listed)].into();
        definitions
    }

    fn free(networks: &Networks, name: &str) -> Option<usize> {
        let settings = networks[name].as_ref().ok()?;
        Some(settings.daemon_config().unwrap().pool?.free)
    }

    fn files(configurations: &[Value]) -> Networks {
        let read = |written: &Value| networks_of(written, "file");
        configurations.iter().flat_map(read).collect()
    }

    #[test]
    fn a_definition_configures_a_network_as_a_file_does() {
        let mut definitions = definitions([
            definition("a", &configuration("pods", 3).to_string()),
            definition("nameless", &configuration("", 7).to_string()),
            definition("in-a-file", &configuration("configured", 5).to_string()),
            definition("twice", &configuration("differ", 1).to_string()),
            definition("other", &configuration("differ", 2).to_string()),
            definition("torn", r#"{"ipam": {"type": "ipam-neutron""#),
            definition("list", r#"["ipam-neutron"]"#),
            definition("large", &with("large", "x", &"x".repeat(LARGEST))),
            definition("node", &with("node", "node", "n1")),
            definition("pool", &with("pool", "warmPool", "four")),
            definition("state", &with("state", "stateDirectory", "/var/lib/cni/x")),
            definition("bridge", r#"{"type": "bridge", "ipam": {"type": "dhcp"}}"#),
            definition("invalid of another plugin", "{"),
            definition("without", ""),
        ]);
        let (networks, listing) = definitions.networks(&files(&[configuration("configured", 4)]));
        let names: Vec<&str> = networks.keys().map(String::as_str).collect();
        assert_eq!(
            (names.as_slice(), listing),
            (&["nameless", "pods"][..], Listing::Partial)
        );
        assert_eq!(free(&networks, "pods"), Some(3));
        assert_eq!(free(&networks, "nameless"), Some(7));
        let reported: Vec<&str> = definitions.reported.keys().map(String::as_str).collect();
        let expected = [
            "differ",
            "team",
            "team/large",
            "team/list",
            "team/node",
            "team/pool",
            "team/state",
            "team/torn",
        ];
        assert_eq!(reported, expected);
    }

    #[test]
    fn a_file_that_is_broken_or_away_for_a_moment_keeps_its_network() {
        let mut definitions = definitions([
            definition("a", &configuration("pods", 0).to_string()),
            definition("b", &configuration("other", 0).to_string()),
        ]);
        let mut names = |of_files: &Networks| -> Vec<String> {
            definitions.networks(of_files).0.into_keys().collect()
        };
        assert_eq!(names(&files(&[configuration("pods", 4)])), ["other"]);
        assert_eq!(names(&Networks::new()), ["other"]);
        let broken = [("pods.conf".to_owned(), Err(invalid("torn")))].into();
        assert_eq!(names(&broken), [""; 0]);
        assert_eq!(names(&Networks::new()), ["other"]);
    }

    #[test]
    fn without_an_answer_the_last_definitions_count() {
        let mut definitions = definitions([definition("a", &configuration("pods", 3).to_string())]);
        for _ in 0..2 {
            let (networks, listing) = definitions.networks(&Networks::new());
            assert_eq!(free(&networks, "pods"), Some(3));
            assert_eq!(listing, Listing::Partial);
            assert!(definitions.reported["team"].contains("cannot ask Kubernetes"));
        }
    }
}
