//! A small cluster in every ipam mode, and what happens to its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::super::support::{Folder, cluster, pin, pool};
use ipam_cilium::observed::{Observed, ObservedKind, Reader};
use ipam_config::documents::{Documents, SourceFile, lower};
use ipam_core::model::{NodeName, Severity};
use ipam_core::net::Block;
use ipam_desired::Desired;
use ipam_planner::check;
use ipam_planner::plan::{Change, node_changes};

/// Who gives blocks to nodes beside the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Kubernetes,
    /// Ipam `cluster-pool`, and an operator in another mode.
    ClusterPool,
    /// Ipam `cluster-pool`, and an operator that gives the blocks.
    OperatorGives,
    /// Ipam `cluster-pool`, and an operator that is scaled to zero.
    OperatorStopped,
    MultiPool,
}

pub const MODES: [Mode; 5] = [
    Mode::Kubernetes,
    Mode::ClusterPool,
    Mode::OperatorGives,
    Mode::OperatorStopped,
    Mode::MultiPool,
];

impl Mode {
    pub fn ipam(self) -> &'static str {
        match self {
            Mode::Kubernetes => "kubernetes",
            Mode::ClusterPool | Mode::OperatorGives | Mode::OperatorStopped => "cluster-pool",
            Mode::MultiPool => "multi-pool",
        }
    }

    pub fn settings(self) -> String {
        let ipam = self.ipam();
        format!(
            r#""ipam":"{ipam}","cluster-pool-ipv4-cidr":"10.0.0.0/22","cluster-pool-ipv4-mask-size":"28""#
        )
    }

    pub fn operator(self) -> String {
        let (ipam, replicas) = match self {
            Mode::ClusterPool | Mode::Kubernetes => ("kubernetes", 1),
            Mode::OperatorGives => ("cluster-pool", 1),
            Mode::OperatorStopped => ("cluster-pool", 0),
            Mode::MultiPool => ("multi-pool", 1),
        };
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "cilium-operator", "namespace": "kube-system", "generation": 1,
                "labels": {"io.cilium/app": "operator"}},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [
                {"name": "cilium-operator", "image": "quay.io/cilium/operator-generic:v1.19.3", "args": [format!("--ipam={ipam}")]}]}}},
            "status": {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas}})
        .to_string()
    }
}

/// Blocks 0 to 7 are of pool a, 8 to 15 of pool b, 16 to 19 of the fallback, and 32 of none. Block 33
/// is all of pool a and b.
pub fn block(number: u8) -> String {
    if number == 33 {
        return "10.0.0.0/24".to_owned();
    }
    let address = u32::from(number) * 16;
    format!("10.0.{}.{}/28", address / 256, address % 256)
}

/// An address in a block.
pub fn address(number: u8) -> String {
    let address = u32::from(number) * 16 + 5;
    format!("10.0.{}.{}", address / 256, address % 256)
}

pub fn documents(pins: &BTreeMap<u8, u8>) -> Documents {
    let mut documents = vec![
        pool(
            "a",
            "{cidrs: [10.0.0.0/25], blockSize: 28, nodeSelector: {matchLabels: {rack: a}}, reserved: [10.0.0.48/28]}",
        ),
        pool(
            "b",
            "{cidrs: [10.0.0.128/25], blockSize: 28, nodeSelector: {matchLabels: {rack: b}}}",
        ),
        pool(
            "fallback",
            "{cidrs: [10.0.1.0/26], blockSize: 28, priority: -1, nodeSelector: {matchExpressions: [{key: rack, operator: In, values: [a, c]}]}}",
        ),
    ];
    let pins = pins.iter();
    documents.extend(pins.map(|(node, number)| pin(&format!("n{node}"), &block(*number))));
    Documents {
        files: vec![SourceFile {
            path: "pools.yaml".into(),
            text: documents.join("---\n").into(),
        }],
    }
}

pub fn desired(pins: &BTreeMap<u8, u8>) -> Option<Desired> {
    let (desired, mut findings) = lower(&documents(pins));
    findings.extend(check::files(&desired));
    let is_valid = findings
        .iter()
        .all(|finding| finding.severity != Severity::Error);
    is_valid.then_some(desired)
}

