//! Networks that only a NetworkAttachmentDefinition configures. Reads all of them from Kubernetes as a
//! Pod does, with the token of its ServiceAccount. Must never know Neutron.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::USER_AGENT;
use crate::networks::{Networks, PLUGIN, add_network, networks_of};
use neutron_cni::cni::{CniError, ErrorCode};
use private_files::read_small;

/// All of them, in any namespace. In one answer, so that none is missing between two pages.
const PATH: &str = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions";

/// Longest time for an answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Largest answer in bytes. A definition has at most 1.5 MiB in etcd, and few have 1 KiB.
const LARGEST: u64 = 64 << 20;

/// How the daemon reports that it cannot list them.
const REPORTED_AS: &str = "network-attachment-definitions";

/// The definitions as Kubernetes listed them last.
pub(super) struct AttachmentDefinitions {
    service_account: PathBuf,
    interval: Duration,
    last_list: Option<Instant>,
    listed: Vec<Definition>,
    error: Option<CniError>,
}

/// One that may configure a network of the plugin.
struct Definition {
    /// `NAMESPACE/NAME`.
    place: String,
    /// The name that Multus gives to a configuration without one (`GetCNIConfigFromSpec` in
    /// `pkg/netattachdef` of the network-attachment-definition-client).
    name: String,
    configuration: String,
}

impl AttachmentDefinitions {
    pub(super) fn new(service_account: PathBuf, interval: Duration) -> AttachmentDefinitions {
        AttachmentDefinitions {
            service_account,
            interval,
            last_list: None,
            listed: Vec::new(),
            error: None,
        }
    }

    /// Adds their networks to those of files. A file wins. While they cannot be listed, the last ones
    /// count, and an error says that others may exist.
    pub(super) fn extend(&mut self, networks: &mut Networks) {
        let is_due = |last: Instant| last.elapsed() >= self.interval;
        if self.last_list.is_none_or(is_due) {
            self.last_list = Some(Instant::now());
            match list(&self.service_account) {
                Ok(listed) => {
                    self.listed = listed;
                    self.error = None;
                }
                Err(error) => self.error = Some(error),
            }
        }
        add_networks(&self.listed, networks);
        if let Some(error) = &self.error {
            networks.insert(REPORTED_AS.to_owned(), Err(error.clone()));
        }
    }
}

fn add_networks(definitions: &[Definition], networks: &mut Networks) {
    let mut defined = Networks::new();
    for definition in definitions {
        for (name, read) in definition.networks() {
            add_network(&mut defined, name, read, &definition.place);
        }
    }
    for (name, read) in defined {
        networks.entry(name).or_insert(read);
    }
}

impl Definition {
    /// `None` if it configures no network of the plugin. Multus reads a definition without
    /// `spec.config` from a file.
    fn of(item: &Value) -> Option<Definition> {
        let (name, namespace) = (&item["metadata"]["name"], &item["metadata"]["namespace"]);
        let (name, namespace) = (name.as_str()?.to_owned(), namespace.as_str()?);
        let configuration = item["spec"]["config"].as_str()?;
        configuration.contains(PLUGIN).then(|| Definition {
            place: format!("{namespace}/{name}"),
            name,
            configuration: configuration.to_owned(),
        })
    }

    fn networks(&self) -> Vec<(String, Result<neutron_cni::Settings, CniError>)> {
        let mut written: Value = match serde_json::from_str(&self.configuration) {
            Ok(written) => written,
            Err(why) => {
                let what = format!("`spec.config` is no valid JSON: {why}");
                let way_out = "fix the NetworkAttachmentDefinition";
                let error = CniError::new(ErrorCode::Decoding, what, way_out);
                return vec![(self.place.clone(), Err(error))];
            }
        };
        let name = &written["name"];
        if name.is_null() || name == "" {
            written["name"] = self.name.as_str().into();
        }
        networks_of(&written, &self.place)
    }
}

fn list(service_account: &Path) -> Result<Vec<Definition>, CniError> {
    let (status, body) = get(service_account, PATH)?;
    match (status, body["items"].as_array()) {
        (200, Some(items)) => Ok(items.iter().filter_map(Definition::of).collect()),
        // The cluster has no such kind.
        (404, _) => Ok(Vec::new()),
        (status, _) => Err(unreadable(format!("Kubernetes answers {status}"))),
    }
}

