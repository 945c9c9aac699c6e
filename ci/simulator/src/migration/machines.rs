//! The machines of the nodes: kubelets, agents of Cilium, and containers.
//!
//! An agent reads its block once, when its Pod starts. The machine uses this block until another
//! agent has read another one.

use serde_json::{Value, json};

use super::world::{Ipam, Kind, State, shown, texts};
use ipam_cilium::observed::IGNORE_ANNOTATION;
use ipam_core::net::Block;

/// Whether a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Power {
    On,
    /// It is broken, and never comes back.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    /// It has read its settings.
    Configured,
    /// It has read its block.
    Reading,
    /// It has written its CiliumNode.
    Running,
}

#[derive(Clone, Debug)]
struct Agent {
    pod: String,
    stage: Stage,
    setting: Vec<Block>,
    block: Vec<Block>,
}

/// One machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) power: Power,
    /// What its kubelet registers.
    pub(super) labels: Value,
    agent: Option<Agent>,
    /// The blocks that it uses.
    pub(super) in_use: Vec<Block>,
    addresses: u32,
}

impl Machine {
    pub(super) fn new(labels: Value) -> Machine {
        Machine {
            power: Power::On,
            labels,
            agent: None,
            in_use: Vec::new(),
            addresses: 0,
        }
    }

    /// A machine whose agent runs since long ago.
    pub(super) fn running(labels: Value, pod: String, blocks: Vec<Block>) -> Machine {
        Machine {
            agent: Some(Agent {
                pod,
                stage: Stage::Running,
                setting: Vec::new(),
                block: blocks.clone(),
            }),
            in_use: blocks,
            ..Machine::new(labels)
        }
    }
}

impl State {
    /// What a machine that works does next.
    pub(super) fn machine_works(&mut self, name: &str) {
        let is_on = |state: &State| {
            let machine = state.machines.get(name);
            machine.is_some_and(|machine| machine.power == Power::On)
        };
        if !is_on(self) {
            return;
        }
        self.kubelet_works(name);
        self.agent_works(name);
    }

