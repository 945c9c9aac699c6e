//! A cluster in which nodes joined and left. The new nodes are the youngest, so that no other node gets
//! less than it gets today.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::plan::{Change, Plan};
use ipam_cilium::observed::{Node, Observed};
use ipam_core::model::{Labels, NodeName, Selector};

/// Nodes that join and leave.
#[derive(Clone, Debug, Default)]
pub struct NodesChange {
    add: Vec<Group>,
    /// Nodes that leave first, with their blocks.
    remove: Option<Selector>,
    /// The number of Pods that kubelets of new nodes accept. Default: that of most nodes.
    pod_limit: Option<u64>,
}

/// A number of nodes that cannot join.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodesChangeError {
    #[error("a group without nodes cannot join")]
    NoNode,
    #[error("{0} nodes are too many: at most {LARGEST} can join")]
    TooMany(usize),
}

/// The largest number of nodes that join.
const LARGEST: usize = 100_000;

/// New nodes with the same labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub count: usize,
    pub labels: Labels,
}

impl NodesChange {
    /// # Errors
    /// Fails if a group has no node, or all groups together have more than 100,000.
    pub fn new(
        add: Vec<Group>,
        remove: Option<Selector>,
        pod_limit: Option<u64>,
    ) -> Result<NodesChange, NodesChangeError> {
        let counts = add.iter().map(|group| group.count);
        let count = counts.fold(0, usize::saturating_add);
        if add.iter().any(|group| group.count == 0) {
            return Err(NodesChangeError::NoNode);
        }
        if count > LARGEST {
            return Err(NodesChangeError::TooMany(count));
        }
        Ok(NodesChange {
            add,
            remove,
            pod_limit,
        })
    }

    pub(super) fn pod_limit(&self) -> Option<u64> {
        self.pod_limit
    }

    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_none()
    }
}

/// The changed cluster.
pub(super) struct World {
    pub(super) observed: Observed,
    pub(super) groups: Vec<Group>,
    /// The new nodes with their groups, in the order of the question.
    pub(super) added: Vec<(usize, NodeName)>,
    pub(super) removed: usize,
}

const HOSTNAME: &str = "kubernetes.io/hostname";

impl World {
    pub(super) fn new(observed: &Observed, change: &NodesChange) -> World {
        let mut observed = observed.clone();
        let before = observed.nodes.len();
        if let Some(selector) = &change.remove {
            let nodes = observed.nodes.values();
            let leaving = nodes.filter(|node| selector.matches(&node.labels));
            let leaving: Vec<NodeName> = leaving.map(|node| node.name.clone()).collect();
            for name in leaving {
                observed.nodes.remove(&name);
                observed.cilium_nodes.remove(&name);
            }
        }
        let removed = before - observed.nodes.len();
        let created = observed.nodes.values().map(|node| node.created.clone());
        let created = created
            .max()
            .into_iter()
            .chain([observed.at.to_string()])
            .max();
        let pod_limit = change.pod_limit.or_else(|| usual_pod_limit(&observed));
        let prefix = free_prefix(&observed);
        let mut added = Vec::new();
        for (index, group) in change.add.iter().enumerate() {
            for _ in 0..group.count {
                let name = format!("{prefix}-{:07}", added.len() + 1);
                let Ok(name) = name.parse::<NodeName>() else {
                    continue;
                };
                let mut labels = group.labels.clone();
                labels.insert(HOSTNAME.to_owned(), name.to_string());
                let created = created.clone().unwrap_or_default();
                let node = Node::joining(name.clone(), labels, created, pod_limit);
                observed.nodes.insert(name.clone(), Arc::new(node));
                added.push((index, name));
            }
        }
        World {
            observed,
            groups: change.add.clone(),
            added,
            removed,
        }
    }

    /// Gives nodes the blocks of a plan.
    pub(super) fn assign(&mut self, plan: &Plan) {
        for change in &plan.changes {
            let Change::Node(change) = change else {
                continue;
            };
            if let Some(node) = self.observed.nodes.get_mut(&change.node) {
                Arc::make_mut(node)
                    .shown
                    .extend(change.after.iter().copied());
            }
        }
    }
}

/// The limit of most nodes.
fn usual_pod_limit(observed: &Observed) -> Option<u64> {
    let mut limits: BTreeMap<u64, usize> = BTreeMap::new();
    for limit in observed.nodes.values().filter_map(|node| node.pod_limit) {
        *limits.entry(limit).or_default() += 1;
    }
    let usual = limits.into_iter().max_by_key(|(_, nodes)| *nodes);
    usual.map(|(limit, _)| limit)
}

/// A prefix of names that no node has.
fn free_prefix(observed: &Observed) -> String {
    let is_free = |prefix: &String| {
        let mut names = observed.nodes.keys().chain(observed.cilium_nodes.keys());
        !names.any(|name| name.as_str().starts_with(prefix.as_str()))
    };
    let numbered = (2..).map(|number| format!("simulated{number}"));
    let mut prefixes = std::iter::once("simulated".to_owned()).chain(numbered);
    prefixes.find(is_free).unwrap_or_default()
}
