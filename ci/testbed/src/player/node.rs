//! One node: its agent's Pod, the block that the agent read when it started, and the Pods that have
//! addresses of it. It never reads a block again while the agent's Pod lives.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::hollow::write_block;
use crate::player::block::Block;
use crate::player::{Kubelet, Player, settings};

/// What the player knows of one node.
#[derive(Debug, Default)]
pub(crate) struct NodeState {
    pub(crate) pods: BTreeMap<String, Value>,
    agent: Option<Agent>,
    addresses: BTreeMap<String, Ipv4Addr>,
}

#[derive(Debug)]
struct Agent {
    uid: String,
    name: String,
    block: Option<Block>,
}

impl NodeState {
    /// Whether its agent waits for a block.
    pub(crate) fn waits(&self) -> bool {
        matches!(&self.agent, Some(Agent { block: None, .. }))
    }

    /// Does what there is to do now.
    pub(crate) fn step(&mut self, name: &str, player: &Player) -> Result<()> {
        self.forget_pods(player);
        self.follow_agent(name, player)?;
        let Some(agent) = &mut self.agent else {
            return Ok(());
        };
        if agent.block.is_none() {
            agent.block = start(name, agent, &self.addresses, &self.pods, player)?;
        }
        if let Some(block) = agent.block {
            self.address_pods(block, player)?;
        }
        Ok(())
    }

    fn forget_pods(&mut self, player: &Player) {
        let gone: Vec<String> = self
            .addresses
            .keys()
            .filter(|uid| !self.pods.contains_key(*uid))
            .cloned()
            .collect();
        for uid in gone {
            if let Some(address) = self.addresses.remove(&uid) {
                player.record().pod_ends(&uid, address);
            }
        }
    }

    /// The agent ends when its Pod is being deleted, and starts when its Pod runs.
    fn follow_agent(&mut self, name: &str, player: &Player) -> Result<()> {
        let lives = |uid: &String| self.pods.get(uid).is_some_and(|pod| !is_ending(pod));
        if let Some(agent) = &self.agent
            && !lives(&agent.uid)
        {
            player.record().agent_ends(&agent.uid, player.now());
            if let Kubelet::Hollow(folder) = &player.kubelet {
                write_block(folder, name, None)?;
            }
            self.agent = None;
        }
        if self.agent.is_none() {
            let starts = |pod: &&Value| is_agent(pod) && is_running(pod) && !is_ending(pod);
            self.agent = self.pods.values().find(starts).map(|pod| Agent {
                uid: text(pod, "/metadata/uid").to_owned(),
                name: text(pod, "/metadata/name").to_owned(),
                block: None,
            });
        }
        Ok(())
    }

    fn address_pods(&mut self, block: Block, player: &Player) -> Result<()> {
        let mut taken: BTreeSet<Ipv4Addr> = self.addresses.values().copied().collect();
        for (uid, pod) in &self.pods {
            if self.addresses.contains_key(uid) || is_on_host(pod) || is_ending(pod) {
                continue;
            }
            let address = match &player.kubelet {
                Kubelet::Hollow(_) => text(pod, "/status/podIP").parse().ok(),
                Kubelet::Kwok => block.addresses().find(|address| !taken.contains(address)),
            };
            let Some(address) = address else { continue };
            if matches!(player.kubelet, Kubelet::Kwok) {
                run_pod(pod, address, player)?;
            }
            taken.insert(address);
            self.addresses.insert(uid.clone(), address);
            let name = full_name(pod);
            player.record().pod_gets(uid, &name, address);
            if !block.contains(address) {
                player
                    .record()
                    .strays(text(pod, "/spec/nodeName"), &name, address, block);
            }
        }
        Ok(())
    }
}

/// What the agent does until it answers its plugin; no block if it must wait for one.
fn start(
    node: &str,
    agent: &Agent,
    addresses: &BTreeMap<String, Ipv4Addr>,
    pods: &BTreeMap<String, Value>,
    player: &Player,
) -> Result<Option<Block>> {
    let Some(block) = settings::block(node, player)? else {
        return Ok(None);
    };
    for (uid, &address) in addresses {
        if !block.contains(address) {
            let pod = pods.get(uid).map(full_name).unwrap_or_default();
            player.record().strays(node, &pod, address, block);
        }
    }
    player
        .record()
        .agent_starts(node, &agent.uid, block, player.now());
    if let Kubelet::Hollow(folder) = &player.kubelet {
        write_block(folder, node, Some(&block.to_string()))?;
    }
    say_ready(&agent.name, player)?;
    Ok(Some(block))
}

/// kwok's Pods are ready as soon as the condition says so, a kubelet's once its gate is open.
fn say_ready(agent: &str, player: &Player) -> Result<()> {
    let conditions = match &player.kubelet {
        Kubelet::Kwok => {
            json!([{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}])
        }
        Kubelet::Hollow(_) => json!([{"type": super::AGENT_GATE, "status": "True"}]),
    };
    let path = format!("/api/v1/namespaces/kube-system/pods/{agent}/status");
    unless_gone(
        player
            .client
            .patch_strategic(&path, &json!({"status": {"conditions": conditions}})),
    )
}

fn run_pod(pod: &Value, address: Ipv4Addr, player: &Player) -> Result<()> {
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}/status",
        text(pod, "/metadata/namespace"),
        text(pod, "/metadata/name")
    );
    let ready = |kind: &str| json!({"type": kind, "status": "True"});
    let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [ready("Initialized"), ready("Ready"), ready("ContainersReady")]});
    let uid = text(pod, "/metadata/uid");
    let change = json!({"metadata": {"uid": uid}, "status": status});
    unless_gone(player.client.patch_strategic(&path, &change))
}

/// A Pod may be deleted at any moment.
fn unless_gone(answer: Result<Value>) -> Result<()> {
    match answer {
        Err(error) if !matches!(error.status(), Some(404 | 409)) => Err(error),
        _ => Ok(()),
    }
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn full_name(pod: &Value) -> String {
    format!(
        "{}/{}",
        text(pod, "/metadata/namespace"),
        text(pod, "/metadata/name")
    )
}

fn is_agent(pod: &Value) -> bool {
    text(pod, "/metadata/labels/k8s-app") == "cilium"
        && text(pod, "/metadata/namespace") == "kube-system"
}

fn is_running(pod: &Value) -> bool {
    text(pod, "/status/phase") == "Running"
}

fn is_ending(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some()
}

fn is_on_host(pod: &Value) -> bool {
    pod.pointer("/spec/hostNetwork") == Some(&Value::Bool(true))
}

/// An object that there may be none of.
pub(crate) fn found(answer: Result<Value>) -> Result<Option<Value>> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(Error::Status { status: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
