//! The files and the cluster that a history of a migration starts with.

use fastrand::Rng;
use serde_json::{Value, json};

use super::controllers::{REPLICAS, key_of, pod};
use super::machines::Machine;
use super::people::{Cordon, Wanted};
use super::world::{Ipam, Kind, State};
use crate::setup::Directory;
use ipam_core::net::Block;
use ipam_migrate::migration::MethodChoice;
use worlds::documents::{policy, pool};

/// How nodes move in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Cilium's operator works, too.
    CiliumNodeBesideOperator,
    CiliumNode,
    NodeConfig,
    RecreatedNode,
}

const WAYS: [Way; 4] = [
    Way::CiliumNodeBesideOperator,
    Way::CiliumNode,
    Way::NodeConfig,
    Way::RecreatedNode,
];

/// One or two address families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Families {
    Ipv4,
    Both,
}

/// The files of all ways.
#[derive(Debug)]
pub struct MigrationSetups {
    single: Directory,
    dual: Directory,
}

/// What a seed chose.
#[derive(Clone, Copy)]
pub(super) struct Chosen<'s> {
    pub(super) way: Way,
    pub(super) families: Families,
    pub(super) directory: &'s Directory,
}

/// A node of no pool, which stays: evicted Pods must have a place even if all others are cordoned.
pub(super) const SPARE: &str = "spare";

fn documents(families: Families) -> [String; 3] {
    let of_rack = |rack: &str, number: u32| {
        let (cidrs, size) = match families {
            Families::Ipv4 => (format!("10.{number}.0.0/25"), "28".to_owned()),
            Families::Both => (
                format!("10.{number}.0.0/25, \"fd00:{number}::/61\""),
                "{ipv4: 28, ipv6: 64}".to_owned(),
            ),
        };
        let selector = format!("nodeSelector: {{matchLabels: {{rack: {rack}}}}}");
        pool(
            rack,
            &format!("{{cidrs: [{cidrs}], blockSize: {size}, {selector}}}"),
        )
    };
    let policy = policy("{quarantine: 2m, migration: {maxUnavailable: 2}}");
    [of_rack("a", 1), of_rack("b", 2), policy]
}

impl MigrationSetups {
    /// Reads them.
    ///
    /// # Panics
    /// Files of ours that have faults.
    #[must_use]
    pub fn new() -> MigrationSetups {
        let directory = |families| Directory::new(&documents(families));
        MigrationSetups {
            single: directory(Families::Ipv4),
            dual: directory(Families::Both),
        }
    }

    pub(super) fn choose(&self, rng: &mut Rng) -> Chosen<'_> {
        let families = match rng.u32(..3) {
            0 => Families::Both,
            _ => Families::Ipv4,
        };
        Chosen {
            way: WAYS[rng.usize(..WAYS.len())],
            families,
            directory: match families {
                Families::Ipv4 => &self.single,
                Families::Both => &self.dual,
            },
        }
    }
}

impl Default for MigrationSetups {
    fn default() -> MigrationSetups {
        MigrationSetups::new()
    }
}

