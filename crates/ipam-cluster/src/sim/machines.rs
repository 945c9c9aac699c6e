//! Machines: what runs, whether the cluster shows it or not. A store that goes back in time forgets
//! nodes; their machines run on with what they were given, and tell of it when they are back.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::world::{SimWorld, World, Writer, blocks};
use ipam_cilium::observed::ObservedKind;
use ipam_core::net::Block;

/// One machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// As its kubelet registers it.
    node: Value,
    /// Blocks that its Node or CiliumNode has shown since it booted: its agent may run with any of
    /// them.
    holds: BTreeSet<Block>,
    /// What its agent started with, and publishes.
    runs: Vec<Block>,
}

fn node_key(name: &str) -> (ObservedKind, String) {
    (ObservedKind::Node, name.to_owned())
}

impl SimWorld {
    /// One machine that the cluster has forgotten tells of itself: its kubelet registers, or its
    /// agent publishes what it runs with. Says whether there was one.
    pub fn report_back(&self) -> bool {
        let mut world = self.lock();
        let forgotten: Vec<String> = world
            .machines
            .keys()
            .filter(|name| world.is_forgotten(name))
            .cloned()
            .collect();
        if forgotten.is_empty() {
            return false;
        }
        let index = world.rng.usize(..forgotten.len());
        world.report(&forgotten[index]);
        true
    }

    /// The Node of a machine that is long gone is deleted, as a cloud does. Says whether there was
    /// one.
    pub fn bury(&self) -> bool {
        let mut world = self.lock();
        let is_dead = |(kind, name): &&(ObservedKind, String)| {
            *kind == ObservedKind::Node && !world.machines.contains_key(name)
        };
        let Some(dead) = world.objects.keys().find(is_dead).cloned() else {
            return false;
        };
        world.remove(&dead);
        true
    }

    /// Machines whose Node shows no block, and whose CiliumNode does not either.
    pub fn unserved(&self) -> Vec<String> {
        let world = self.lock();
        let has_none = |name: &&String| {
            let shows = |kind| {
                world
                    .objects
                    .get(&(kind, (*name).clone()))
                    .is_some_and(|object| !blocks(object).is_empty())
            };
            !shows(ObservedKind::Node) && !shows(ObservedKind::CiliumNode)
        };
        world.machines.keys().filter(has_none).cloned().collect()
    }
}

impl World {
    /// A machine boots for the first time under its name, and its kubelet registers it.
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

    /// A machine ends for good, and its Node is deleted.
    pub(super) fn shut_down(&mut self, key: &(ObservedKind, String)) {
        self.machines.remove(&key.1);
        self.remove(key);
    }

    /// Its Node or CiliumNode shows this block from now on.
    pub(super) fn machine_reads(&mut self, name: &str, block: Block) {
        if let Some(machine) = self.machines.get_mut(name) {
            machine.holds.insert(block);
        }
    }

    /// What its CiliumNode shows is used by nobody, and the machine forgets it. Says whether that
    /// is so: an agent that has started with it goes on to use it.
    pub(super) fn machine_lets_go(&mut self, name: &str) -> bool {
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

    /// Its agent has started, with what its CiliumNode shows.
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

    /// Another machine that holds addresses of this block.
    pub(super) fn machine_with(&self, name: &str, block: Block) -> Option<(String, Block)> {
        let others = self.machines.iter().filter(|(other, _)| *other != name);
        let mut held = others.flat_map(|(other, machine)| {
            machine.holds.iter().map(move |held| (other.clone(), *held))
        });
        held.find(|(_, held)| held.overlaps(block))
    }

    fn is_forgotten(&self, name: &str) -> bool {
        !self.objects.contains_key(&node_key(name)) || self.is_agent_unheard(name)
    }

    fn is_agent_unheard(&self, name: &str) -> bool {
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
            }
            None => self.create(json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
                "metadata": {"name": name, "ownerReferences": owner}, "spec": spec})),
        }
    }
}