/// The status and the body of an answer.
fn get(service_account: &Path, path: &str) -> Result<(u16, Value), CniError> {
    let variable =
        |name: &str| std::env::var(name).map_err(|_| unreadable(format!("{name} is not set")));
    let host = variable("KUBERNETES_SERVICE_HOST")?;
    let port = variable("KUBERNETES_SERVICE_PORT")?;
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host
    };
    let token = read_small(&service_account.join("token"))?;
    // No error repeats the token.
    let why = |why: ureq::Error| match why {
        ureq::Error::Http(_) | ureq::Error::BadUri(_) => {
            unreadable("the address or the token is invalid".to_owned())
        }
        why => unreadable(why.to_string()),
    };
    let answer = agent(&read_small(&service_account.join("ca.crt"))?)
        .get(format!("https://{host}:{port}{path}"))
        .header("Authorization", format!("Bearer {}", token.trim()))
        .header("Accept", "application/json")
        .call()
        .map_err(why)?;
    let status = answer.status().as_u16();
    let body = answer.into_body().into_with_config().limit(LARGEST);
    let bytes = body.read_to_vec().map_err(why)?;
    Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
}

/// Trusts these certificates only.
fn agent(certificates: &str) -> Agent {
    let certificates = parse_pem(certificates.as_bytes()).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<Certificate<'static>> = certificates.collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::from(certificates))
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(DEADLINE))
        .http_status_as_error(false)
        // A redirect could send the token to another server.
        .max_redirects(0)
        .proxy(None)
        .user_agent(USER_AGENT)
        .build()
        .new_agent()
}

fn unreadable(why: String) -> CniError {
    CniError::new(
        ErrorCode::TryAgainLater,
        format!("cannot list the NetworkAttachmentDefinitions: {why}"),
        "the daemon tries again; see `neutronNode.attachmentDefinitions` of the chart",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use neutron_cni::Settings;

    fn configuration(name: &str, free: usize) -> Value {
        let id = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";
        let ipam = json!({"type": "cni-ipam-neutron", "networks": [id], "cloud": "c", "warmPool": {"free": free}});
        json!({"cniVersion": "1.1.0", "name": name, "plugins": [{"type": "ptp", "ipam": ipam}]})
    }

    fn definition(name: &str, config: &str) -> Option<Definition> {
        Definition::of(
            &json!({"metadata": {"namespace": "team", "name": name}, "spec": {"config": config}}),
        )
    }

    fn free(networks: &Networks, name: &str) -> Option<usize> {
        let settings = networks[name].as_ref().ok()?;
        Some(settings.daemon_config().unwrap().pool?.free)
    }

    #[test]
    fn a_definition_configures_a_network_as_a_file_does() {
        let mut nameless = configuration("", 1);
        nameless["plugins"][0]["ipam"]["warmPool"]["free"] = 7.into();
        let definitions: Vec<Definition> = [
            definition("a", &configuration("pods", 3).to_string()),
            definition("nameless", &nameless.to_string()),
            definition("in-a-file", &configuration("configured", 5).to_string()),
            definition("torn", r#"{"ipam": {"type": "ipam-neutron""#),
            definition("twice", &configuration("differ", 1).to_string()),
            definition("other", &configuration("differ", 2).to_string()),
            definition("bridge", r#"{"type": "bridge", "ipam": {"type": "dhcp"}}"#),
            definition("invalid of another plugin", "{"),
            Definition::of(&json!({"metadata": {"namespace": "team", "name": "no config"}})),
        ]
        .into_iter()
        .flatten()
        .collect();
        let file = networks_of(&configuration("configured", 4), "file");
        let mut networks: Networks = file.into_iter().collect();
        add_networks(&definitions, &mut networks);
        let names: Vec<&str> = networks.keys().map(String::as_str).collect();
        let expected = ["configured", "differ", "nameless", "pods", "team/torn"];
        assert_eq!(names, expected);
        assert_eq!(free(&networks, "pods"), Some(3));
        assert_eq!(free(&networks, "nameless"), Some(7));
        assert_eq!(free(&networks, "configured"), Some(4));
        let message = |name: &str| networks[name].as_ref().unwrap_err().message.clone();
        assert!(
            message("differ").contains("team/other"),
            "{}",
            message("differ")
        );
        assert!(message("team/torn").contains("no valid JSON"));
    }

    #[test]
    fn without_an_answer_the_last_definitions_count() {
        let nowhere = tempfile::tempdir().unwrap();
        let mut definitions =
            AttachmentDefinitions::new(nowhere.path().to_owned(), Duration::from_mins(1));
        definitions.listed = definition("a", &configuration("pods", 3).to_string())
            .into_iter()
            .collect();
        let mut networks = Networks::new();
        definitions.extend(&mut networks);
        assert_eq!(free(&networks, "pods"), Some(3));
        assert!(networks[REPORTED_AS].is_err());
        let settings: Vec<&Settings> = networks.values().flatten().collect();
        assert_eq!(settings.len(), 1);
    }
}
