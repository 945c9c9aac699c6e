//! A whole cluster in racks, for tests that take nodes out of it: Nodes on blocks of one flat range,
//! agents of Cilium as a DaemonSet, and in each rack a Deployment with a budget.
//!
//! The control plane, its controllers, the scheduler and Cilium's operator are real. Agents are
//! [played](crate::AgentPlayers). It knows nothing of the pools that a test moves the nodes to.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cilium::{CiliumInstallation, install_cilium};
use crate::control_plane::{BorrowedControlPlane, ControlPlane, Options};
use crate::error::{Error, Result};
use crate::hollow::{HollowKubelets, HollowNode};
use crate::kwok::Kubelets;
use crate::operator::{ControllerManager, Operator};
use crate::player::{AGENT_GATE, AgentPlayers, Block, PlayedIpam, lacks_address};
use crate::programs::{CiliumVersion, Program, Programs, build};
use crate::scheduler::Scheduler;
use crate::wait::{PATIENCE, wait_until};

const NODES: &str = "/api/v1/nodes";
const AGENTS: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/cilium";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
const CONNECTIONS: usize = 16;

/// What runs the Nodes' Pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KubeletKind {
    /// kwok: for hundreds of Nodes.
    Kwok,
    /// Kubernetes' own kubelets, a process each.
    Hollow,
}

/// Where all Nodes' blocks come from at first.
#[derive(Debug, Clone)]
pub struct FlatBlocks {
    /// The range, for example `10.10.0.0/16`.
    pub range: String,
    /// The prefix length of each Node's block.
    pub size: u8,
}

/// How the cluster is built.
#[derive(Debug, Clone)]
pub struct RackOptions {
    /// How many Nodes, `worker-0` and so on.
    pub nodes: usize,
    /// How many racks, `rack: r0` and so on in turn.
    pub racks: usize,
    /// How many Pods of a rack's Deployment there are for each of its Nodes.
    pub pods_per_node: usize,
    /// How many of a rack's Pods may be absent: its budget's `minAvailable` is all others.
    pub disruptions: usize,
    /// What runs Pods.
    pub kubelets: KubeletKind,
    /// Where agents get blocks.
    pub ipam: PlayedIpam,
    /// The release of Cilium that its traces tell, and its operator's in `cluster-pool`.
    pub version: CiliumVersion,
    /// The blocks.
    pub flat: FlatBlocks,
}

impl Default for RackOptions {
    fn default() -> Self {
        Self {
            nodes: 12,
            racks: 3,
            pods_per_node: 3,
            disruptions: 3,
            kubelets: KubeletKind::Kwok,
            ipam: PlayedIpam::Kubernetes(crate::oracle::AnnotateK8sNode::Off),
            version: CiliumVersion::V1_19,
            flat: FlatBlocks {
                range: "10.10.0.0/16".to_owned(),
                size: 24,
            },
        }
    }
}

/// The kubelets of a [`RackCluster`].
#[derive(Debug)]
pub enum RackKubelets {
    /// Of all Nodes.
    Kwok(Kubelets),
    /// One each.
    Hollow(HollowKubelets),
}

/// A running cluster. Dropping it stops everything.
#[derive(Debug)]
pub struct RackCluster {
    // Dropped in this order.
    /// The agents.
    pub agents: AgentPlayers,
    /// Cilium's operator, in `cluster-pool`.
    pub operator: Option<Operator>,
    /// The kubelets.
    pub kubelets: RackKubelets,
    /// kube-scheduler.
    pub scheduler: Scheduler,
    /// kube-controller-manager.
    pub controllers: ControllerManager,
    /// etcd and the API server.
    pub plane: BorrowedControlPlane,
    /// All programs that run, and kubectl.
    pub programs: Programs,
}

impl RackCluster {
    /// Starts it, and returns once each agent has a block and all Pods are ready. Starts it anew once
    /// if that takes too long: it happens now and then on a busy machine, and the cause is unknown.
    ///
    /// # Errors
    /// Fails if a program does not build or does not get ready.
    pub fn start(options: &RackOptions) -> Result<Self> {
        match Self::start_once(options) {
            Err(error @ Error::Timeout { .. }) => {
                eprintln!("testbed: a cluster in racks starts anew after {error}");
                Self::start_once(options)
            }
            outcome => outcome,
        }
    }

