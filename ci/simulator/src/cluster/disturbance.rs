//! Changes that others make to a cluster.

use serde_json::{Value, json};

use super::state::{Chance, SimCluster, SimState, Writer, blocks};
use ipam_cilium::observed::ObservedKind;

/// A change of one node, or because of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Its kubelet reports, which moves the resourceVersion.
    Heartbeat,
    /// It is deleted.
    Deletion,
    /// It is deleted, and its kubelet registers it again: another UID under the same name.
    Registration,
    /// Another writer gives it a block that is in no pool.
    Rival,
    /// Its agent starts and writes the CiliumNode: with the block that the Node shows, or with the
    /// blocks that its CiliumNode has.
    AgentStart,
    /// Garbage collection removes the CiliumNode of a deleted Node.
    Collection,
    /// A person deletes its CiliumNode.
    CiliumNodeDeletion,
    /// A write that its client gave up lands.
    LateLanding,
}

impl Disturbance {
    /// Every disturbance.
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

impl SimCluster {
    /// Applies it to a random node.
    pub fn disturb(&self, disturbance: Disturbance) {
        let mut state = self.lock();
        if disturbance == Disturbance::LateLanding {
            let late = state.late.len();
            if late > 0 {
                let index = state.rng.usize(..late);
                let (sender, write) = state.late.swap_remove(index);
                let _ = state.write(&sender, &write);
            }
            return;
        }
        let names: Vec<(ObservedKind, String)> = state
            .objects
            .keys()
            .filter(|(kind, _)| *kind == ObservedKind::Node)
            .cloned()
            .collect();
        if names.is_empty() {
            return;
        }
        let key = names[state.rng.usize(..names.len())].clone();
        let node = state.objects[&key].clone();
        match disturbance {
            Disturbance::Heartbeat => state.heartbeat(key, node),
            Disturbance::Deletion => state.shut_down(&key),
            Disturbance::Registration => state.register_again(&key, &node),
            Disturbance::Rival => state.rival(key, node),
            Disturbance::AgentStart => state.agent_start(&key.1, &node),
            Disturbance::Collection => state.collect(),
            Disturbance::CiliumNodeDeletion => state.delete_cilium_node(key.1),
            Disturbance::LateLanding => {}
        }
    }

    /// A node joins.
    pub fn join(&self, node: Value) {
        self.lock().boot(node);
    }

    /// Every kubelet and every agent reports once.
    pub fn all_report(&self) {
        let mut state = self.lock();
        let of_nodes = |(kind, _): &&(ObservedKind, String)| {
            matches!(kind, ObservedKind::Node | ObservedKind::CiliumNode)
        };
        let nodes: Vec<_> = state.objects.keys().filter(of_nodes).cloned().collect();
        for key in nodes {
            let node = state.objects[&key].clone();
            state.heartbeat(key, node);
        }
    }
}

impl SimState {
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
        if self.chance(self.faults.late_collection) == Chance::Hit {
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
            self.agent_releases(&orphan.1);
            self.remove(&orphan);
        }
    }

    /// Only if no agent has started with it: a running agent writes its CiliumNode again.
    fn delete_cilium_node(&mut self, name: String) {
        let key = (ObservedKind::CiliumNode, name);
        if self.is_cluster_pool() && self.objects.contains_key(&key) && self.agent_releases(&key.1)
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
            let mut spec = agent_spec();
            if !blocks.is_empty() {
                spec["ipam"] = json!({"podCIDRs": blocks});
            }
            self.create(json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": metadata, "spec": spec}));
            self.agent_runs(name);
        } else if self.is_cluster_pool()
            && let Some(mut shown) = self.objects.get(&key).cloned()
            && self.is_owned(&shown)
            && !self.has_running_agent(name)
        {
            // An agent replaces all labels by those of its Node.
            shown["metadata"]["labels"] = node["metadata"]["labels"].clone();
            shown["spec"]["addresses"] = agent_spec()["addresses"].clone();
            self.put(key, shown, Writer::Other);
            self.agent_runs(name);
        }
    }
}

/// What an agent writes into its CiliumNode before it reads its blocks.
fn agent_spec() -> Value {
    json!({"addresses": [{"ip": "192.0.2.1", "type": "InternalIP"}]})
}
