//! What happens to a cluster without our doing.

use serde_json::{Value, json};

use super::world::{Happens, SimWorld, World, Writer, blocks};
use ipam_cilium::observed::ObservedKind;

/// One thing that happens to a node, or because of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Its kubelet reports, which moves the resourceVersion.
    Heartbeat,
    /// It is deleted.
    Deletion,
    /// It is deleted, and its kubelet registers it again: another UID under the same name.
    Registration,
    /// Somebody else writes its blocks, of addresses that are nobody's.
    Rival,
    /// Its agent starts with the block that the Node shows, and says so in the CiliumNode.
    AgentStart,
    /// The CiliumNode of one that is gone is collected.
    Collection,
    /// A person deletes its CiliumNode.
    CiliumNodeDeletion,
    /// A write that was given up lands.
    LateLanding,
}

impl Disturbance {
    /// All of them.
    pub const ALL: [Disturbance; 8] = [
        Disturbance::Heartbeat,
        Disturbance::Deletion,
        Disturbance::Registration,
        Disturbance::Rival,
        Disturbance::AgentStart,
        Disturbance::Collection,
        Disturbance::CiliumNodeDeletion,
        Disturbance::LateLanding,
    ];
}

impl SimWorld {
    /// Lets it happen to some node.
    pub fn disturb(&self, disturbance: Disturbance) {
        let mut world = self.lock();
        if disturbance == Disturbance::LateLanding {
            let late = world.late.len();
            if late > 0 {
                let index = world.rng.usize(..late);
                let (sender, write) = world.late.swap_remove(index);
                let _ = world.write(&sender, &write);
            }
            return;
        }
        let names: Vec<(ObservedKind, String)> = world
            .objects
            .keys()
            .filter(|(kind, _)| *kind == ObservedKind::Node)
            .cloned()
            .collect();
        if names.is_empty() {
            return;
        }
        let key = names[world.rng.usize(..names.len())].clone();
        let node = world.objects[&key].clone();
        match disturbance {
            Disturbance::Heartbeat => world.heartbeat(key, node),
            Disturbance::Deletion => world.shut_down(&key),
            Disturbance::Registration => world.register_again(&key, &node),
            Disturbance::Rival => world.rival(key, node),
            Disturbance::AgentStart => world.agent_start(&key.1, &node),
            Disturbance::Collection => world.collect(),
            Disturbance::CiliumNodeDeletion => world.delete_cilium_node(key.1),
            Disturbance::LateLanding => {}
        }
    }

    /// A node joins.
    pub fn join(&self, node: Value) {
        self.lock().boot(node);
    }

    /// Every kubelet reports once, as all do every few minutes, and every agent.
    pub fn all_report(&self) {
        let mut world = self.lock();
        let of_nodes = |(kind, _): &&(ObservedKind, String)| {
            matches!(kind, ObservedKind::Node | ObservedKind::CiliumNode)
        };
        let nodes: Vec<_> = world.objects.keys().filter(of_nodes).cloned().collect();
        for key in nodes {
            let node = world.objects[&key].clone();
            world.heartbeat(key, node);
        }
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.lock()
            .objects
            .keys()
            .filter(|(kind, _)| *kind == ObservedKind::Node)
            .count()
    }
}

impl World {
    fn heartbeat(&mut self, key: (ObservedKind, String), mut node: Value) {
        node["status"]["heartbeat"] = json!(self.version);
        self.put(key, node, Writer::Other);
    }

    fn register_again(&mut self, key: &(ObservedKind, String), node: &Value) {
        self.shut_down(key);
        let metadata = json!({
            "name": key.1,
            "labels": node["metadata"]["labels"],
            "creationTimestamp": node["metadata"]["creationTimestamp"],
        });
        self.boot(json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}}));
    }

    fn rival(&mut self, key: (ObservedKind, String), mut node: Value) {
        if blocks(&node).is_empty() {
            let block = format!("172.16.{}.0/24", self.version % 256);
            node["spec"] = json!({"podCIDR": block, "podCIDRs": [block]});
            self.put(key, node, Writer::Other);
        }
    }

    fn collect(&mut self) {
        if self.happens(self.faults.late_collection) == Happens::Now {
            return;
        }
        let is_orphan = |(key, object): &(&(ObservedKind, String), &Value)| {
            key.0 == ObservedKind::CiliumNode && !self.is_owned(object)
        };
        if let Some(orphan) = self
            .objects
            .iter()
            .find(is_orphan)
            .map(|(key, _)| key.clone())
        {
            self.machine_lets_go(&orphan.1);
            self.remove(&orphan);
        }
    }

    /// Only where no agent has started with it: elsewhere it puts back what it has.
    fn delete_cilium_node(&mut self, name: String) {
        let key = (ObservedKind::CiliumNode, name);
        if self.is_cluster_pool() && self.objects.contains_key(&key) && self.machine_lets_go(&key.1)
        {
            self.remove(&key);
        }
    }

    fn agent_start(&mut self, name: &str, node: &Value) {
        let key = (ObservedKind::CiliumNode, name.to_owned());
        let blocks: Vec<String> = blocks(node).iter().map(ToString::to_string).collect();
        if (!blocks.is_empty() || self.is_cluster_pool()) && !self.objects.contains_key(&key) {
            let owner = json!([{"kind": "Node", "name": name, "uid": node["metadata"]["uid"]}]);
            let metadata = json!({"name": name, "ownerReferences": owner});
            self.create(json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": metadata,
                "spec": if blocks.is_empty() { json!({}) } else { json!({"ipam": {"podCIDRs": blocks}}) }}));
            self.agent_runs(name);
        }
    }
}
