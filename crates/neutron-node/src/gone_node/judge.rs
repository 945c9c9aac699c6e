//! Decides which ports of a node that is gone may be deleted. What cannot be seen is never taken for
//! gone. Pure.

use std::collections::BTreeSet;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use ipam_core::neutron::Id;
use neutron_cni::Owner;
use openstack::Port;

/// A node that lives may have created a port this recently.
const RECENT: SignedDuration = SignedDuration::from_mins(10);

/// How the ports of VMs begin their `device_owner` (Nova).
const VM: &str = "compute:";

/// The names by which ports may know a Node: its own, and those that the plugin reads from the
/// machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LivingNode {
    pub(super) name: String,
    aliases: BTreeSet<String>,
}

/// What was read.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// Every Node of the cluster.
    pub(super) nodes: Vec<LivingNode>,
    /// Every port of the plugin in the project.
    pub(super) ports: Vec<Port>,
    /// The ports whose `device_id` is the node's name.
    pub(super) of_device: Vec<Port>,
    pub(super) now: Timestamp,
}

/// What may be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) ports: Vec<Port>,
    /// Nodes of the cluster whose ports are in the same project.
    pub(super) recognised: usize,
    /// Ports whose name was too long for Neutron, so that it does not tell the node.
    pub(super) unnamed: usize,
}

ipam_core::text_enum! {
    /// A protection that a person may waive.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum Waiver {
        UnknownNames = "unknown-names",
        RecentPorts = "recent-ports",
    }
}

/// Why nothing may be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NoNodes,
    NodeExists(String),
    VmExists(Id),
    /// No Node of the cluster has ports in this project.
    UnknownNames,
    Recent(Id),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoNodes => {
                write!(f, "the cluster shows no Nodes, so none is known to be gone")
            }
            Refusal::NodeExists(name) => write!(
                f,
                "it is Node {name} of the cluster: drain and delete the Node first. A Node that is not ready may return"
            ),
            Refusal::VmExists(id) => write!(
                f,
                "its VM still exists at OpenStack (port {id}): delete the server first"
            ),
            Refusal::UnknownNames => write!(
                f,
                "no Node of this cluster has ports in this project. The context or the cloud may be another one, or \
                 `node` in the CNI configuration names nodes otherwise. If both are right: --waive {}",
                Waiver::UnknownNames
            ),
            Refusal::Recent(id) => write!(
                f,
                "port {id} was created less than {} minutes ago, or at an unknown time, so the node may live: wait, or \
                 --waive {}",
                RECENT.as_mins(),
                Waiver::RecentPorts
            ),
        }
    }
}

impl LivingNode {
    /// Reads an object of Kubernetes; `None` without a name.
    pub(super) fn read(node: &Value) -> Option<LivingNode> {
        let name = node["metadata"]["name"].as_str()?.to_owned();
        let info = &node["status"]["nodeInfo"];
        let server = node["spec"]["providerID"].as_str().unwrap_or_default();
        let aliases = [
            name.as_str(),
            info["systemUUID"].as_str().unwrap_or_default(),
            info["machineID"].as_str().unwrap_or_default(),
            server.rsplit('/').next().unwrap_or_default(),
        ];
        let aliases = aliases.iter().filter(|alias| !alias.is_empty());
        let aliases = aliases.map(|alias| alias.to_lowercase()).collect();
        Some(LivingNode { name, aliases })
    }

    fn is(&self, node: &str) -> bool {
        self.aliases.contains(&node.to_lowercase())
    }
}

