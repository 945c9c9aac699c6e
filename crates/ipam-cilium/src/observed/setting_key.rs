//! Keys of Cilium's settings that are read. `cilium-config`, `CiliumNodeConfig`s and arguments of
//! containers share them.
//!
//! This is the only list: `slim` keeps these settings and no others, and the functions
//! that look a setting up accept no other key in debug builds.
//!
//! Flags of command lines, as Go's pflag reads them.
//!
//! The `CiliumNodeConfig`s of the cluster, sorted by name and indexed by the nodes that they
//! select. A cluster can have one for each node, so no query walks over all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use super::view_lb::Container;
use super::{Node, NodeConfig, Observed};
use ipam_core::model::{Labels, SelectorIndex};

macro_rules! setting_keys {
    ($($name:ident = $key:literal;)+) => {
        $(#[doc = concat!("`", $key, "`")] pub const $name: &str = $key;)+

        /// Every key that is read from `cilium-config`.
        pub const ALL: &[&str] = &[$($name),+];
    };
}

setting_keys! {
    ANNOTATE_NODE = "annotate-k8s-node";
    AUTO_CREATE_POD_POOLS = "auto-create-cilium-pod-ip-pools";
    AUTO_DIRECT_NODE_ROUTES = "auto-direct-node-routes";
    BGP_ANNOUNCE_LB_IP = "bgp-announce-lb-ip";
    BGP_ANNOUNCE_POD_CIDR = "bgp-announce-pod-cidr";
    CLUSTER_POOL_CONVERSION = "enable-cluster-pool-to-multi-pool-migration";
    CLUSTER_POOL_IPV4_CIDR = "cluster-pool-ipv4-cidr";
    CLUSTER_POOL_IPV4_MASK_SIZE = "cluster-pool-ipv4-mask-size";
    CLUSTER_POOL_IPV6_CIDR = "cluster-pool-ipv6-cidr";
    CLUSTER_POOL_IPV6_MASK_SIZE = "cluster-pool-ipv6-mask-size";
    CNI_CHAINING_MODE = "cni-chaining-mode";
    CUSTOM_CNI_CONF = "custom-cni-conf";
    DEFAULT_LB_SERVICE_IPAM = "default-lb-service-ipam";
    DEFAULT_POOL = "ipam-default-ip-pool";
    DIRECT_ROUTING_SKIP_UNREACHABLE = "direct-routing-skip-unreachable";
    ENABLE_BGP_CONTROL_PLANE = "enable-bgp-control-plane";
    ENABLE_ENDPOINT_ROUTES = "enable-endpoint-routes";
    ENABLE_IPV4 = "enable-ipv4";
    ENABLE_IPV4_MASQUERADE = "enable-ipv4-masquerade";
    ENABLE_IPV6 = "enable-ipv6";
    ENABLE_IPV6_MASQUERADE = "enable-ipv6-masquerade";
    ENABLE_IP_MASQ_AGENT = "enable-ip-masq-agent";
    ENABLE_L2_ANNOUNCEMENTS = "enable-l2-announcements";
    ENABLE_LB_IPAM = "enable-lb-ipam";
    IPAM = "ipam";
    IPV4_NATIVE_ROUTING_CIDR = "ipv4-native-routing-cidr";
    IPV4_RANGE = "ipv4-range";
    IPV6_NATIVE_ROUTING_CIDR = "ipv6-native-routing-cidr";
    IPV6_RANGE = "ipv6-range";
    POD_POOL_PRE_ALLOCATION = "ipam-multi-pool-pre-allocation";
    PROTOCOL_DIFFERENTIATION = "bpf-lb-proto-diff";
    ROUTING_MODE = "routing-mode";
    TUNNEL = "tunnel";
}

/// Arguments that are read and are no settings: those of the step that merges the settings.
pub(super) const ARGUMENTS_ONLY: [&str; 3] = ["allow-config-keys", "deny-config-keys", "source"];

/// The key that an environment variable of a container sets: `CILIUM_ENABLE_IPV4` for `enable-ipv4`
/// (`getEnvName` of cilium/hive, with the prefix of `pkg/hive/hive.go` @ Cilium 1.15.19, 1.17.6).
pub(super) fn of_variable(name: &str) -> Option<&'static str> {
    let key = name.strip_prefix("CILIUM_")?;
    let is_same = |known: &&str| known.replace('-', "_").to_uppercase() == key;
    ALL.iter().copied().find(is_same)
}