/// The pools and settings that the files ask for in ipam `multi-pool`, as `apply` writes them.
pub fn pod_pools() -> &'static [Value] {
    static OBJECTS: OnceLock<Vec<Value>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let mode = Mode::MultiPool;
        let objects = cluster("1.19.3", &mode.settings(), &[mode.operator()]);
        let files = documents(&BTreeMap::new()).files;
        let folder = Folder::new(&[("pools/a.yaml", &files[0].text), ("cluster.json", &objects)]);
        folder
            .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
            .expect(0);
        let written: Value = serde_json::from_str(&folder.read("cluster.json")).unwrap();
        let items = written["items"].as_array().unwrap().iter();
        let ours = items.filter(|item| {
            matches!(
                item["kind"].as_str(),
                Some("CiliumPodIPPool" | "CiliumNodeConfig")
            )
        });
        let ours: Vec<Value> = ours.cloned().collect();
        assert_eq!(ours.len(), 6, "three pools and three choices");
        ours
    })
}

/// All objects beside nodes.
pub fn fixed_objects(mode: Mode) -> &'static [(ObservedKind, String)] {
    static OBJECTS: [OnceLock<Vec<(ObservedKind, String)>>; MODES.len()] =
        [const { OnceLock::new() }; MODES.len()];
    OBJECTS[mode as usize].get_or_init(|| {
        let objects = cluster("1.19.3", &mode.settings(), &[mode.operator()]);
        let objects: Value = serde_json::from_str(&objects).unwrap();
        let mut items = objects["items"].as_array().unwrap().clone();
        if mode == Mode::MultiPool {
            items.extend(pod_pools().iter().cloned());
        }
        let known = items.iter().filter_map(|item| {
            let kind = match item["kind"].as_str().unwrap() {
                "ConfigMap" => ObservedKind::CiliumConfig,
                "DaemonSet" => ObservedKind::CiliumDaemonSet,
                "Deployment" => ObservedKind::CiliumOperator,
                "ServiceCIDR" => ObservedKind::ServiceCidr,
                "CiliumPodIPPool" => ObservedKind::PodIpPool,
                "CiliumNodeConfig" => ObservedKind::CiliumNodeConfig,
                _ => return None,
            };
            Some((kind, item.to_string()))
        });
        known.collect()
    })
}

/// The Node and the CiliumNode of one name.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// The rack, and the number of the block that an address of the machine lies in.
    pub node: Option<(char, Option<u8>)>,
    pub in_spec: Option<u8>,
    /// Whether there is a CiliumNode, and its block.
    pub cilium_node: Option<Option<u8>>,
    pub version: u32,
}

#[derive(Clone, Debug)]
pub struct World {
    pub mode: Mode,
    pub members: BTreeMap<u8, Member>,
    /// Quarantined blocks: the node and the second at which they are free.
    pub quarantined: BTreeMap<u8, (u8, i64)>,
    pub now: i64,
}

#[derive(Clone, Debug)]
pub enum Operation {
    Join(u8, char, Option<u8>),
    Leave(u8),
    LeaveCiliumNode(u8),
    Relabel(u8, char),
    /// Another writer shows a block.
    ShowInSpec(u8, u8),
    ShowInCiliumNode(u8, Option<u8>),
    Quarantine(u8, u8, i64),
    Wait(i64),
}

impl World {
    /// Returns the name that it changes, if it changes something.
    pub fn change(&mut self, operation: &Operation) -> Option<u8> {
        let name = match *operation {
            Operation::Join(name, ..)
            | Operation::Leave(name)
            | Operation::LeaveCiliumNode(name)
            | Operation::Relabel(name, _)
            | Operation::ShowInSpec(name, _)
            | Operation::ShowInCiliumNode(name, _) => name,
            Operation::Quarantine(number, node, until) => {
                self.quarantined.insert(number, (node, self.now + until));
                return None;
            }
            Operation::Wait(seconds) => {
                self.now += seconds;
                return None;
            }
        };
        let is_multi_pool = self.mode == Mode::MultiPool;
        let member = self.members.entry(name).or_default();
        match *operation {
            Operation::Join(_, rack, machine) if member.node.is_none() => {
                (member.node, member.in_spec) = (Some((rack, machine)), None);
            }
            Operation::Leave(_) => (member.node, member.in_spec) = (None, None),
            Operation::LeaveCiliumNode(_) => member.cilium_node = None,
            Operation::Relabel(_, rack) => {
                member.node = member.node.map(|(_, machine)| (rack, machine));
            }
            Operation::ShowInSpec(_, number) if member.node.is_some() && !is_multi_pool => {
                member.in_spec.get_or_insert(number);
            }
            Operation::ShowInCiliumNode(_, number) => member.cilium_node = Some(number),
            _ => return None,
        }
        member.version += 1;
        Some(name)
    }