    fn start_once(options: &RackOptions) -> Result<Self> {
        let programs = build(&programs(options))?;
        let plane = BorrowedControlPlane::new(&programs, plane_options(options))?;
        install(&plane, options)?;
        let controllers = ControllerManager::start_for_workloads(&programs, &plane)?;
        let scheduler = Scheduler::start(&programs, &plane)?;
        let operator = start_operator(&programs, &plane, options)?;
        let kubelets = start_kubelets(&programs, &plane, options)?;
        let agents = match &kubelets {
            RackKubelets::Kwok(_) => AgentPlayers::on_kwok(plane.client(), options.ipam),
            RackKubelets::Hollow(all) => AgentPlayers::on_hollow(plane.client(), options.ipam, all),
        };
        let cluster = Self {
            agents,
            operator,
            kubelets,
            scheduler,
            controllers,
            plane,
            programs,
        };
        if let Err(error) = cluster.agents.wait_for(options.nodes) {
            eprintln!("testbed: {error}{}", cluster.progress());
            return Err(error);
        }
        deploy(&cluster.plane, options)?;
        cluster.wait_ready()?;
        Ok(cluster)
    }

    /// How far the agents have come, in one line.
    fn progress(&self) -> String {
        let list = |path: &str| self.plane.list(path).unwrap_or_default();
        let phases = list("/api/v1/namespaces/kube-system/pods");
        let phases: Vec<String> = phases
            .iter()
            .map(|pod| pod["status"]["phase"].to_string())
            .collect();
        let has_block = |node: &&Value| node["spec"]["ipam"]["podCIDRs"].is_array();
        let cilium_nodes = list(CILIUM_NODES);
        let daemon_set = self.plane.get(AGENTS).unwrap_or_default();
        format!(
            "; {} Nodes, {} CiliumNodes, {} of them with a block, agents {}, their Pods {phases:?}",
            list(NODES).len(),
            cilium_nodes.len(),
            cilium_nodes.iter().filter(has_block).count(),
            daemon_set["status"],
        )
    }

    /// Waits until all agents and all Pods of Deployments are ready, Pods that are ready have an
    /// address, and the budgets know it.
    ///
    /// # Errors
    /// Fails when they are not in time.
    pub fn wait_ready(&self) -> Result<()> {
        wait_until("all Pods to be ready", PATIENCE, || {
            let agents = self.plane.get(AGENTS)?;
            let deployments = self.plane.list(DEPLOYMENTS)?;
            let budgets = self.plane.list(BUDGETS)?;
            let is_ready = count(&agents, "/status/numberReady")
                == count(&agents, "/status/desiredNumberScheduled")
                && deployments.iter().all(deployment_is_ready)
                && budgets.iter().all(budget_is_full)
                && !self.plane.list(PODS)?.iter().any(lacks_address);
            Ok(is_ready.then_some(()))
        })
    }

    /// The hollow kubelets.
    ///
    /// # Errors
    /// Fails if kwok plays the kubelets.
    pub fn hollow(&mut self) -> Result<&mut HollowKubelets> {
        match &mut self.kubelets {
            RackKubelets::Hollow(kubelets) => Ok(kubelets),
            RackKubelets::Kwok(_) => Err(Error::missing("a kubelet", "kwok plays all of them")),
        }
    }
}

/// The name of a Node.
fn name(index: usize) -> String {
    format!("worker-{index}")
}

fn rack(index: usize, options: &RackOptions) -> String {
    format!("r{}", index % options.racks)
}

fn programs(options: &RackOptions) -> Vec<Program> {
    let mut all = vec![
        Program::KubeApiserver,
        Program::Etcd,
        Program::Kubectl,
        Program::KubeControllerManager,
        Program::KubeScheduler,
    ];
    all.push(match options.kubelets {
        KubeletKind::Kwok => Program::Kwok,
        KubeletKind::Hollow => Program::HollowKubelet,
    });
    if options.ipam == PlayedIpam::ClusterPool {
        all.push(Program::CiliumOperator(options.version));
    }
    all
}

