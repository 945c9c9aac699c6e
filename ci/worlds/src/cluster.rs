//! A world as a cluster: its objects, as a file and as it is observed. It decides nothing.

use ipam_cilium::observed::{
    ANNOTATION_IPV4, ANNOTATION_IPV6, CLAIMS_KEY, CLAIMS_NAME, OLD_ANNOTATION_IPV4,
    OLD_ANNOTATION_IPV6, OWNER_LABEL, Observed, ObservedKind, Reader,
};
use serde_json::{Map, Value, json};

use crate::numbers::{ipv4, ipv6};
use crate::objects;
use crate::world::{Agent, ClaimState, Mode, NodeState, Owner, World, name, texts};

/// The keys of annotations, IPv4 first.
const NEWER: [&str; 2] = [ANNOTATION_IPV4, ANNOTATION_IPV6];
const OLDER: [&str; 2] = [OLD_ANNOTATION_IPV4, OLD_ANNOTATION_IPV6];

impl World {
    /// The cluster as a file.
    #[must_use]
    pub fn cluster_file(&self) -> String {
        let items: Vec<String> = self.items().into_iter().map(|(_, item)| item).collect();
        objects::cluster(self.version(), &self.settings(), &items)
    }

    /// The cluster as it is observed.
    ///
    /// # Panics
    /// If an object of ours cannot be read.
    #[must_use]
    pub fn observed(&self) -> Observed {
        let config = objects::config(&self.settings());
        let daemon_set = objects::daemon_set(self.version());
        let fixed = [
            (ObservedKind::CiliumConfig, config),
            (ObservedKind::CiliumDaemonSet, daemon_set),
        ];
        let mut reader = Reader::default();
        for (kind, object) in fixed.into_iter().chain(self.items()) {
            reader.object(kind, &object).expect("an object of a world");
        }
        reader.finish(jiff::Timestamp::UNIX_EPOCH)
    }

    fn version(&self) -> &'static str {
        match self.mode {
            Mode::OldAnnotation => "1.12.3",
            _ => "1.19.3",
        }
    }

    fn settings(&self) -> String {
        let annotate = matches!(self.mode, Mode::Spec { annotate: true } | Mode::Annotation);
        let mode = match self.mode {
            Mode::ClusterPool | Mode::BesideOperator => "cluster-pool",
            _ => "kubernetes",
        };
        // With a range of a family that is off, Cilium's operator does not start.
        let ipv6 = match self.has_ipv6 {
            true => r#","cluster-pool-ipv6-cidr":"fd00::/55","cluster-pool-ipv6-mask-size":"64""#,
            false => "",
        };
        format!(
            r#""ipam":"{mode}","annotate-k8s-node":"{annotate}","enable-ipv6":"{}","cluster-pool-ipv4-cidr":"10.0.0.0/15","cluster-pool-ipv4-mask-size":"26"{ipv6}"#,
            self.has_ipv6
        )
    }

    /// In the order in which they are read.
    fn items(&self) -> Vec<(ObservedKind, String)> {
        let mode = match self.mode {
            Mode::BesideOperator => "cluster-pool",
            _ => "kubernetes",
        };
        let mut items = vec![
            (ObservedKind::Claims, self.claims_object()),
            (ObservedKind::CiliumOperator, objects::operator(mode)),
        ];
        if self.mode == Mode::BesideControllerManager {
            let flags = [
                "--allocate-node-cidrs=true",
                "--cluster-cidr=10.0.0.0/15,fd00::/55",
                "--node-cidr-mask-size-ipv4=26",
            ];
            let controller = objects::controller_manager("cp2", &flags);
            items.push((ObservedKind::ControllerPod, controller));
        }
        let nodes = || self.nodes.iter().enumerate();
        if self.mode == Mode::NodeConfig {
            let configs = nodes().filter_map(|(index, node)| node.node_config(index));
            items.extend(configs.map(|config| (ObservedKind::CiliumNodeConfig, config)));
        }
        let cilium_nodes = nodes().filter_map(|(index, node)| node.cilium_node(index));
        items.extend(cilium_nodes.map(|node| (ObservedKind::CiliumNode, node)));
        items.extend(nodes().map(|(index, node)| (ObservedKind::Node, node.node(index))));
        items
    }

    fn claims_object(&self) -> String {
        let (mut claims, mut quarantined) = (Vec::new(), Vec::new());
        for ((number, is_ipv6), (node, state)) in &self.claims {
            let block = if *is_ipv6 {
                ipv6(*number)
            } else {
                ipv4(*number)
            };
            let node = name(*node);
            let claim = |uid: &str, version: &str| {
                let uid = format!("{uid}-{node}");
                json!({"block": block, "node": node, "uid": uid, "resource_version": version})
            };
            let rest = |until: &str| json!({"block": block, "node": node, "free_at": until});
            match state {
                ClaimState::ForNode => claims.push(claim("uid", "7")),
                ClaimState::ForNodeBefore => claims.push(claim("uid", "6")),
                ClaimState::ForCiliumNode => claims.push(claim("cilium", "7")),
                ClaimState::ForCreation => {
                    claims.push(json!({"block": block, "node": node, "uid": format!("uid-{node}")}))
                }
                ClaimState::ForPredecessor => claims.push(claim("older", "7")),
                ClaimState::Resting => quarantined.push(rest("2999-01-01T00:00:00Z")),
                ClaimState::Rested => quarantined.push(rest("1960-01-01T00:00:00Z")),
            }
        }
        let text = json!({"format_version": "1.0", "claims": claims, "quarantined": quarantined});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CLAIMS_NAME, "namespace": "kube-system",
            "uid": "c", "resourceVersion": "5"}, "data": {CLAIMS_KEY: text.to_string()}})
        .to_string()
    }
}

