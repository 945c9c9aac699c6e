//! Decides which ports of a node that is gone may be deleted, and reads the command line of `gc`. A
//! port may go if its server is neither a Node of the cluster nor a server of OpenStack. Missing
//! evidence never counts as evidence. Pure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};
use serde_json::Value;

use crate::network_state::port_of;
use ipam_core::neutron::Id;
use neutron_cni::{Owner, RunId};
use openstack::Port;

/// A Node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LivingNode {
    pub(super) name: String,
    /// The server that it is, by its `providerID` and its firmware; at most two, if these differ.
    pub(super) servers: Vec<Id>,
}

/// The Nodes of the cluster and the ports at Neutron on which the decision is based.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// Every Node of the cluster.
    pub(super) nodes: Vec<LivingNode>,
    /// Every port of the plugin in the project.
    pub(super) ports: Vec<Port>,
    /// The ports at OpenStack whose `device_id` is this server, of each server that was asked for.
    pub(super) of_servers: BTreeMap<Id, Vec<Port>>,
}

/// What may be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) ports: Vec<GonePort>,
    /// What stays, with the number of ports.
    pub(super) kept: Vec<(Kept, usize)>,
    /// A Node that shows that this cluster, this project and the ids of servers belong together.
    pub(super) proof: String,
    /// The number of ports whose names are hashes, so that they name no node.
    pub(super) hashed: usize,
}

/// A port of a server that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GonePort {
    pub(super) port: Port,
    pub(super) server: Id,
}

/// Why ports with the name of a node are not deleted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kept {
    /// The port's server is this Node of the cluster.
    Node { server: Id, node: String },
    /// OpenStack shows that the server has this port, so the server exists.
    Server { server: Id, port: Id },
    /// The port's description names no server.
    NoServer,
    /// The port is of another project than the ports of the cluster's Nodes. Neutron shows a project the
    /// ports of others on its networks, and perhaps not their servers.
    OtherProject(String),
}

/// Why no port may be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NoNodes,
    /// Nodes whose server is not known.
    UnknownServers(Vec<String>),
    /// No Node is a server that OpenStack shows and that has ports of the plugin.
    NoProof,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kept::Node { server, node } => {
                write!(f, "its server {server} is Node {node} of the cluster")
            }
            Kept::Server { server, port } => write!(
                f,
                "its server {server} exists at OpenStack (port {port}): delete the server first"
            ),
            Kept::NoServer => write!(f, "the description names no server"),
            Kept::OtherProject(project) => {
                write!(f, "the project is {}", project.escape_debug())
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoNodes => write!(
                f,
                "the cluster shows no Nodes, so it is not known which servers are Nodes"
            ),
            Refusal::UnknownServers(names) => write!(
                f,
                "these Nodes have neither a `systemUUID` nor a `providerID`, so any server may be one of them: {}",
                names.join(", ")
            ),
            Refusal::NoProof => write!(
                f,
                "OpenStack shows no server that is a Node of this cluster and has ports of the plugin. The context or \
                 the cloud may be another one, or these credentials may not see the servers"
            ),
        }
    }
}

impl LivingNode {
    /// Reads an object of Kubernetes; `None` without a name.
    pub(super) fn read(node: &Value) -> Option<LivingNode> {
        let name = node["metadata"]["name"].as_str()?.to_owned();
        // `openstack:///ID` or `openstack://REGION/ID` (cloud-provider-openstack 1.35).
        let provider = node["spec"]["providerID"].as_str().unwrap_or_default();
        let firmware = node["status"]["nodeInfo"]["systemUUID"].as_str();
        let ids = [provider.rsplit('/').next(), firmware];
        let mut servers: Vec<Id> = ids
            .into_iter()
            .flatten()
            .filter_map(|id| id.parse().ok())
            .collect();
        servers.dedup();
        Some(LivingNode { name, servers })
    }
}

