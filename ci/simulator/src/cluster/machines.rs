//! The machines behind the Nodes. A store that goes back in time forgets Nodes. Their machines keep
//! the blocks that they got, and report them later.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::state::{SimCluster, SimState, Writer, blocks};
use ipam_cilium::observed::ObservedKind;
use ipam_core::net::Block;

#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// The Node that its kubelet registers.
    node: Value,
    /// Blocks that its Node or CiliumNode has shown since it booted. Its agent may use any of them.
    holds: BTreeSet<Block>,
    /// Blocks that its agent started with, and publishes.
    runs: Vec<Block>,
}

fn node_key(name: &str) -> (ObservedKind, String) {
    (ObservedKind::Node, name.to_owned())
}

impl SimCluster {
    /// A forgotten machine reports: its kubelet registers, or its agent publishes its blocks.
    /// Returns whether there was one.
    pub fn report_back(&self) -> bool {
        let mut state = self.lock();
        let forgotten: Vec<String> = state
            .machines
            .keys()
            .filter(|name| state.is_forgotten(name))
            .cloned()
            .collect();
        if forgotten.is_empty() {
            return false;
        }
        let index = state.rng.usize(..forgotten.len());
        state.report(&forgotten[index]);
        true
    }

    /// Deletes the Node of a machine that is gone, as a cloud does. Returns whether there was one.
    pub fn reap_agents(&self) -> bool {
        let mut state = self.lock();
        let is_dead = |(kind, name): &&(ObservedKind, String)| {
            *kind == ObservedKind::Node && !state.machines.contains_key(name)
        };
        let Some(dead) = state.objects.keys().find(is_dead).cloned() else {
            return false;
        };
        state.remove(&dead);
        true
    }

    /// Machines whose Node and CiliumNode show no block.
    pub fn unserved(&self) -> Vec<String> {
        let state = self.lock();
        let has_none = |name: &&String| {
            let shows = |kind| {
                state
                    .objects
                    .get(&(kind, (*name).clone()))
                    .is_some_and(|object| !blocks(object).is_empty())
            };
            !shows(ObservedKind::Node) && !shows(ObservedKind::CiliumNode)
        };
        state.machines.keys().filter(has_none).cloned().collect()
    }
}

impl SimState {
    /// A new machine boots, and its kubelet registers it.
    pub(super) fn boot(&mut self, node: Value) {
        let name = node["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.machines.insert(
            name,
            Machine {
                node: node.clone(),
                holds: BTreeSet::new(),
                runs: Vec::new(),
            },
        );
        self.create(node);
    }

    /// A machine ends, and its Node is deleted.
    pub(super) fn shut_down(&mut self, key: &(ObservedKind, String)) {
        self.machines.remove(&key.1);
        self.remove(key);
    }

    /// The agent reads this block from its Node or CiliumNode.
    pub(super) fn agent_reads(&mut self, name: &str, block: Block) {
        if let Some(machine) = self.machines.get_mut(name) {
            machine.holds.insert(block);
        }
    }

    /// The agent gives up the blocks of its CiliumNode, unless it has started with them. Returns
    /// whether it did.
    pub(super) fn agent_releases(&mut self, name: &str) -> bool {
        let of_node = self
            .objects
            .get(&node_key(name))
            .map(blocks)
            .unwrap_or_default();
        let Some(machine) = self.machines.get_mut(name) else {
            return true;
        };
        if machine.runs.is_empty() {
            machine.holds = of_node.into_iter().collect();
        }
        machine.runs.is_empty()
    }

    /// The agent has not read what its Node and CiliumNode do not show any more, unless it runs with
    /// it.
    pub(super) fn agent_forgets(&mut self, name: &str) {
        let keys =
            [ObservedKind::Node, ObservedKind::CiliumNode].map(|kind| (kind, name.to_owned()));
        let shown = keys.iter().filter_map(|key| self.objects.get(key));
        let shown: BTreeSet<Block> = shown.flat_map(blocks).collect();
        if let Some(machine) = self.machines.get_mut(name) {
            let runs = machine.runs.iter().copied();
            machine.holds = shown.into_iter().chain(runs).collect();
        }
    }

    pub(super) fn has_running_agent(&self, name: &str) -> bool {
        let machine = self.machines.get(name);
        machine.is_some_and(|machine| !machine.runs.is_empty())
    }

    /// The agent starts with the blocks of its CiliumNode.
    pub(super) fn agent_runs(&mut self, name: &str) {
        let shown = self
            .objects
            .get(&(ObservedKind::CiliumNode, name.to_owned()))
            .map(blocks)
            .unwrap_or_default();
        if let Some(machine) = self.machines.get_mut(name) {
            machine.runs = shown;
        }
    }

    /// Another machine that holds addresses of this block, with what it holds.
    pub(super) fn machine_with(&self, name: &str, block: Block) -> Option<(String, Block)> {
        let others = self.machines.iter().filter(|(other, _)| *other != name);
        let mut held = others.flat_map(|(other, machine)| {
            machine.holds.iter().map(move |held| (other.clone(), *held))
        });
        held.find(|(_, held)| held.overlaps(block))
    }

    fn is_forgotten(&self, name: &str) -> bool {
        !self.objects.contains_key(&node_key(name)) || self.is_agent_unreported(name)
    }

    fn is_agent_unreported(&self, name: &str) -> bool {
        let shown = self
            .objects
            .get(&(ObservedKind::CiliumNode, name.to_owned()))
            .map(blocks)
            .unwrap_or_default();
        self.machines
            .get(name)
            .is_some_and(|machine| !machine.runs.is_empty() && machine.runs != shown)
    }

    fn report(&mut self, name: &str) {
        let Some(Machine { node, runs, .. }) = self.machines.get(name).cloned() else {
            return;
        };
        let key = (ObservedKind::CiliumNode, name.to_owned());
        let Some(registered) = self.objects.get(&node_key(name)) else {
            return self.create(node);
        };
        let owner = json!([{"kind": "Node", "name": name, "uid": registered["metadata"]["uid"]}]);
        let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
        let spec = json!({"ipam": {"podCIDRs": runs}});
        match self.objects.get(&key).cloned() {
            Some(mut shown) => {
                shown["metadata"]["ownerReferences"] = owner;
                shown["spec"] = spec;
                self.put(key, shown, Writer::Other);
                self.agent_forgets(name);
            }
            None => self.create(json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
                "metadata": {"name": name, "ownerReferences": owner}, "spec": spec})),
        }
    }
}
