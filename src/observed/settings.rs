//! What an agent is set to: `cilium-config`, then the `CiliumNodeConfig`s of its node, then its arguments.
//!
//! `pkg/option/resolver/resolver.go` @ 1.20: of several `CiliumNodeConfig`s the later name wins. They are read when an agent starts.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

use super::Observed;
use super::view::{Container, nullable};
use crate::lbipam::WrittenSelector;
use crate::model::{CiliumVersion, Labels, Selector};

/// A `CiliumNodeConfig` in Cilium's namespace.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Name.
    pub name: String,
    /// The nodes that it is for; absent selects none, empty every one.
    pub nodes: Selector,
    /// Settings.
    pub defaults: BTreeMap<String, String>,
}

/// An agent's Pod.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The node that it runs on.
    pub node: String,
    /// Its version, where the image's tag tells it.
    pub version: Option<CiliumVersion>,
    /// When it started, RFC 3339; empty where it has not.
    pub started: String,
}

/// Where an effective setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingSource<'o> {
    /// `cilium-config`.
    ConfigMap,
    /// A `CiliumNodeConfig`.
    NodeConfig(&'o str),
    /// An argument of the agent's container.
    Argument,
}

impl fmt::Display for SettingSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingSource::ConfigMap => f.write_str("cilium-config"),
            SettingSource::NodeConfig(name) => write!(f, "CiliumNodeConfig `{}`", name.escape_debug()),
            SettingSource::Argument => f.write_str("an argument of the agent"),
        }
    }
}

/// A setting as an agent that starts now would have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'o> {
    /// Value.
    pub value: &'o str,
    /// Who says so.
    pub source: SettingSource<'o>,
}

#[derive(Deserialize)]
pub(super) struct NodeConfigView {
    metadata: NodeConfigMetadata,
    spec: NodeConfigSpec,
}

#[derive(Deserialize)]
struct NodeConfigMetadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeConfigSpec {
    node_selector: Option<WrittenSelector>,
    #[serde(default, deserialize_with = "nullable")]
    defaults: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub(super) struct AgentView {
    #[serde(default, deserialize_with = "nullable")]
    spec: AgentSpec,
    #[serde(default, deserialize_with = "nullable")]
    status: AgentStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentSpec {
    #[serde(default)]
    node_name: String,
    #[serde(default, deserialize_with = "nullable")]
    containers: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentStatus {
    #[serde(default)]
    start_time: Option<String>,
}

impl From<NodeConfigView> for (String, NodeConfig) {
    fn from(view: NodeConfigView) -> (String, NodeConfig) {
        let NodeConfigView { metadata, spec } = view;
        let read = |written: &WrittenSelector| written.selector().unwrap_or_else(|_| Selector::nothing());
        let nodes = spec.node_selector.as_ref().map_or_else(Selector::nothing, read);
        (metadata.namespace, NodeConfig { name: metadata.name, nodes, defaults: spec.defaults })
    }
}

impl From<AgentView> for Agent {
    fn from(view: AgentView) -> Agent {
        let agent = view.spec.containers.iter().find(|container| container.name == "cilium-agent");
        Agent {
            node: view.spec.node_name,
            version: agent.and_then(|container| super::cilium::version_of_image(&container.image)),
            started: view.status.start_time.unwrap_or_default(),
        }
    }
}

/// `--key=value` or `--key value` of a container's command line; `--key` alone means true.
pub(super) fn arguments(container: &Container) -> BTreeMap<String, String> {
    let mut words = container.command.iter().chain(&container.args).peekable();
    let mut arguments = BTreeMap::new();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--") else { continue };
        let (key, value) = match flag.split_once('=') {
            Some((key, value)) => (key, value.to_owned()),
            None => {
                (flag, words.next_if(|next| !next.starts_with('-')).map_or_else(|| "true".to_owned(), Clone::clone))
            }
        };
        arguments.insert(key.to_owned(), value);
    }
    arguments
}

impl Observed {
    /// What an agent that starts on a node with these labels now would be set to.
    pub fn setting(&self, labels: &Labels, key: &str) -> Option<Setting<'_>> {
        let of_node = self.node_configs.iter().rev().find_map(|config| {
            let value = config.defaults.get(key).filter(|_| config.nodes.matches(labels))?;
            Some(Setting { value, source: SettingSource::NodeConfig(&config.name) })
        });
        match self.cilium.agent_arguments.contains_key(key) {
            true => self.common_setting(key),
            false => of_node.or_else(|| self.common_setting(key)),
        }
    }

    /// What agents are set to, but for settings of single nodes.
    pub fn common_setting(&self, key: &str) -> Option<Setting<'_>> {
        if let Some(value) = self.cilium.agent_arguments.get(key) {
            return Some(Setting { value, source: SettingSource::Argument });
        }
        let value = self.cilium.settings.as_ref()?.get(key)?;
        Some(Setting { value, source: SettingSource::ConfigMap })
    }

    /// Whether a setting of all nodes is on; absent is off.
    pub fn is_on(&self, key: &str) -> bool {
        self.common_setting(key).is_some_and(|setting| super::cilium::is_true(setting.value))
    }
}