impl Chosen<'_> {
    pub(super) fn ipam(&self) -> Ipam {
        match self.way {
            Way::CiliumNodeBesideOperator | Way::CiliumNode => Ipam::ClusterPool,
            Way::NodeConfig | Way::RecreatedNode => Ipam::Kubernetes,
        }
    }

    pub(super) fn method(&self) -> MethodChoice {
        match self.way {
            Way::RecreatedNode => MethodChoice::RecreateNode,
            _ => MethodChoice::Auto,
        }
    }

    /// The old blocks of nodes, and those of rivals, for each family.
    fn blocks(&self, of: u32) -> Vec<Vec<Block>> {
        let numbered = |text: &dyn Fn(u32) -> String, count: u32| -> Vec<Block> {
            (0..count)
                .filter_map(|index| text(index).parse().ok())
                .collect()
        };
        let mut families = vec![numbered(
            &|index| format!("10.{of}.0.{}/28", index * 16),
            match of {
                0 => 16,
                _ => 8,
            },
        )];
        if self.families == Families::Both {
            families.push(numbered(
                &|index| match of {
                    0 => format!("fd00:0:0:{index:x}::/64"),
                    _ => format!("fd00:{of}:0:{index:x}::/64"),
                },
                match of {
                    0 => 16,
                    _ => 8,
                },
            ));
        }
        families
    }

    /// Fills an empty cluster. All nodes have blocks of no pool.
    pub(super) fn fill(&self, state: &mut State) {
        for (kind, name, object) in self.fixed() {
            let _ = state.create(kind, name, object);
        }
        let old = self.blocks(0);
        if self.way == Way::CiliumNodeBesideOperator {
            state.books.families.clone_from(&old);
        }
        let rack = state.rng.u32(1..3);
        state.books.of_rivals = self.blocks(rack);
        state.books.late_bindings = if state.rng.bool() { 300 } else { 0 };
        let nodes = state.rng.usize(2..=4);
        for index in 0..nodes {
            let blocks: Vec<Block> = old.iter().map(|family| family[index + 1]).collect();
            let rack = if state.rng.bool() { "a" } else { "b" };
            let cordon = match state.chance(250) {
                true => Cordon::Yes,
                false => Cordon::No,
            };
            self.node(state, &format!("n{index}"), (rack, cordon), &blocks);
        }
        let blocks: Vec<Block> = old.iter().map(|family| family[nodes + 1]).collect();
        self.node(state, SPARE, ("none", Cordon::No), &blocks);
        state.wanted.remove(SPARE);
        for replica in 0..REPLICAS {
            let pod = pod("web", &format!("web-old-{replica}"), None);
            let _ = state.create(Kind::Pod, &key_of(&pod), pod);
        }
    }

    fn node(
        &self,
        state: &mut State,
        name: &str,
        (rack, cordon): (&str, Cordon),
        blocks: &[Block],
    ) {
        let labels = json!({"rack": rack, "topology.kubernetes.io/zone": rack, "kubernetes.io/hostname": name});
        let texts: Vec<String> = blocks.iter().map(ToString::to_string).collect();
        let mut spec =
            json!({"taints": [{"key": "team", "value": "first", "effect": "NoSchedule"}]});
        if self.ipam() == Ipam::Kubernetes {
            spec["podCIDR"] = json!(texts[0]);
            spec["podCIDRs"] = json!(texts);
        }
        if cordon == Cordon::Yes {
            spec["unschedulable"] = json!(true);
        }
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": {"owner": "shop"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": spec,
        });
        let Ok(version) = state.create(Kind::Node, name, node) else {
            return;
        };
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let _ = state.patch(Kind::Node, name, &ready);
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": version.uid}]);
        let cilium_node = json!({
            "apiVersion": "cilium.io/v2", "kind": "CiliumNode",
            "metadata": {"name": name, "ownerReferences": owner},
            "spec": {"addresses": [{"type": "InternalIP", "ip": "192.0.2.1"}], "ipam": {"podCIDRs": texts}},
        });
        let _ = state.create(Kind::CiliumNode, name, cilium_node);
        let mut agent = pod("agent", &format!("agent-{name}"), Some(name));
        agent["status"] =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let uid = state.create(Kind::Pod, &key_of(&agent), agent);
        let uid = uid.map(|version| version.uid).unwrap_or_default();
        let machine = Machine::running(labels.clone(), uid, blocks.to_vec());
        state.machines.insert(name.to_owned(), machine);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels = labels.as_object().into_iter().flatten();
        let wanted = Wanted {
            labels: labels
                .map(|(key, value)| (key.clone(), text(value)))
                .collect(),
            annotations: [("owner".to_owned(), "shop".to_owned())].into(),
            taints: [("NoSchedule".to_owned(), "first".to_owned())].into(),
            cordon,
        };
        state.wanted.insert(name.to_owned(), wanted);
    }

    fn fixed(&self) -> Vec<(Kind, &'static str, Value)> {
        let mut data = match self.ipam() {
            Ipam::Kubernetes => json!({"ipam": "kubernetes"}),
            Ipam::ClusterPool => json!({
                "ipam": "cluster-pool",
                "cluster-pool-ipv4-cidr": "10.0.0.0/14", "cluster-pool-ipv4-mask-size": "28",
            }),
        };
        if self.families == Families::Both && self.ipam() == Ipam::ClusterPool {
            // A range may be 16 bits shorter than its mask.
            data["cluster-pool-ipv6-cidr"] = json!("fd00::/48 fd00:1::/48 fd00:2::/48 fd00:3::/48");
            data["cluster-pool-ipv6-mask-size"] = json!("64");
        }
        data["enable-ipv4"] = json!("true");
        data["enable-ipv6"] = json!((self.families == Families::Both).to_string());
        let arguments = match self.way {
            Way::CiliumNodeBesideOperator => json!([]),
            _ => json!(["--ipam=kubernetes"]),
        };
        let container = json!({"name": "cilium-agent", "image": "quay.io/cilium/cilium:v1.19.3"});
        let operator = json!({"name": "cilium-operator", "image": "quay.io/cilium/operator-generic:v1.19.3", "args": arguments});
        let manager = json!({"name": "kube-controller-manager", "command": ["kube-controller-manager", "--allocate-node-cidrs=false"]});
        let namespaced = |name: &str, labels: Value| json!({"name": name, "namespace": "kube-system", "labels": labels});
        vec![
            (
                Kind::DaemonSet,
                "cilium",
                json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": namespaced("cilium", json!({"k8s-app": "cilium"})),
                "spec": {"template": {"spec": {"containers": [container]}}}}),
            ),
            (
                Kind::Operator,
                "cilium-operator",
                json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": namespaced("cilium-operator", json!({"io.cilium/app": "operator"})),
                "spec": {"replicas": 1, "template": {"spec": {"containers": [operator]}}}}),
            ),
            (
                Kind::Settings,
                "cilium-config",
                json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": namespaced("cilium-config", json!({})), "data": data}),
            ),
            (
                Kind::ControllerManager,
                "kube-controller-manager",
                json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": namespaced("kube-controller-manager", json!({"component": "kube-controller-manager"})),
                "spec": {"containers": [manager]}}),
            ),
        ]
    }
}
