//! The files and nodes that a history starts with.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::sabotage::Sabotage;
use ipam_controller::{Loaded, check_documents};
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use worlds::documents::{pin, policy, pool};

/// Files that applies use at the same time.
#[derive(Debug)]
pub struct Setup {
    pub(crate) directories: Vec<Directory>,
    settings: Value,
}

/// One directory.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) loaded: Loaded,
    pub(crate) pins: Arc<BTreeMap<NodeName, Vec<Block>>>,
}

/// All setups; a seed chooses one.
#[derive(Debug)]
pub struct Setups {
    of_applies: Vec<Setup>,
    of_lives: Vec<Setup>,
    /// Number of setups of lives, from the first one, that are used for broken rules. Each shows in
    /// few lives there.
    sabotaged: usize,
}

fn pools() -> [String; 2] {
    [
        pool(
            "a",
            "{cidrs: [10.0.0.0/29], blockSize: 31, nodeSelector: {matchLabels: {rack: a}}}",
        ),
        pool("rest", "{cidrs: [10.0.1.0/30], blockSize: 32}"),
    ]
}

fn dual_stack() -> String {
    pool(
        "a",
        "{cidrs: [10.0.0.0/29, \"fd00::/62\"], blockSize: {ipv4: 31, ipv6: 64}}",
    )
}

/// More blocks than nodes, so that no node lacks a block because the pool is full, and another node
/// soon gets the lowest free block. Machines come back at any time of a history, so a quarantine
/// lasts for the whole history.
fn room() -> String {
    pool("all", "{cidrs: [10.0.0.0/24], blockSize: 30}")
}

impl Setups {
    /// Reads the directories of all setups.
    ///
    /// # Panics
    /// If the files of the simulator are invalid.
    #[must_use]
    pub fn new() -> Setups {
        let (closed, open) = (
            json!({"ipam": "kubernetes"}),
            json!({"ipam": "kubernetes", "annotate-k8s-node": "true"}),
        );
        // Directories that pin one block to different nodes, as before and after a change in Git.
        let two_pins = [pin("n1", "10.0.0.4/31"), pin("n2", "10.0.0.4/31")];
        let pinned = |settings: Option<&str>| -> Vec<Directory> {
            let documents: Vec<String> = pools().into_iter().chain(settings.map(policy)).collect();
            let with = |pin: &String| {
                Directory::new(&[&documents[..], std::slice::from_ref(pin)].concat())
            };
            two_pins.iter().map(with).collect()
        };
        let spec = pinned(None);
        let annotation = pinned(Some("{writePath: node-annotation, quarantine: 5m}"));
        let cilium_node = pinned(Some("{quarantine: 5m}"));
        let dual_stack = vec![
            Directory::new(&[dual_stack()]),
            Directory::new(&[dual_stack(), two_pins[0].clone()]),
        ];
        let of_applies = vec![
            Setup {
                directories: spec,
                settings: closed.clone(),
            },
            Setup {
                directories: annotation,
                settings: open.clone(),
            },
            Setup {
                directories: dual_stack,
                settings: closed.clone(),
            },
            Setup {
                directories: cilium_node,
                settings: json!({"ipam": "cluster-pool"}),
            },
        ];
        Setups {
            of_applies,
            of_lives: of_lives(closed, open),
            sabotaged: 2,
        }
    }

    /// Those that have each setup of lives alone.
    #[cfg(test)]
    pub(crate) fn of_lives_alone() -> impl Iterator<Item = Setups> {
        let Setups { of_lives, .. } = Setups::new();
        of_lives.into_iter().map(|setup| Setups {
            of_applies: Vec::new(),
            of_lives: vec![setup],
            sabotaged: 1,
        })
    }

    /// One for applies.
    pub(crate) fn choose(&self, rng: &mut Rng) -> &Setup {
        &self.of_applies[rng.usize(..self.of_applies.len())]
    }

    /// One for processes that follow the cluster.
    pub(crate) fn choose_for_life(&self, rng: &mut Rng, sabotage: Sabotage) -> &Setup {
        let setups = match sabotage {
            Sabotage::None => self.of_lives.len(),
            _ => self.sabotaged,
        };
        &self.of_lives[rng.usize(..setups)]
    }
}

fn of_lives(closed: Value, open: Value) -> Vec<Setup> {
    let pins = [pin("n1", "10.0.0.4/30"), pin("n4", "10.0.0.128/30")];
    let setup = |write_path: &str, pins: &[String], settings: Value| {
        let policy = policy(&format!("{{writePath: {write_path}, quarantine: 2h}}"));
        Setup {
            directories: vec![Directory::new(&[&[room(), policy], pins].concat())],
            settings,
        }
    };
    vec![
        setup("node-spec", &[], closed.clone()),
        setup("node-annotation", &[], open),
        setup("node-spec", &pins, closed),
        setup("cilium-node", &pins, json!({"ipam": "cluster-pool"})),
    ]
}

impl Default for Setups {
    fn default() -> Setups {
        Setups::new()
    }
}

impl Directory {
    pub(crate) fn new(documents: &[String]) -> Directory {
        let loaded = check_documents(worlds::documents::directory(documents), Vec::new());
        assert!(!loaded.has_errors(), "{:?}", loaded.findings);
        let pins = loaded
            .desired
            .pins
            .values()
            .map(|pin| (pin.node.clone(), pin.blocks.iter().copied().collect()))
            .collect();
        Directory {
            loaded,
            pins: Arc::new(pins),
        }
    }
}

impl Setup {
    /// Everything but the nodes.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let metadata =
            json!({"name": "cilium", "namespace": "kube-system", "labels": {"k8s-app": "cilium"}});
        let container = json!({"name": "cilium-agent", "image": "quay.io/cilium/cilium:v1.19.3"});
        let config = json!({"name": "cilium-config", "namespace": "kube-system"});
        // It leaves the blocks to others.
        let operator = json!({"name": "cilium-operator", "args": ["--ipam=kubernetes"]});
        let labels = json!({"name": "cilium-operator", "namespace": "kube-system", "labels": {"io.cilium/app": "operator"}});
        vec![
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": labels,
                "spec": {"template": {"spec": {"containers": [operator]}}}}),
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata,
                "spec": {"template": {"spec": {"containers": [container]}}}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": config, "data": self.settings}),
        ]
    }
}

/// A node as its kubelet registers it.
pub(crate) fn node(index: usize, rng: &mut Rng) -> Value {
    let rack = if rng.bool() { "a" } else { "b" };
    json!({"apiVersion": "v1", "kind": "Node", "spec": {}, "metadata": {
        "name": format!("n{index}"), "labels": {"rack": rack}, "creationTimestamp": "2026-01-01T00:00:00Z",
    }})
}