/// Panics in debug builds if `key` is not on the list, and so would be missing in a snapshot.
pub(super) fn assert_known(key: &str) {
    debug_assert!(
        ALL.contains(&key),
        "setting `{key}` is missing in setting_key.rs"
    );
}

/// The flags of a container of Cilium: its command line overrides its environment.
pub(super) fn arguments(container: &Container) -> BTreeMap<String, String> {
    variables(container).chain(flags(container)).collect()
}

/// The flags of an operator. A variable whose value is in another object has its name as the value, as
/// in arguments.
pub(super) fn arguments_of_operator(container: &Container) -> BTreeMap<String, String> {
    let hidden = container.env.iter().filter_map(|one| {
        let key = of_variable(&one.name).filter(|_| one.value_from.is_some())?;
        Some((key.to_owned(), format!("$({})", one.name)))
    });
    hidden.chain(arguments(container)).collect()
}

/// Whether Kubernetes puts a variable into a value, which is therefore unknown.
pub fn is_reference(value: &str) -> bool {
    value.contains("$(")
}

/// The flags of an operator that only its environment sets.
pub(super) fn only_variables(container: &Container) -> BTreeSet<String> {
    let flags = flags(container);
    let keys = arguments_of_operator(container).into_keys();
    keys.filter(|key| !flags.contains_key(key)).collect()
}

/// An empty variable sets nothing (viper).
fn variables(container: &Container) -> impl Iterator<Item = (String, String)> {
    container.env.iter().filter_map(|one| {
        let key = of_variable(&one.name)?;
        let value = one.value.as_ref().filter(|value| !value.is_empty())?;
        Some((key.to_owned(), value.clone()))
    })
}

fn flags(container: &Container) -> BTreeMap<String, String> {
    arguments_of(container.command.iter().chain(&container.args))
}

/// `--key=value` or `--key value` of a command line; `--key` alone means true.
pub(super) fn arguments_of<'w>(
    words: impl IntoIterator<Item = &'w String>,
) -> BTreeMap<String, String> {
    let mut words = words.into_iter().peekable();
    let mut arguments: BTreeMap<String, String> = BTreeMap::new();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--") else {
            continue;
        };
        let (key, value) = match flag.split_once('=') {
            Some((key, value)) => (key, value.to_owned()),
            None => (
                flag,
                words
                    .next_if(|next| !next.starts_with('-'))
                    .map_or_else(|| "true".to_owned(), Clone::clone),
            ),
        };
        // Programs of Kubernetes take `_` for `-` (`WordSepNormalizeFunc` of component-base).
        let key = key.replace('_', "-");
        // Repeated flags extend lists. Of other flags the last one wins.
        let is_list = key.ends_with("-cidr") || key == "source" || key == "controllers";
        match arguments.get_mut(&key).filter(|_| is_list) {
            Some(list) => *list = format!("{list},{value}"),
            None => {
                arguments.insert(key, value);
            }
        }
    }
    arguments
}

/// `CiliumNodeConfig`s, sorted by name: a later one wins. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct NodeConfigs {
    sorted: Arc<[NodeConfig]>,
    selectors: Arc<SelectorIndex>,
}

impl NodeConfigs {
    pub fn new(mut configs: Vec<NodeConfig>) -> NodeConfigs {
        configs.sort_by(|a, b| a.name.cmp(&b.name));
        NodeConfigs {
            selectors: Arc::new(SelectorIndex::new(
                configs.iter().map(|config| &config.nodes),
            )),
            sorted: configs.into(),
        }
    }

