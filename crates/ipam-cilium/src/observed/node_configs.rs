//! The `CiliumNodeConfig`s of the cluster, sorted by name and indexed by the nodes that they select.
//!
//! A cluster can have one for each node, so no query walks over all of them.

use std::ops::Deref;
use std::sync::Arc;

use super::{Node, NodeConfig, Observed};
use ipam_core::model::{Labels, SelectorIndex};

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