fn plane_options(options: &RackOptions) -> Options {
    let names: Vec<String> = (0..options.nodes).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let of_kubelets = match options.kubelets {
        KubeletKind::Kwok => Options::default(),
        KubeletKind::Hollow => HollowKubelets::options(&names),
    };
    Options {
        crds: Some(options.version.release().to_owned()),
        ..of_kubelets
    }
}

/// Cilium's traces, with agents that tolerate everything, as its chart has it.
fn install(plane: &ControlPlane, options: &RackOptions) -> Result<()> {
    let (ipam, annotate) = match options.ipam {
        PlayedIpam::Kubernetes(annotate) => ("kubernetes", Some(annotate)),
        PlayedIpam::ClusterPool => ("cluster-pool", None),
    };
    let mut config = BTreeMap::new();
    if options.ipam == PlayedIpam::ClusterPool {
        let FlatBlocks { range, size } = &options.flat;
        config.insert("cluster-pool-ipv4-cidr".to_owned(), range.clone());
        config.insert("cluster-pool-ipv4-mask-size".to_owned(), size.to_string());
    }
    let installation = CiliumInstallation {
        version: options.version.release().to_owned(),
        ipam: ipam.to_owned(),
        annotate_k8s_node: annotate,
        config,
    };
    install_cilium(plane, &installation)?;
    let mut spec = json!({"tolerations": [{"operator": "Exists"}]});
    if options.kubelets == KubeletKind::Hollow {
        spec["readinessGates"] = json!([{"conditionType": AGENT_GATE}]);
    }
    let update = json!({"rollingUpdate": {"maxUnavailable": 2}});
    let change = json!({"spec": {"template": {"spec": spec}, "updateStrategy": update}});
    plane.patch(AGENTS, &change).map(drop)
}

fn start_operator(
    programs: &Programs,
    plane: &ControlPlane,
    options: &RackOptions,
) -> Result<Option<Operator>> {
    if options.ipam != PlayedIpam::ClusterPool {
        return Ok(None);
    }
    let FlatBlocks { range, size } = &options.flat;
    let range = format!("--cluster-pool-ipv4-cidr={range}");
    let size = format!("--cluster-pool-ipv4-mask-size={size}");
    let flags = ["--ipam=cluster-pool", "--enable-ipv6=false", &range, &size];
    Operator::start(programs, plane, options.version, &flags).map(Some)
}

fn start_kubelets(
    programs: &Programs,
    plane: &ControlPlane,
    options: &RackOptions,
) -> Result<RackKubelets> {
    let flat: Block = options
        .flat
        .range
        .parse()
        .map_err(|why| Error::unreadable("the flat range", why))?;
    let blocks: Vec<Option<Block>> = match options.ipam {
        PlayedIpam::Kubernetes(_) => flat.split(options.flat.size).map(Some).collect(),
        PlayedIpam::ClusterPool => vec![None; options.nodes],
    };
    match options.kubelets {
        KubeletKind::Kwok => {
            let nodes: Vec<Value> = (0..options.nodes)
                .map(|index| kwok_node(index, blocks.get(index).copied().flatten(), options))
                .collect();
            plane.create_many(NODES, &nodes, CONNECTIONS)?;
            Kubelets::start_fleet(programs, plane).map(RackKubelets::Kwok)
        }
        KubeletKind::Hollow => {
            let nodes: Vec<HollowNode> = (0..options.nodes)
                .map(|index| hollow_node(index, options))
                .collect();
            let kubelets = HollowKubelets::start(programs, plane, &nodes)?;
            for (node, block) in nodes.iter().zip(blocks) {
                let Some(block) = block else { continue };
                let spec = json!({"podCIDR": block.to_string(), "podCIDRs": [block.to_string()]});
                plane.patch(&format!("{NODES}/{}", node.name), &json!({"spec": spec}))?;
            }
            Ok(RackKubelets::Hollow(kubelets))
        }
    }
}

fn kwok_node(index: usize, block: Option<Block>, options: &RackOptions) -> Value {
    let name = name(index);
    let mut spec = json!({"providerID": format!("testbed://{name}")});
    if let Some(block) = block {
        spec["podCIDR"] = json!(block.to_string());
        spec["podCIDRs"] = json!([block.to_string()]);
    }
    let address = format!("172.16.{}.{}", index / 250, index % 250 + 1);
    let room = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "rack": rack(index, options)},
            "annotations": {"testbed/note": "kept"}},
        "spec": spec,
        "status": {"capacity": room, "allocatable": room,
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]},
    })
}

