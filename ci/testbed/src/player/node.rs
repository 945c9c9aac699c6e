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
            if let Some(pod) = self.pods.get(&agent.uid) {
                keep_ready(pod, player)?;
            }
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
                block: None,
            });
        }
        Ok(())
    }

    fn address_pods(&mut self, block: Block, player: &Player) -> Result<()> {
        let mut taken: BTreeSet<Ipv4Addr> = self.addresses.values().copied().collect();
        for (uid, pod) in &self.pods {
            if is_on_host(pod) || is_ending(pod) {
                continue;
            }
            if let Some(&address) = self.addresses.get(uid) {
                keep_running(pod, address, player)?;
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
    Ok(Some(block))
}

/// Says that an agent with a block is ready, again if a late write of kwok took it back. kwok's Pods
/// are ready as soon as the condition says so, a kubelet's once its gate is open.
fn keep_ready(agent: &Value, player: &Player) -> Result<()> {
    let (shows, conditions) = match &player.kubelet {
        Kubelet::Kwok => (
            "Ready",
            json!([{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]),
        ),
        Kubelet::Hollow(_) => (
            super::AGENT_GATE,
            json!([{"type": super::AGENT_GATE, "status": "True"}]),
        ),
    };
    if has_condition(agent, shows) {
        return Ok(());
    }
    write_status(agent, json!({"conditions": conditions}), player)
}

/// As [`keep_ready`], for a Pod that has an address. A kubelet needs no help.
fn keep_running(pod: &Value, address: Ipv4Addr, player: &Player) -> Result<()> {
    let runs = is_running(pod) && has_condition(pod, "Ready");
    let has_address = text(pod, "/status/podIP") == address.to_string();
    match &player.kubelet {
        Kubelet::Kwok if !(runs && has_address) => run_pod(pod, address, player),
        _ => Ok(()),
    }
}

fn has_condition(pod: &Value, kind: &str) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let holds = |one: &Value| one["type"] == kind && one["status"] == "True";
    conditions.is_some_and(|all| all.iter().any(holds))
}

/// A kubelet says now and then that a Pod is ready while the rest of its status still is from before
/// its sandbox: phase `Pending`, no address (seen with kubelets 1.36, a moment each time).
pub(crate) fn lacks_address(pod: &Value) -> bool {
    has_condition(pod, "Ready") && text(pod, "/status/podIP").is_empty()
}

fn run_pod(pod: &Value, address: Ipv4Addr, player: &Player) -> Result<()> {
    let ready = |kind: &str| json!({"type": kind, "status": "True"});
    let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [ready("Initialized"), ready("Ready"), ready("ContainersReady")]});
    write_status(pod, status, player)
}

/// The Pod may be deleted at any moment, and another may get its name.
fn write_status(pod: &Value, status: Value, player: &Player) -> Result<()> {
    let namespace = text(pod, "/metadata/namespace");
    let name = text(pod, "/metadata/name");
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let uid = text(pod, "/metadata/uid");
    let change = json!({"metadata": {"uid": uid}, "status": status});
    let answer = player
        .client
        .patch_strategic(&format!("{path}/status"), &change);
    match answer {
        Err(error) if error.status() == Some(404) => Ok(()),
        // Another Pod of this name, or another writer was faster.
        Err(error) if error.status() == Some(409) => match found(player.client.get(&path))? {
            Some(now) if text(&now, "/metadata/uid") == uid => Err(error),
            _ => Ok(()),
        },
        answer => answer.map(|_| ()),
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