impl Evidence {
    /// The servers to ask OpenStack for: first those of the node's ports, then Nodes that have ports.
    pub(super) fn servers(&self, node: &str) -> (Vec<Id>, Vec<Id>) {
        let mut with_ports: Vec<(bool, Id)> = self
            .ports
            .iter()
            .filter_map(|port| Some((node_of(port) == Some(node), server_of(port)?)))
            .collect();
        with_ports.sort();
        with_ports.dedup();
        let (own, others): (Vec<_>, Vec<_>) = with_ports.into_iter().partition(|(own, _)| *own);
        let is_node = |server: &Id| self.nodes.iter().any(|node| node.servers.contains(server));
        let servers = |found: Vec<(bool, Id)>| found.into_iter().map(|(_, server)| server);
        (
            servers(own).collect(),
            servers(others).filter(is_node).collect(),
        )
    }

    /// A port that shows that a server exists.
    pub(super) fn port_of(&self, server: &Id) -> Option<&Port> {
        port_of(self.of_servers.get(server)?, server)
    }

    /// A Node whose server has ports of the plugin and is visible at OpenStack, and their project.
    fn proof(&self) -> Option<(&LivingNode, &str)> {
        let project_of = |server: &Id| {
            self.port_of(server)?;
            let mut ports = self.ports.iter();
            let port = ports.find(|port| server_of(port).as_ref() == Some(server))?;
            Some(port.project_id.as_str()).filter(|project| !project.is_empty())
        };
        let mut nodes = self.nodes.iter();
        nodes.find_map(|node| Some((node, node.servers.iter().find_map(project_of)?)))
    }

    /// The server of a port that may be deleted, or why the port stays.
    fn gone_server(&self, port: &Port, project: &str) -> Result<Id, Kept> {
        let server = server_of(port).ok_or(Kept::NoServer)?;
        if port.project_id != project {
            return Err(Kept::OtherProject(port.project_id.clone()));
        }
        let mut nodes = self.nodes.iter();
        if let Some(node) = nodes.find(|node| node.servers.contains(&server)) {
            let node = node.name.clone();
            return Err(Kept::Node { server, node });
        }
        // A server that was not asked for would be missing evidence.
        let ports = self.of_servers.get(&server).ok_or(Kept::NoServer)?;
        match port_of(ports, &server) {
            Some(port) => Err(Kept::Server {
                server,
                port: port.id.clone(),
            }),
            None => Ok(server),
        }
    }
}

/// The ports to delete for `node`, which is `NODE` or `CLUSTER/NODE` in the names of ports; or
/// everything that forbids it.
pub(super) fn judge(node: &str, evidence: &Evidence) -> Result<Plan, Vec<Refusal>> {
    let mut refusals = Vec::new();
    if evidence.nodes.is_empty() {
        refusals.push(Refusal::NoNodes);
    }
    let unknown = evidence.nodes.iter().filter(|node| node.servers.is_empty());
    let unknown: Vec<String> = unknown.map(|node| node.name.clone()).collect();
    if !unknown.is_empty() {
        refusals.push(Refusal::UnknownServers(unknown));
    }
    let Some((proof, project)) = evidence.proof() else {
        refusals.push(Refusal::NoProof);
        return Err(refusals);
    };
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let mut ports = Vec::new();
    let mut kept: BTreeMap<Kept, usize> = BTreeMap::new();
    for port in evidence
        .ports
        .iter()
        .filter(|port| node_of(port) == Some(node))
    {
        match evidence.gone_server(port, project) {
            Ok(server) => ports.push(GonePort {
                port: port.clone(),
                server,
            }),
            Err(why) => *kept.entry(why).or_default() += 1,
        }
    }
    Ok(Plan {
        ports,
        kept: kept.into_iter().collect(),
        proof: proof.name.clone(),
        hashed: evidence.ports.iter().filter(|port| is_hashed(port)).count(),
    })
}

/// The planned ports that are still as planned.
pub(super) fn unchanged(plan: &Plan, now: &Plan) -> Vec<GonePort> {
    let planned = plan.ports.iter();
    planned
        .filter(|port| now.ports.contains(port))
        .cloned()
        .collect()
}

