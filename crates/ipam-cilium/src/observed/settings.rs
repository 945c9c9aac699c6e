//! Settings of an agent: `cilium-config`, then the `CiliumNodeConfig`s of its node, then its
//! arguments. Later sources win.
//!
//! `pkg/option/resolver/resolver.go` @ 1.20: of several `CiliumNodeConfig`s the later name wins. An
//! agent reads them when it starts.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::view::{OwnerReference, nullable};
use super::{AnnotationReads, Node, Observed, setting_key};
use crate::behaviours;
use crate::lbipam::WrittenSelector;
use ipam_core::model::{CiliumVersion, Labels, NodeName, ObjectVersion, Selector, is_ours};
use ipam_core::net::{Block, Family};

/// A `CiliumNodeConfig` in Cilium's namespace.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub name: String,
    pub version: ObjectVersion,
    pub labels: Labels,
    /// UID of the owning Node.
    pub owner: Option<String>,
    /// Nodes that the `CiliumNodeConfig` selects. An absent selector selects none, an empty one
    /// all.
    pub nodes: Selector,
    pub defaults: BTreeMap<String, String>,
}

ipam_core::text_enum! {
    /// A version of the API that serves `CiliumNodeConfig`s, as written in `apiVersion`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum NodeConfigApi {
        /// Served up to Cilium 1.15.
        V2Alpha1 = "cilium.io/v2alpha1",
        /// Served by Cilium 1.16 and later.
        V2 = "cilium.io/v2",
    }
}

/// Whether the server serves `CiliumNodeConfig`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeConfigsServed {
    As(NodeConfigApi),
    No,
    /// It is unknown whether they are served, as with a cluster in a file.
    #[default]
    Unknown,
}

/// An agent's Pod.
#[derive(Clone, Debug)]
pub struct Agent {
    pub node: String,
    /// Version of Cilium, by the tag of the container's image.
    pub version: Option<CiliumVersion>,
    /// Start time, RFC 3339; empty before the start.
    pub started: String,
}

/// Where the effective value of a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingSource<'o> {
    /// The ConfigMap `cilium-config`.
    ConfigMap,
    /// A `CiliumNodeConfig`, by its name.
    NodeConfig(&'o str),
    /// An argument of the agent's container.
    Argument,
}

impl fmt::Display for SettingSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingSource::ConfigMap => f.write_str("cilium-config"),
            SettingSource::NodeConfig(name) => {
                write!(f, "CiliumNodeConfig `{}`", name.escape_debug())
            }
            SettingSource::Argument => f.write_str("an argument of the agent"),
        }
    }
}

/// An effective setting of an agent that starts now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'o> {
    pub value: &'o str,
    pub source: SettingSource<'o>,
}

#[derive(Deserialize)]
pub(super) struct NodeConfigView {
    metadata: NodeConfigMetadata,
    spec: NodeConfigSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeConfigMetadata {
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default, deserialize_with = "nullable")]
    labels: Labels,
    #[serde(default, deserialize_with = "nullable")]
    owner_references: Vec<OwnerReference>,
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
    metadata: AgentMetadata,
    #[serde(default, deserialize_with = "nullable")]
    spec: AgentSpec,
    #[serde(default, deserialize_with = "nullable")]
    status: AgentStatus,
}

#[derive(Default, Deserialize)]
struct AgentMetadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentSpec {
    #[serde(default)]
    node_name: String,
    #[serde(default, deserialize_with = "nullable")]
    containers: Vec<AgentContainer>,
}

/// The fields of a container that are read. There is an agent Pod for each node, so other fields
/// would cost memory.
#[derive(Deserialize)]
struct AgentContainer {
    #[serde(default)]
    name: String,
    #[serde(default)]
    image: String,
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
        let read =
            |written: &WrittenSelector| written.selector().unwrap_or_else(|_| Selector::nothing());
        let nodes = spec
            .node_selector
            .as_ref()
            .map_or_else(Selector::nothing, read);
        let NodeConfigMetadata {
            name,
            uid,
            resource_version,
            labels,
            owner_references,
            namespace,
        } = metadata;
        let owner = super::view::owning_node(&owner_references);
        let version = ObjectVersion {
            uid,
            resource_version,
        };
        (
            namespace,
            NodeConfig {
                name,
                version,
                labels,
                owner,
                nodes,
                defaults: spec.defaults,
            },
        )
    }
}

impl AgentView {
    pub(super) fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    pub(super) fn name(&self) -> &str {
        &self.metadata.name
    }
}

impl From<AgentView> for Agent {
    fn from(view: AgentView) -> Agent {
        let agent = view
            .spec
            .containers
            .iter()
            .find(|container| container.name == "cilium-agent");
        Agent {
            node: view.spec.node_name,
            version: agent.and_then(|container| super::cilium::version_of_image(&container.image)),
            started: view.status.start_time.unwrap_or_default(),
        }
    }
}

/// Setting that overrides the block of the Node.
pub const fn range_setting(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => setting_key::IPV4_RANGE,
        Family::Ipv6 => setting_key::IPV6_RANGE,
    }
}

impl NodeConfig {
    /// Whether the `CiliumNodeConfig` has the label of `cilium-ipam`.
    pub fn is_ours(&self) -> bool {
        is_ours(&self.labels)
    }

    /// Blocks in the settings `ipv4-range` and `ipv6-range`.
    pub fn ranges(&self) -> impl Iterator<Item = Block> + '_ {
        let texts = Family::BOTH
            .into_iter()
            .filter_map(|family| self.defaults.get(range_setting(family)));
        texts.filter_map(|text| Block::lenient(text).ok())
    }
}

