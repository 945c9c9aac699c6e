//! People, clouds and rivals: they edit Nodes, nodes join and leave, and machines break.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::machines::{Machine, Power};
use super::setup::SPARE;
use super::world::{Ipam, Kind, State, shown, version_of};
use ipam_core::net::Block;
use ipam_migrate::migration::MIGRATION_ANNOTATION;

/// A Node as the person last left it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    /// Values of the taints `team`, by effect.
    pub(super) taints: BTreeMap<String, String>,
    pub(super) cordon: Cordon,
}

/// Whether the person wants no Pods on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cordon {
    Yes,
    #[default]
    No,
}

impl State {
    /// A person edits one Node.
    pub(super) fn person_edits(&mut self) {
        let Some(name) = self.any_node() else { return };
        let Some(node) = self.get(Kind::Node, &name) else {
            return;
        };
        if !self.wanted.contains_key(&name) {
            return;
        }
        let key = format!("team-{}", self.rng.u32(..3));
        let value = self.chance(600).then(|| self.fresh().to_string());
        let patch = match self.rng.u32(..4) {
            0 => json!({"metadata": {"labels": {key.as_str(): value}}}),
            1 => json!({"metadata": {"annotations": {key.as_str(): value}}}),
            2 => json!({"spec": {"taints": self.edited_taints(&node, value.as_deref())}}),
            _ if node["metadata"]["annotations"][MIGRATION_ANNOTATION].is_null() => {
                let cordon = node["spec"]["unschedulable"] != true;
                json!({"spec": {"unschedulable": cordon.then_some(true)}})
            }
            _ => return,
        };
        self.note(|| format!("a person edits {name}"));
        if self.patch(Kind::Node, &name, &patch).is_ok() {
            self.remember_edit(&name, &patch);
        }
    }

    fn remember_edit(&mut self, name: &str, patch: &Value) {
        let Some(wanted) = self.wanted.get_mut(name) else {
            return;
        };
        for (part, map) in [
            ("labels", &mut wanted.labels),
            ("annotations", &mut wanted.annotations),
        ] {
            let edited = patch["metadata"][part].as_object();
            for (key, value) in edited.into_iter().flatten() {
                match value.as_str() {
                    Some(text) => drop(map.insert(key.clone(), text.to_owned())),
                    None => drop(map.remove(key)),
                }
            }
        }
        if patch["spec"].get("taints").is_some() {
            wanted.taints = team_taints(&patch["spec"]);
        }
        if let Some(cordon) = patch["spec"].get("unschedulable") {
            wanted.cordon = match cordon == true {
                true => Cordon::Yes,
                false => Cordon::No,
            };
        }
    }

    fn edited_taints(&mut self, node: &Value, value: Option<&str>) -> Value {
        let effect = match self.rng.bool() {
            true => "NoSchedule",
            false => "PreferNoSchedule",
        };
        let taints = node["spec"]["taints"].as_array();
        let mut taints: Vec<Value> = taints.cloned().unwrap_or_default();
        taints.retain(|taint| taint["effect"] != effect);
        if let Some(value) = value {
            taints.push(json!({"key": "team", "value": value, "effect": effect}));
        }
        match taints.is_empty() {
            true => Value::Null,
            false => Value::Array(taints),
        }
    }

    fn any_node(&mut self) -> Option<String> {
        let names = self.names(Kind::Node);
        (!names.is_empty()).then(|| names[self.rng.usize(..names.len())].clone())
    }

    /// A machine joins; its kubelet registers it.
    pub(super) fn joins(&mut self, name: &str, rack: &str) {
        let labels = json!({"rack": rack, "topology.kubernetes.io/zone": rack, "kubernetes.io/hostname": name});
        self.machines
            .insert(name.to_owned(), Machine::new(labels.clone()));
        self.register(name);
    }

    /// A starting kubelet registers its Node if the Node does not exist.
    fn register(&mut self, name: &str) {
        let Some(machine) = self.machines.get(name) else {
            return;
        };
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": machine.labels, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {},
        });
        let _ = self.create(Kind::Node, name, node);
    }

    /// A kubelet restarts.
    pub(super) fn kubelet_restarts(&mut self) {
        let names: Vec<String> = self.machines.keys().cloned().collect();
        let name = &names[self.rng.usize(..names.len())];
        if self.machines[name].power == Power::On {
            self.register(name);
        }
    }

    /// A node that joined leaves: its machine is off, and the cloud deletes the Node.
    pub(super) fn leaves(&mut self) {
        let joined = self.names(Kind::Node).into_iter();
        let joined: Vec<String> = joined
            .filter(|name| name != SPARE && !self.wanted.contains_key(name))
            .collect();
        if joined.is_empty() {
            return;
        }
        let name = joined[self.rng.usize(..joined.len())].clone();
        self.note(|| format!("{name} leaves"));
        self.machines.remove(&name);
        self.remove(Kind::Node, &name);
    }

    /// A machine breaks for ever.
    pub(super) fn breaks(&mut self) {
        let names: Vec<String> = self.machines.keys().cloned().collect();
        let name = names[self.rng.usize(..names.len())].clone();
        self.note(|| format!("the machine of {name} breaks"));
        if let Some(machine) = self.machines.get_mut(&name) {
            machine.power = Power::Lost;
        }
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        let _ = self.patch(Kind::Node, &name, &ready);
        self.books.lost.insert(name);
    }

    /// Another program that knows no claims gives a node that joined the first block that is free.
    pub(super) fn rival_writes(&mut self) {
        let name = self.names(Kind::Node).into_iter().find(|name| {
            let node = self.get(Kind::Node, name);
            let cilium_node = self.get(Kind::CiliumNode, name);
            let holds = |object: Option<_>| {
                object.is_some_and(|object: std::sync::Arc<Value>| !shown(&object).is_empty())
            };
            !self.wanted.contains_key(name) && !holds(node) && !holds(cilium_node)
        });
        let Some(name) = name else { return };
        let free = |block: &Block| self.others_with(&name, *block).is_none();
        let wanted = self.books.of_rivals.iter();
        let blocks: Vec<Block> = wanted
            .filter_map(|candidates| candidates.iter().copied().find(free))
            .collect();
        if blocks.len() < self.books.of_rivals.len() {
            return;
        }
        let texts: Vec<String> = blocks.iter().map(ToString::to_string).collect();
        self.note(|| format!("a rival gives {name} {texts:?}"));
        let now = self.now;
        match self.ipam {
            Ipam::Kubernetes => {
                let patch = json!({"spec": {"podCIDR": texts[0], "podCIDRs": texts}});
                let _ = self.patch(Kind::Node, &name, &patch);
            }
            Ipam::ClusterPool => {
                let Some(node) = self.get(Kind::Node, &name) else {
                    return;
                };
                let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": version_of(&node).uid}]);
                let spec = json!({"ipam": {"podCIDRs": texts}});
                let object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name, "ownerReferences": owner}, "spec": spec});
                let _ = match self.get(Kind::CiliumNode, &name) {
                    Some(_) => self.patch(Kind::CiliumNode, &name, &json!({"spec": spec})),
                    None => self.create(Kind::CiliumNode, &name, object),
                };
            }
        }
        for block in blocks {
            self.books.given_by_rivals.insert(block, now);
        }
    }
}

/// The taints of a person, by effect.
pub(super) fn team_taints(spec: &Value) -> BTreeMap<String, String> {
    let taints = spec["taints"].as_array().into_iter().flatten();
    let taints = taints.filter(|taint| taint["key"] == "team");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    taints
        .map(|taint| (text(&taint["effect"]), text(&taint["value"])))
        .collect()
}