/// The server in the description of a port of the plugin.
fn server_of(port: &Port) -> Option<Id> {
    RunId::server_of(&port.description)
}

/// The node in the name of a port of the plugin, which is `NODE/NETWORK` or `CLUSTER/NODE/NETWORK`.
/// No part has a slash.
fn node_of(port: &Port) -> Option<&str> {
    let mut owners = Owner::ALL.iter();
    if !owners.any(|owner| owner.as_str() == port.device_owner) {
        return None;
    }
    let (node, network) = port.name.rsplit_once('/')?;
    (!network.is_empty()).then_some(node)
}

/// Whether the name was too long for Neutron.
fn is_hashed(port: &Port) -> bool {
    port.name.starts_with("sha256:")
}

/// The text of `gc --help`.
pub(crate) const HELP: &str = "\
Deletes the Neutron ports of a node that is gone for good. Shows them first, and asks. Deletes no port whose server
is a Node of the cluster or exists at OpenStack. Runs where kubectl and the clouds file are, not on the node.

Usage: neutron-node gc --node NAME [OPTIONS]

      --node NAME           the node as in the names of its ports: NODE, or CLUSTER/NODE
      --dry-run             show the plan only
      --auto-approve        delete without a question
      --context NAME        context of kubectl [the current one]
      --kubectl PATH        the program that lists the Nodes [kubectl]
      --cloud NAME          the cloud [$OS_CLOUD, or the only one]
      --clouds-file FILE    the file with that cloud [$OS_CLIENT_CONFIG_FILE, ./clouds.yaml,
                            ~/.config/openstack/clouds.yaml or /etc/openstack/clouds.yaml]
  -h, --help

Exit codes: 0 done, or nothing to do; 1 failed; 2 invalid arguments; 5 what exists is not known; 7 deleted in part;
8 the cluster could not be read.
";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(super) node: String,
    pub(super) mode: Mode,
    pub(super) context: Option<String>,
    pub(super) kubectl: OsString,
    pub(super) cloud: Option<String>,
    pub(super) clouds_file: Option<PathBuf>,
}

/// What happens after the plan was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Ask,
    Approved,
    DryRun,
}