    /// The one of this name.
    pub fn named(&self, name: &str) -> Option<&NodeConfig> {
        let before = self.sorted.partition_point(|config| *config.name < *name);
        self.sorted.get(before).filter(|config| config.name == name)
    }

    /// Those that select a node with these labels, by name.
    pub fn selecting(&self, labels: &Labels) -> impl DoubleEndedIterator<Item = &NodeConfig> {
        let places = self.places_selecting(labels);
        places.map(|place| &self.sorted[place])
    }

    fn places_selecting(&self, labels: &Labels) -> impl DoubleEndedIterator<Item = usize> {
        self.selectors
            .matching(labels, |place| &self.sorted[place].nodes)
    }
}

impl Deref for NodeConfigs {
    type Target = [NodeConfig];

    fn deref(&self) -> &[NodeConfig] {
        &self.sorted
    }
}

impl Observed {
    /// Whether a setting is on for the agent of a node. Absent means off.
    pub fn is_on_at(&self, node: &Node, key: &str) -> bool {
        let setting = self.setting(&node.labels, key);
        setting.is_some_and(|setting| setting.is_on())
    }

    /// Whether a setting is on for all agents, or by a `CiliumNodeConfig` for those of some nodes.
    pub fn is_on_somewhere(&self, key: &str) -> bool {
        let sets = |config: &NodeConfig| config.defaults.contains_key(key);
        let mut nodes = self.nodes.values();
        self.is_on(key)
            || self.node_configs.iter().any(sets) && nodes.any(|node| self.is_on_at(node, key))
    }

    /// The `CiliumNodeConfig`s that set ranges, by name, each with the nodes that it selects.
    pub(super) fn range_configs(&self) -> impl Iterator<Item = (&NodeConfig, Vec<&Node>)> {
        let configs = &self.node_configs;
        let sets_ranges = |config: &NodeConfig| config.ranges().next().is_some();
        let mut nodes: Vec<Vec<&Node>> = vec![Vec::new(); configs.len()];
        if configs.iter().any(sets_ranges) {
            for node in self.nodes.values() {
                for place in configs.places_selecting(&node.labels) {
                    nodes[place].push(node);
                }
            }
        }
        let with_nodes = configs.iter().zip(nodes);
        with_nodes.filter(move |(config, _)| sets_ranges(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_core::model::{ObjectVersion, Operator, Requirement, Selector};

    fn config(name: &str, host: Option<&str>) -> NodeConfig {
        let requirement = host.map(|host| {
            let operator = Operator::In([host.to_owned()].into());
            Requirement::new("host", operator).unwrap()
        });
        NodeConfig {
            name: name.to_owned(),
            version: ObjectVersion::default(),
            labels: Labels::new(),
            owner: None,
            nodes: Selector::all_of(requirement),
            defaults: [("ipv4-range".to_owned(), "10.0.0.0/24".to_owned())].into(),
        }
    }

    fn names<'c>(configs: impl Iterator<Item = &'c NodeConfig>) -> Vec<&'c str> {
        configs.map(|config| config.name.as_str()).collect()
    }

    #[test]
    fn configs_are_found_by_name_and_by_labels() {
        let configs = NodeConfigs::new(vec![
            config("c", Some("n1")),
            config("b", None),
            config("a", Some("n1")),
            config("d", Some("n2")),
        ]);
        let labels = Labels::from([("host".to_owned(), "n1".to_owned())]);
        assert_eq!(names(configs.selecting(&labels)), ["a", "b", "c"]);
        assert_eq!(names(configs.selecting(&labels).rev()), ["c", "b", "a"]);
        assert_eq!(names(configs.selecting(&Labels::new())), ["b"]);
        assert_eq!(names(configs.named("d").into_iter()), ["d"]);
        assert!(configs.named("cc").is_none() && configs.named("e").is_none());
    }
}