    /// Ends and starts Pods, and reports.
    fn kubelet_works(&mut self, name: &str) {
        if self.get(Kind::Node, name).is_none() {
            return;
        }
        if self.chance(150) {
            let beat = json!({"status": {"beat": self.now.to_string(), "conditions": [{"type": "Ready", "status": "True"}]}});
            let _ = self.patch(Kind::Node, name, &beat);
        }
        for (key, pod) in self.all(Kind::Pod) {
            if pod["spec"]["nodeName"] != name || self.chance(400) {
                continue;
            }
            let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
            let is_agent = pod["metadata"]["labels"]["k8s-app"] == "cilium";
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                self.end_container(name, uid);
                self.remove(Kind::Pod, &key);
            } else if pod["status"]["phase"] == "Pending" {
                match is_agent {
                    true => self.start_agent(name, &key, uid),
                    false => self.start_pod(name, &key),
                }
            }
        }
    }

    fn end_container(&mut self, name: &str, pod: &str) {
        if let Some(machine) = self.machines.get_mut(name)
            && machine.agent.as_ref().is_some_and(|agent| agent.pod == pod)
        {
            machine.agent = None;
        }
    }

    fn start_agent(&mut self, name: &str, key: &str, uid: &str) {
        if let Some(machine) = self.machines.get_mut(name) {
            machine.agent = Some(Agent {
                pod: uid.to_owned(),
                stage: Stage::Starting,
                setting: Vec::new(),
                block: Vec::new(),
            });
        }
        let _ = self.patch(Kind::Pod, key, &json!({"status": {"phase": "Running"}}));
    }

    /// A Pod gets an address when the agent runs.
    fn start_pod(&mut self, name: &str, key: &str) {
        let Some(machine) = self.machines.get_mut(name) else {
            return;
        };
        let runs = |agent: &Agent| agent.stage == Stage::Running;
        if !machine.agent.as_ref().is_some_and(runs) {
            return;
        }
        machine.addresses += 1;
        let offset = machine.addresses % 12 + 2;
        let Some(block) = machine.in_use.first() else {
            return;
        };
        let address = address_in(*block, offset);
        let status = json!({"status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        let _ = self.patch(Kind::Pod, key, &status);
    }

    fn agent_works(&mut self, name: &str) {
        let Some(agent) = self.machines.get(name).and_then(|one| one.agent.clone()) else {
            return;
        };
        match agent.stage {
            Stage::Starting => {
                let setting = self.setting_of(name);
                self.with_agent(name, |agent| {
                    agent.setting = setting;
                    agent.stage = Stage::Configured;
                });
            }
            Stage::Configured => self.agent_reads(name, &agent),
            Stage::Reading => self.agent_publishes(name, &agent),
            Stage::Running => self.agent_runs(name, &agent),
        }
    }

    fn with_agent(&mut self, name: &str, change: impl FnOnce(&mut Agent)) {
        let machine = self.machines.get_mut(name);
        if let Some(agent) = machine.and_then(|machine| machine.agent.as_mut()) {
            change(agent);
        }
    }

    /// The ranges of a CiliumNodeConfig for this node.
    fn setting_of(&self, name: &str) -> Vec<Block> {
        let config = self.get(Kind::NodeConfig, &format!("cilium-ipam-{name}"));
        config.map(|config| shown(&config)).unwrap_or_default()
    }

    fn agent_reads(&mut self, name: &str, agent: &Agent) {
        let read = match self.ipam {
            Ipam::Kubernetes => {
                let node = self.get(Kind::Node, name);
                let of_node = node.map(|node| shown(&node)).unwrap_or_default();
                match of_node.is_empty() || agent.setting.is_empty() {
                    true => of_node,
                    false => agent.setting.clone(),
                }
            }
            Ipam::ClusterPool => match self.get(Kind::CiliumNode, name) {
                Some(cilium_node) => shown(&cilium_node),
                None => {
                    self.publish(name, &[]);
                    return;
                }
            },
        };
        if read.is_empty() {
            return;
        }
        self.note(|| format!("the agent of {name} reads {read:?}"));
        if let Some(machine) = self.machines.get_mut(name) {
            machine.in_use.clone_from(&read);
        }
        self.with_agent(name, |agent| {
            agent.block = read;
            agent.stage = Stage::Reading;
        });
    }

    fn agent_publishes(&mut self, name: &str, agent: &Agent) {
        let block = match self.ipam {
            Ipam::Kubernetes => agent.block.clone(),
            Ipam::ClusterPool => Vec::new(),
        };
        if !self.publish(name, &block) {
            return;
        }
        let pods = self.all(Kind::Pod).into_iter();
        let own = pods
            .filter(|(_, pod)| pod["metadata"]["uid"] == agent.pod.as_str())
            .map(|(key, _)| key);
        for key in own.collect::<Vec<_>>() {
            let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
            let _ = self.patch(Kind::Pod, &key, &ready);
        }
        self.with_agent(name, |agent| agent.stage = Stage::Running);
    }

    /// A running agent puts its CiliumNode back: with its block, or empty for the operator.
    fn agent_runs(&mut self, name: &str, agent: &Agent) {
        if self.get(Kind::CiliumNode, name).is_some() || !self.chance(120) {
            return;
        }
        match self.ipam {
            Ipam::Kubernetes => self.publish(name, &agent.block.clone()),
            Ipam::ClusterPool => self.publish(name, &[]),
        };
    }

    /// Writes the CiliumNode of an agent. `false` without a Node.
    fn publish(&mut self, name: &str, block: &[Block]) -> bool {
        let Some(node) = self.get(Kind::Node, name) else {
            return false;
        };
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}]);
        let mut spec = json!({"addresses": [{"type": "InternalIP", "ip": "192.0.2.1"}]});
        if !block.is_empty() {
            let texts: Vec<String> = block.iter().map(ToString::to_string).collect();
            spec["ipam"] = json!({"podCIDRs": texts});
        }
        let metadata =
            json!({"name": name, "ownerReferences": owner, "labels": node["metadata"]["labels"]});
        let object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": metadata, "spec": spec});
        let written = match self.get(Kind::CiliumNode, name) {
            Some(_) => self.patch(
                Kind::CiliumNode,
                name,
                &json!({"metadata": {"ownerReferences": owner}, "spec": spec}),
            ),
            None => self.create(Kind::CiliumNode, name, object),
        };
        written.is_ok()
    }

    /// Cilium's operator fills empty CiliumNodes: the lowest block after the last one.
    pub(super) fn operator_works(&mut self) {
        if self.ipam != Ipam::ClusterPool {
            return;
        }
        for (name, cilium_node) in self.all(Kind::CiliumNode) {
            let is_ignored = cilium_node["metadata"]["annotations"][IGNORE_ANNOTATION] == "true";
            let has = !texts(&cilium_node["spec"]["ipam"]["podCIDRs"]).is_empty();
            if has || is_ignored {
                continue;
            }
            let families = self.books.families.clone();
            let given: Vec<String> = (families.iter())
                .filter_map(|range| self.next_of_operator(&range.clone()))
                .collect();
            if given.len() == families.len() {
                self.operator_gave(&name, &given);
                let patch = json!({"spec": {"ipam": {"podCIDRs": given}}});
                let _ = self.patch(Kind::CiliumNode, &name, &patch);
            }
        }
    }

    /// The operator knows no claims, and not what an agent uses whose CiliumNode is gone. A block
    /// of a node that moves may so come to another node, which no migrator can keep it from.
    fn operator_gave(&mut self, name: &str, given: &[String]) {
        let given = given.iter().filter_map(|text| text.parse::<Block>().ok());
        for block in given.collect::<Vec<_>>() {
            let in_use = self.others_with(name, block).is_some();
            if in_use || self.belongs_to_mover(name, block) {
                let now = self.now;
                self.note(|| format!("the operator gives {name} {block}, which a node left"));
                self.books.given_by_rivals.insert(block, now);
                self.books.taken_by_operator += usize::from(in_use);
            }
        }
    }

    fn next_of_operator(&mut self, candidates: &[Block]) -> Option<String> {
        let last = &self.books.last_given;
        let start = candidates.iter().position(|one| last.contains(one));
        let start = start.map_or(0, |place| place + 1);
        let known = self.all(Kind::CiliumNode);
        let taken: Vec<Block> = known.iter().flat_map(|(_, object)| shown(object)).collect();
        let free = |block: &&Block| !taken.iter().any(|one| one.overlaps(**block));
        let in_order = candidates[start..].iter().chain(&candidates[..start]);
        let block = in_order.clone().find(free).copied()?;
        let last = &mut self.books.last_given;
        last.retain(|one| !candidates.contains(one));
        last.push(block);
        Some(block.to_string())
    }
}

fn address_in(block: Block, offset: u32) -> String {
    let base = block.to_string();
    let base = base.split('/').next().unwrap_or_default().to_owned();
    match base.parse() {
        Ok(std::net::IpAddr::V4(address)) => {
            std::net::Ipv4Addr::from(u32::from(address).saturating_add(offset)).to_string()
        }
        Ok(std::net::IpAddr::V6(address)) => {
            std::net::Ipv6Addr::from(u128::from(address).saturating_add(offset.into())).to_string()
        }
        Err(_) => base,
    }
}