impl Arguments {
    /// Parses what follows `gc`; `None` for `--help`.
    pub(crate) fn read(parser: &mut Parser) -> Result<Option<Arguments>, lexopt::Error> {
        let mut node = None;
        let mut arguments = Arguments {
            node: String::new(),
            mode: Mode::Ask,
            context: None,
            kubectl: "kubectl".into(),
            cloud: None,
            clouds_file: None,
        };
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Short('h') | Arg::Long("help") => return Ok(None),
                Arg::Long("node") => node = Some(parser.value()?.string()?),
                Arg::Long("dry-run") => arguments.mode = Mode::DryRun,
                Arg::Long("auto-approve") if arguments.mode == Mode::Ask => {
                    arguments.mode = Mode::Approved;
                }
                Arg::Long("auto-approve") => {}
                Arg::Long("context") => arguments.context = Some(parser.value()?.string()?),
                Arg::Long("kubectl") => arguments.kubectl = parser.value()?,
                Arg::Long("cloud") => arguments.cloud = Some(parser.value()?.string()?),
                Arg::Long("clouds-file") => arguments.clouds_file = Some(parser.value()?.into()),
                other => return Err(other.unexpected()),
            }
        }
        let node = node.ok_or("gc requires --node NAME")?;
        if node.split('/').count() > 2 || node.split('/').any(str::is_empty) {
            return Err("--node: expected NODE or CLUSTER/NODE".into());
        }
        Ok(Some(Arguments { node, ..arguments }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIVING: &str = "11111111-4a0f-4d4b-8a3c-1f4f5a6b7c8d";
    const OTHER: &str = "22222222-4a0f-4d4b-8a3c-1f4f5a6b7c8d";
    const GONE: &str = "33333333-4a0f-4d4b-8a3c-1f4f5a6b7c8d";

    fn id(text: &str) -> Id {
        text.parse().unwrap()
    }

    fn node(name: &str, server: &str) -> LivingNode {
        LivingNode::read(
            &json!({"metadata": {"name": name}, "status": {"nodeInfo": {"systemUUID": server}}}),
        )
        .unwrap()
    }

    fn port(number: u8, name: &str, owner: &str, server: Option<&str>) -> Port {
        let port_id = format!("782ec9ac-44f9-4318-8c67-a2fed2ccca{number:02x}");
        let run = RunId::new(u64::from(number), server.map(id).as_ref());
        serde_json::from_value(json!({
            "id": port_id, "network_id": "882ec9ac-44f9-4318-8c67-a2fed2ccca4f", "name": name,
            "device_owner": owner, "description": run.as_str(), "project_id": "p",
        }))
        .unwrap()
    }

    /// A port of a server.
    fn of_server(server: &str) -> Port {
        Port {
            device_id: server.to_owned(),
            ..port(0xf0, "", "compute:nova", None)
        }
    }

    /// `gone` was replaced by a server of the same name. Another cluster has such a node, too.
    fn evidence() -> Evidence {
        Evidence {
            nodes: vec![node("n1", LIVING)],
            ports: vec![
                port(1, "n1/pods", "cilium-ipam:pod", Some(LIVING)),
                port(2, "gone/pods", "cilium-ipam:pod", Some(GONE)),
                port(3, "gone/more", "cilium-ipam:pool", Some(GONE)),
                port(4, "gone/pods", "compute:nova", Some(GONE)),
                port(5, "c/gone/pods", "cilium-ipam:pod", Some(GONE)),
                port(6, "Gone/pods", "cilium-ipam:pod", Some(GONE)),
                port(7, "sha256:abc", "cilium-ipam:pod", Some(GONE)),
                port(8, "gone/pods", "cilium-ipam:pod", Some(OTHER)),
                port(9, "gone/pods", "cilium-ipam:pod", Some(LIVING)),
                port(10, "gone/pods", "cilium-ipam:pod", None),
                Port {
                    project_id: "q".to_owned(),
                    ..port(11, "gone/pods", "cilium-ipam:pod", Some(GONE))
                },
            ],
            of_servers: BTreeMap::from([
                (id(LIVING), vec![of_server(LIVING)]),
                (id(OTHER), vec![of_server(OTHER)]),
                (id(GONE), Vec::new()),
            ]),
        }
    }

    fn planned(evidence: &Evidence) -> Vec<String> {
        let plan = judge("gone", evidence).unwrap();
        let ends = plan.ports.iter();
        ends.map(|gone| gone.port.id.to_string().split_off(34))
            .collect()
    }

    #[test]
    fn only_ports_of_this_name_and_of_a_server_that_is_gone_are_deleted() {
        let evidence = evidence();
        assert_eq!(planned(&evidence), ["02", "03"]);
        let plan = judge("gone", &evidence).unwrap();
        assert_eq!(plan.proof, "n1");
        let at_openstack = Kept::Server {
            server: id(OTHER),
            port: of_server(OTHER).id,
        };
        let in_cluster = Kept::Node {
            server: id(LIVING),
            node: "n1".to_owned(),
        };
        let other_project = Kept::OtherProject("q".to_owned());
        let kept = [
            (in_cluster, 1),
            (at_openstack, 1),
            (Kept::NoServer, 1),
            (other_project, 1),
        ];
        assert_eq!((plan.kept.as_slice(), plan.hashed), (&kept[..], 1));
        assert_eq!(
            evidence.servers("gone"),
            (vec![id(LIVING), id(OTHER), id(GONE)], vec![id(LIVING)])
        );
    }

    #[test]
    fn a_server_that_openstack_shows_in_any_way_exists() {
        let mut evidence = evidence();
        let mut set = |port: Port| {
            evidence.of_servers.insert(id(GONE), vec![port]);
            planned(&evidence)
        };
        let shown = of_server(&GONE.to_uppercase());
        assert_eq!(set(shown.clone()), [""; 0]);
        let zone = "compute:zone-a".to_owned();
        let in_zone = Port {
            device_owner: zone,
            ..shown.clone()
        };
        assert_eq!(set(in_zone), [""; 0]);
        let router = Port {
            device_owner: "network:dhcp".to_owned(),
            ..shown
        };
        assert_eq!(set(router), ["02", "03"]);
        assert_eq!(set(of_server(OTHER)), ["02", "03"]);
        evidence.of_servers.remove(&id(GONE));
        assert_eq!(planned(&evidence), [""; 0], "it was not asked for");
    }

    #[test]
    fn a_node_is_known_by_its_provider_and_by_its_firmware() {
        for object in [
            json!({"metadata": {"name": "n2"}, "spec": {"providerID": format!("openstack:///{GONE}")}}),
            json!({"metadata": {"name": "n2"}, "spec": {"providerID": format!("openstack://region/{GONE}")},
                "status": {"nodeInfo": {"systemUUID": OTHER}}}),
            json!({"metadata": {"name": "n2"}, "status": {"nodeInfo": {"systemUUID": GONE.to_uppercase()}}}),
        ] {
            let mut evidence = evidence();
            evidence.nodes.push(LivingNode::read(&object).unwrap());
            assert_eq!(planned(&evidence), [""; 0], "{object}");
        }
    }

    #[test]
    fn missing_evidence_is_no_evidence() {
        let refused = |change: &dyn Fn(&mut Evidence)| {
            let mut evidence = evidence();
            change(&mut evidence);
            judge("gone", &evidence).unwrap_err()
        };
        let nodes = |nodes: &[LivingNode]| refused(&|evidence| evidence.nodes = nodes.to_vec());
        assert_eq!(nodes(&[]), [Refusal::NoNodes, Refusal::NoProof]);
        let unknown = Refusal::UnknownServers(vec!["n2".to_owned()]);
        assert_eq!(nodes(&[node("n1", LIVING), node("n2", "")]), [unknown]);
        // Another cluster, or another project.
        let stranger = node("n1", "44444444-4a0f-4d4b-8a3c-1f4f5a6b7c8d");
        assert_eq!(nodes(&[stranger]), [Refusal::NoProof]);
        let blind = refused(&|evidence| {
            evidence.of_servers.insert(id(LIVING), Vec::new());
        });
        assert_eq!(blind, [Refusal::NoProof]);
        let no_ports = refused(&|evidence| {
            evidence
                .ports
                .retain(|port| server_of(port) != Some(id(LIVING)));
        });
        assert_eq!(no_ports, [Refusal::NoProof]);
    }

    #[test]
    fn a_port_that_changed_since_the_plan_stays() {
        let plan = judge("gone", &evidence()).unwrap();
        let mut later = evidence();
        later.ports[1].device_id = "other/eth0".to_owned();
        later.ports.remove(2);
        let again = judge("gone", &later).unwrap();
        assert_eq!(unchanged(&plan, &again), []);
        assert_eq!(unchanged(&plan, &plan), plan.ports);
    }
}

#[cfg(test)]
mod arguments_tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Option<Arguments>, lexopt::Error> {
        Arguments::read(&mut Parser::from_args(words))
    }

    #[test]
    fn a_node_is_required_and_a_dry_run_wins() {
        let words = ["--node", "c/n", "--dry-run", "--auto-approve"];
        let arguments = read(&words).unwrap().unwrap();
        assert_eq!(
            (arguments.node.as_str(), arguments.mode),
            ("c/n", Mode::DryRun)
        );
        assert_eq!(read(&["--help"]).unwrap(), None);
        for bad in [
            &[][..],
            &["--node", ""],
            &["--node", "a/b/c"],
            &["--node", "n", "x"],
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