    pub fn objects(&self, name: u8) -> Vec<(ObservedKind, Value)> {
        let Some(member) = self.members.get(&name) else {
            return Vec::new();
        };
        let version = member.version.to_string();
        let metadata = json!({"name": format!("n{name}"), "uid": format!("uid-{name}"), "resourceVersion": version});
        let mut objects = Vec::new();
        if let Some((rack, machine)) = member.node {
            let mut metadata = metadata.clone();
            metadata["labels"] = json!({"rack": rack.to_string()});
            metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
            let cidrs: Vec<String> = member.in_spec.map(block).into_iter().collect();
            let machine =
                machine.map(|number| json!({"type": "InternalIP", "address": address(number)}));
            let machine: Vec<Value> = machine.into_iter().collect();
            objects.push((
                ObservedKind::Node,
                json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata,
                "spec": {"podCIDRs": cidrs}, "status": {"addresses": machine}}),
            ));
        }
        if let Some(cidr) = member.cilium_node {
            let cidrs: Vec<String> = cidr.map(block).into_iter().collect();
            let pool = if cidr.is_some_and(|number| number < 8) {
                "a"
            } else {
                "b"
            };
            let ipam = match self.mode {
                Mode::MultiPool => {
                    json!({"pools": {"allocated": [{"pool": pool, "cidrs": cidrs}]}})
                }
                _ => json!({"podCIDRs": cidrs}),
            };
            objects.push((
                ObservedKind::CiliumNode,
                json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
                "metadata": metadata, "spec": {"ipam": ipam}}),
            ));
        }
        objects
    }

    pub fn claims(&self) -> Value {
        let at = |second: i64| jiff::Timestamp::from_second(second).unwrap().to_string();
        let quarantined = self.quarantined.iter().map(|(number, (node, until))| {
            json!({"block": block(*number), "node": format!("n{node}"), "free_at": at(*until)})
        });
        let claims = json!({"format_version": "1.0", "claims": [], "quarantined": quarantined.collect::<Vec<_>>()});
        json!({"metadata": {"uid": "c", "resourceVersion": "1"}, "data": {"claims.json": claims.to_string()}})
    }

    /// The Nodes and CiliumNodes of these names, and the claims.
    pub fn seen(&self, names: &BTreeSet<u8>, mut reader: Reader) -> Observed {
        for (kind, object) in names.iter().flat_map(|name| self.objects(*name)) {
            reader.object(kind, &object.to_string()).unwrap();
        }
        reader
            .object(ObservedKind::Claims, &self.claims().to_string())
            .unwrap();
        reader.finish(jiff::Timestamp::from_second(self.now).unwrap())
    }

    pub fn observed(&self, tombstones: &BTreeSet<Block>) -> Observed {
        let mut reader = Reader::default();
        for (kind, object) in fixed_objects(self.mode) {
            reader.object(*kind, object).unwrap();
        }
        let mut observed = self.seen(&self.members.keys().copied().collect(), reader);
        observed.tombstones.clone_from(tombstones);
        observed
    }

    /// Writes what a plan gives to new nodes.
    pub fn write(&mut self, changes: &[Change]) -> BTreeSet<u8> {
        let given = node_changes(changes);
        let given: Vec<(u8, Block)> = given
            .map(|change| (number(&change.node), change.after[0]))
            .collect();
        for (name, after) in &given {
            let is_it = |number: &u8| block(*number) == after.to_string();
            let number = (0..64).find(is_it).unwrap();
            let mode = self.mode;
            let member = self.members.get_mut(name).unwrap();
            member.version += 1;
            match mode {
                Mode::Kubernetes => member.in_spec = Some(number),
                _ => member.cilium_node = Some(Some(number)),
            }
        }
        given.into_iter().map(|(name, _)| name).collect()
    }

    pub fn shown(&self) -> BTreeSet<u8> {
        let members = self.members.values();
        members
            .flat_map(|member| [member.in_spec, member.cilium_node.flatten()])
            .flatten()
            .collect()
    }
}

pub fn number(name: &NodeName) -> u8 {
    name.as_str()[1..].parse().unwrap()
}

pub fn names(numbers: &BTreeSet<u8>) -> BTreeSet<NodeName> {
    numbers
        .iter()
        .map(|number| format!("n{number}").parse().unwrap())
        .collect()
}