/// The ports to delete for `node`, which is `NODE` or `CLUSTER/NODE`; or everything that forbids it.
pub(super) fn judge(
    node: &str,
    evidence: &Evidence,
    waived: &BTreeSet<Waiver>,
) -> Result<Plan, Vec<Refusal>> {
    let Evidence {
        nodes,
        ports,
        of_device,
        now,
    } = evidence;
    let (cluster, own) = split(node);
    let ours = |port: &&Port| {
        Owner::ALL
            .iter()
            .any(|owner| owner.as_str() == port.device_owner)
    };
    let ports: Vec<&Port> = ports.iter().filter(ours).collect();
    let theirs: BTreeSet<&str> = ports
        .iter()
        .filter_map(|port| node_of(port))
        .map(split)
        .filter(|(prefix, name)| *prefix == cluster && *name != own)
        .map(|(_, name)| name)
        .collect();
    let recognised = nodes
        .iter()
        .filter(|living| theirs.iter().any(|name| living.is(name)))
        .count();
    let of_node: Vec<Port> = ports
        .iter()
        .filter(|port| node_of(port) == Some(node))
        .map(|port| (*port).clone())
        .collect();
    let mut refusals = Vec::new();
    if nodes.is_empty() {
        refusals.push(Refusal::NoNodes);
    }
    let living = nodes.iter().filter(|living| living.is(own));
    refusals.extend(living.map(|living| Refusal::NodeExists(living.name.clone())));
    let vm = of_device
        .iter()
        .find(|port| port.device_owner.starts_with(VM) && port.device_id.eq_ignore_ascii_case(own));
    refusals.extend(vm.map(|port| Refusal::VmExists(port.id.clone())));
    if recognised == 0 && !nodes.is_empty() && !waived.contains(&Waiver::UnknownNames) {
        refusals.push(Refusal::UnknownNames);
    }
    let recent = of_node.iter().find(|port| !is_old(port, *now));
    if !waived.contains(&Waiver::RecentPorts) {
        refusals.extend(recent.map(|port| Refusal::Recent(port.id.clone())));
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    Ok(Plan {
        ports: of_node,
        recognised,
        unnamed: ports.iter().filter(|port| node_of(port).is_none()).count(),
    })
}

/// The planned ports that are still as planned.
pub(super) fn unchanged(plan: &Plan, now: &Plan) -> Vec<Port> {
    let planned = plan.ports.iter();
    planned
        .filter(|port| now.ports.contains(port))
        .cloned()
        .collect()
}

/// The node in a port's name, which is `NODE/NETWORK` or `CLUSTER/NODE/NETWORK`. No part has a slash.
fn node_of(port: &Port) -> Option<&str> {
    let (node, network) = port.name.rsplit_once('/')?;
    let is_node = node.split('/').count() <= 2 && node.split('/').all(|part| !part.is_empty());
    (is_node && !network.is_empty()).then_some(node)
}

/// The cluster and the own name of a node.
fn split(node: &str) -> (Option<&str>, &str) {
    match node.split_once('/') {
        Some((cluster, own)) => (Some(cluster), own),
        None => (None, node),
    }
}

/// Whether a port was created long ago. Neutron writes the time in UTC.
fn is_old(port: &Port, now: Timestamp) -> bool {
    let created: Option<Timestamp> = port.created_at.parse().ok();
    created.is_some_and(|created| now.duration_since(created) >= RECENT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-05-01T12:00:00Z";
    const VM_ID: &str = "9d01b1c6-4a0f-4d4b-8a3c-1f4f5a6b7c8d";

    fn node(name: &str) -> LivingNode {
        LivingNode::read(&json!({"metadata": {"name": name}})).unwrap()
    }

    fn port(number: u8, name: &str, owner: &str) -> Port {
        let id = format!("782ec9ac-44f9-4318-8c67-a2fed2ccca{number:02x}");
        let network = "882ec9ac-44f9-4318-8c67-a2fed2ccca4f";
        serde_json::from_value(json!({
            "id": id, "network_id": network, "name": name, "device_owner": owner,
            "created_at": "2026-05-01T09:00:00Z",
        }))
        .unwrap()
    }

    fn evidence() -> Evidence {
        Evidence {
            nodes: vec![node("n1"), node("n2")],
            ports: vec![
                port(1, "n1/pods", "cilium-ipam:pod"),
                port(2, "gone/pods", "cilium-ipam:pod"),
                port(3, "gone/more", "cilium-ipam:pool"),
                port(4, "gone/pods", "compute:nova"),
                port(5, "gone/n1/pods", "cilium-ipam:pod"),
                port(6, "Gone/pods", "cilium-ipam:pod"),
                port(7, "sha256:abc", "cilium-ipam:pod"),
                port(8, "gone", "cilium-ipam:pod"),
            ],
            of_device: Vec::new(),
            now: NOW.parse().unwrap(),
        }
    }

    fn refused(node: &str, evidence: &Evidence) -> Vec<Refusal> {
        judge(node, evidence, &BTreeSet::new()).unwrap_err()
    }

    #[test]
    fn only_ports_of_exactly_this_node_are_deleted() {
        let plan = judge("gone", &evidence(), &BTreeSet::new()).unwrap();
        let ids: Vec<String> = plan
            .ports
            .iter()
            .map(|port| port.id.to_string().split_off(34))
            .collect();
        assert_eq!(ids, ["02", "03"]);
        assert_eq!((plan.recognised, plan.unnamed), (1, 2));
    }

    #[test]
    fn a_node_that_exists_by_any_of_its_names_is_refused() {
        assert_eq!(
            refused("n1", &evidence())[0],
            Refusal::NodeExists("n1".to_owned())
        );
        for field in [
            json!({"status": {"nodeInfo": {"systemUUID": VM_ID.to_uppercase()}}}),
            json!({"status": {"nodeInfo": {"machineID": VM_ID}}}),
            json!({"spec": {"providerID": format!("openstack:///{VM_ID}")}}),
        ] {
            let mut object = json!({"metadata": {"name": "n3"}});
            object
                .as_object_mut()
                .unwrap()
                .extend(field.as_object().unwrap().clone());
            let mut evidence = evidence();
            evidence.nodes.push(LivingNode::read(&object).unwrap());
            assert_eq!(
                refused(VM_ID, &evidence),
                [Refusal::NodeExists("n3".to_owned())]
            );
            // Of a cluster of another prefix, no Node of this one is known.
            assert!(
                refused(&format!("c/{VM_ID}"), &evidence)
                    .contains(&Refusal::NodeExists("n3".to_owned()))
            );
        }
    }

    #[test]
    fn missing_evidence_is_no_evidence() {
        let mut none = evidence();
        none.nodes.clear();
        assert_eq!(refused("gone", &none), [Refusal::NoNodes]);
        let mut other = evidence();
        other.nodes = vec![node("x")];
        assert_eq!(refused("gone", &other), [Refusal::UnknownNames]);
        let waived = [Waiver::UnknownNames].into();
        assert_eq!(judge("gone", &other, &waived).unwrap().ports.len(), 2);
        assert_eq!(refused("c/gone", &evidence()), [Refusal::UnknownNames]);
    }

    #[test]
    fn a_vm_that_exists_and_a_recent_port_are_refused() {
        let mut vm = evidence();
        vm.of_device = vec![Port {
            device_id: VM_ID.to_owned(),
            ..port(9, "", "compute:nova")
        }];
        assert_eq!(
            refused(VM_ID, &vm),
            [Refusal::VmExists(vm.of_device[0].id.clone())]
        );
        vm.of_device[0].device_owner = "network:dhcp".to_owned();
        assert!(judge(VM_ID, &vm, &BTreeSet::new()).is_ok());
        for created in ["2026-05-01T11:55:00Z", "2026-05-01T13:00:00Z", ""] {
            let mut recent = evidence();
            recent.ports[1].created_at = created.to_owned();
            let id = recent.ports[1].id.clone();
            assert_eq!(refused("gone", &recent), [Refusal::Recent(id)], "{created}");
            let waived = [Waiver::RecentPorts].into();
            assert!(judge("gone", &recent, &waived).is_ok());
        }
    }

    #[test]
    fn a_port_that_changed_since_the_plan_stays() {
        let plan = judge("gone", &evidence(), &BTreeSet::new()).unwrap();
        let mut later = evidence();
        later.ports[1].device_id = "other/eth0".to_owned();
        later.ports.remove(2);
        let again = judge("gone", &later, &BTreeSet::new()).unwrap();
        assert_eq!(unchanged(&plan, &again), []);
        assert_eq!(unchanged(&plan, &plan), plan.ports);
    }
}