fn hollow_node(index: usize, options: &RackOptions) -> HollowNode {
    let name = name(index);
    HollowNode {
        provider_id: format!("testbed://{name}"),
        labels: [("rack".to_owned(), rack(index, options))].into(),
        taints: Vec::new(),
        name,
    }
}

fn deploy(plane: &ControlPlane, options: &RackOptions) -> Result<()> {
    for index in 0..options.racks {
        let rack = format!("r{index}");
        let nodes = (0..options.nodes).filter(|node| node % options.racks == index);
        let replicas = nodes.count() * options.pods_per_node;
        plane.create(DEPLOYMENTS, &deployment(&rack, replicas))?;
        let selector = json!({"matchLabels": {"app": format!("app-{rack}")}});
        let spec = json!({"minAvailable": replicas - options.disruptions, "selector": selector});
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("app-{rack}")}, "spec": spec});
        plane.create(BUDGETS, &budget)?;
    }
    Ok(())
}

fn deployment(rack: &str, replicas: usize) -> Value {
    let name = format!("app-{rack}");
    let labels = json!({"app": name});
    let spread = json!({"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": labels}});
    let spec = json!({"nodeSelector": {"rack": rack}, "topologySpreadConstraints": [spread],
        "automountServiceAccountToken": false, "containers": [{"name": "app", "image": "app"}]});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec}}})
}

fn count(object: &Value, pointer: &str) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

fn deployment_is_ready(deployment: &Value) -> bool {
    count(deployment, "/status/readyReplicas") == count(deployment, "/spec/replicas")
}

fn budget_is_full(budget: &Value) -> bool {
    count(budget, "/status/currentHealthy") == count(budget, "/status/expectedPods")
        && count(budget, "/status/disruptionsAllowed") > 0
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Prints what the processes of a cluster took to come up.
    fn figures(options: &RackOptions) {
        let start = Instant::now();
        let cluster = RackCluster::start(options).unwrap();
        let ready = start.elapsed();
        let pods = cluster.plane.list("/api/v1/pods").unwrap().len();
        let controllers = &cluster.controllers;
        eprintln!(
            "{} nodes, {pods} Pods: {ready:.1?}; controllers {:.0} MiB {:.1} s, scheduler {:.0} MiB {:.1} s",
            options.nodes,
            controllers.peak_rss_mib().unwrap(),
            controllers.cpu_seconds().unwrap(),
            cluster.scheduler.peak_rss_mib().unwrap(),
            cluster.scheduler.cpu_seconds().unwrap(),
        );
        eprintln!(
            "API server and etcd: {:.0?} MiB, {:.1?} s",
            cluster.plane.peak_rss_mib().unwrap(),
            cluster.plane.cpu_seconds().unwrap()
        );
        match &cluster.kubelets {
            RackKubelets::Kwok(all) => eprintln!(
                "kwok {:.0} MiB {:.1} s",
                all.peak_rss_mib().unwrap(),
                all.cpu_seconds().unwrap()
            ),
            RackKubelets::Hollow(all) => eprintln!(
                "kubelets, and last the runtimes: {:.0?} MiB {:.1?} s",
                all.peak_rss_mib().unwrap(),
                all.cpu_seconds().unwrap()
            ),
        }
        assert_eq!(cluster.agents.faults(), []);
    }

    #[test]
    #[ignore = "slow: measures how a cluster starts"]
    fn twelve_hollow_kubelets() {
        figures(&RackOptions {
            kubelets: KubeletKind::Hollow,
            ..RackOptions::default()
        });
    }

    #[test]
    #[ignore = "slow: measures how a cluster starts"]
    fn twelve_nodes_of_kwok() {
        figures(&RackOptions::default());
    }

    #[test]
    #[ignore = "slow: measures how a cluster starts"]
    fn a_thousand_nodes_of_kwok() {
        figures(&RackOptions {
            nodes: 1000,
            racks: 40,
            flat: FlatBlocks {
                range: "10.10.0.0/16".to_owned(),
                size: 26,
            },
            ..RackOptions::default()
        });
    }
}