fn block_of(setting: Setting<'_>, family: Family) -> Option<Block> {
    Block::lenient(setting.value)
        .ok()
        .filter(|block| block.family() == family)
}

impl Observed {
    /// The block that an agent uses instead of its Node's (`pkg/ipam/cell/ipam_init.go`
    /// ConfigureAndStartIPAM @ 1.20). The agent still waits for the Node's block.
    pub fn set_range(&self, node: &Node, family: Family) -> Option<Block> {
        block_of(self.setting(&node.labels, range_setting(family))?, family)
    }

    /// The block of [`Observed::set_range`] without the `CiliumNodeConfig` of this name.
    pub(super) fn set_range_without(
        &self,
        node: &Node,
        family: Family,
        config: &str,
    ) -> Option<Block> {
        let is_left = |left: &NodeConfig| left.name != config;
        let setting = self.setting_of(&node.labels, range_setting(family), is_left);
        block_of(setting?, family)
    }

    /// Every block that a setting gives to a node, effective or not.
    pub(super) fn set_ranges(&self) -> impl Iterator<Item = (&NodeName, Block)> {
        let is_set = |family: Family| {
            let key = range_setting(family);
            let of_nodes = self
                .node_configs
                .iter()
                .any(|config| config.defaults.contains_key(key));
            of_nodes
                || self
                    .common_setting(key)
                    .is_some_and(|setting| setting.value != "auto")
        };
        let families = Family::BOTH
            .into_iter()
            .filter(move |family| is_set(*family));
        let winning = families.flat_map(move |family| {
            self.nodes
                .values()
                .filter_map(move |node| Some((&node.name, self.set_range(node, family)?)))
        });
        // A setting that is overridden now may win later.
        let written = self.range_configs().flat_map(|(config, nodes)| {
            let of_node = |node| config.ranges().map(move |block| (node, block));
            let blocks = nodes.into_iter().map(|node| &node.name).flat_map(of_node);
            blocks.collect::<Vec<_>>()
        });
        winning.chain(written)
    }

    /// Blocks of settings that select no existing node. A new node may take them.
    pub fn unowned_ranges(&self) -> impl Iterator<Item = Block> + '_ {
        let unselected = self.range_configs().filter(|(_, nodes)| nodes.is_empty());
        unselected.flat_map(|(config, _)| config.ranges())
    }

    pub fn node_config(&self, name: &str) -> Option<&NodeConfig> {
        self.node_configs.named(name)
    }

    /// API version for writing `CiliumNodeConfig`s; `None` if they cannot be written.
    pub fn node_config_api(&self) -> Option<NodeConfigApi> {
        match self.node_configs_served {
            NodeConfigsServed::As(api) => Some(api),
            NodeConfigsServed::Unknown if self.surely_has(behaviours::NODE_CONFIG_V2) => {
                Some(NodeConfigApi::V2)
            }
            NodeConfigsServed::Unknown if self.surely_has(behaviours::NODE_CONFIGS) => {
                Some(NodeConfigApi::V2Alpha1)
            }
            NodeConfigsServed::Unknown | NodeConfigsServed::No => None,
        }
    }

    /// The effective setting of an agent that starts now on a node with these labels.
    pub fn setting(&self, labels: &Labels, key: &str) -> Option<Setting<'_>> {
        self.setting_of(labels, key, |_| true)
    }

    fn setting_of(
        &self,
        labels: &Labels,
        key: &str,
        counts: impl Fn(&NodeConfig) -> bool,
    ) -> Option<Setting<'_>> {
        setting_key::assert_known(key);
        let of_node = self
            .node_configs
            .selecting(labels)
            .rev()
            .filter(|config| counts(config))
            .find_map(|config| {
                let value = config.defaults.get(key)?;
                Some(Setting {
                    value,
                    source: SettingSource::NodeConfig(&config.name),
                })
            });
        match self.cilium.agent_argument(key).is_some() {
            true => self.common_setting(key),
            false => of_node.or_else(|| self.common_setting(key)),
        }
    }

    /// Whether the agent of a node reads the pod-CIDR annotations of its Node.
    pub fn annotation_reads(&self, node: &Node) -> AnnotationReads {
        let setting = self
            .setting(&node.labels, setting_key::ANNOTATE_NODE)
            .map(|setting| setting.value);
        self.cilium.annotation_reads(setting)
    }

    /// Whether agents read annotations, without settings of single nodes.
    pub fn common_annotation_reads(&self) -> AnnotationReads {
        self.cilium.annotation_reads(
            self.common_setting(setting_key::ANNOTATE_NODE)
                .map(|setting| setting.value),
        )
    }

    /// The effective setting of agents, without settings of single nodes.
    pub fn common_setting(&self, key: &str) -> Option<Setting<'_>> {
        setting_key::assert_known(key);
        if let Some(value) = self.cilium.agent_argument(key) {
            return Some(Setting {
                value,
                source: SettingSource::Argument,
            });
        }
        let value = self.cilium.settings.as_ref()?.get(key)?;
        Some(Setting {
            value,
            source: SettingSource::ConfigMap,
        })
    }

    /// Whether a common setting is on. Absent means off.
    pub fn is_on(&self, key: &str) -> bool {
        self.common_setting(key)
            .is_some_and(|setting| setting.is_on())
    }
}