impl NodeState {
    fn node(&self, index: usize) -> String {
        let name = name(index);
        let mut annotations = Map::new();
        for ((first, second), keys) in [(self.newer, NEWER), (self.older, OLDER)] {
            annotations.extend(first.map(|number| (keys[0].to_owned(), json!(ipv4(number)))));
            annotations.extend(second.map(|number| (keys[1].to_owned(), json!(ipv6(number)))));
        }
        let blocks = texts(self.spec);
        let spec = blocks.first().map_or(
            json!({}),
            |first| json!({"podCIDR": first, "podCIDRs": blocks}),
        );
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations,
            "labels": {"kubernetes.io/hostname": name, "rack": self.rack.to_string()}}, "spec": spec})
        .to_string()
    }

    fn node_config(&self, index: usize) -> Option<String> {
        let (block, name) = (ipv4(self.config?), name(index));
        let (label, value) = OWNER_LABEL;
        let metadata = json!({"name": format!("cilium-ipam-{name}"), "namespace": "kube-system", "uid": format!("config-{name}"),
            "resourceVersion": "7", "labels": {label: value},
            "ownerReferences": [owner(&name, "uid")]});
        let selector = json!({"matchLabels": {"kubernetes.io/hostname": name}});
        let spec = json!({"nodeSelector": selector, "defaults": {"ipv4-range": block}});
        Some(json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig", "metadata": metadata, "spec": spec}).to_string())
    }

    fn cilium_node(&self, index: usize) -> Option<String> {
        let (shown, owned_by) = self.cilium_node?;
        let name = name(index);
        let mut metadata =
            json!({"name": name, "uid": format!("cilium-{name}"), "resourceVersion": "7"});
        match owned_by {
            Owner::Absent => {}
            Owner::Node => metadata["ownerReferences"] = json!([owner(&name, "uid")]),
            Owner::Predecessor => metadata["ownerReferences"] = json!([owner(&name, "older")]),
        }
        let mut spec = json!({"ipam": {"podCIDRs": texts(shown)}});
        if self.agent == Agent::Started {
            spec["addresses"] = json!([{"ip": "192.0.2.1", "type": "InternalIP"}]);
        }
        Some(json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": metadata, "spec": spec}).to_string())
    }
}

/// A reference to the Node, or to an earlier one of its name.
fn owner(node: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": format!("{uid}-{node}")})
}
