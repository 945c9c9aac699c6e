//! The programs that may assign `spec.podCIDRs` of Nodes: by the flags of controllers, by the
//! writers of the newest Nodes, and by distributions that hide their controllers.
//!
//! It never decides whether an allocator blocks a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::cluster_cidrs::{CidrSource, ClusterCidrs};
use super::controller_process::{
    AllocatorStatus, CloudRoutes, ControllerProcess, ControllerProgram, named_in,
};
use super::distribution::{Distribution, switch_off};
use super::kind::KUBEADM_CONFIG_NAME;
use super::{FIELD_MANAGER, HoldingField, Node, Observed};
use ipam_core::model::NodeName;
use ipam_core::net::{Block, Range};

/// A program that may assign `spec.podCIDRs` of Nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allocator {
    /// As an administrator writes it in `acknowledgedAllocators`.
    pub name: String,
    pub status: AllocatorStatus,
    pub proof: AllocatorProof,
    /// What is known, as a text that continues after the name.
    pub evidence: String,
    /// It assigns blocks of these ranges.
    pub cluster_cidrs: ClusterCidrs,
    pub routes: CloudRoutes,
    /// How an administrator switches it off.
    pub switch_off: String,
    /// The Pod or DaemonSet that runs it; `None` if none is visible.
    pub object: Option<String>,
}

impl Allocator {
    /// The setting that has its ranges, and where that is written.
    fn setting_and_place(&self) -> (&'static str, String) {
        match self.cluster_cidrs.source {
            CidrSource::Flags => ("--cluster-cidr", self.name.escape_debug().to_string()),
            CidrSource::Kubeadm => (
                "`podSubnet`",
                format!("the ConfigMap `{KUBEADM_CONFIG_NAME}`"),
            ),
        }
    }

    /// The setting that has its ranges, in words.
    pub fn range_setting(&self) -> String {
        let (setting, place) = self.setting_and_place();
        format!("{setting} of {place}")
    }

    /// The same with these of its ranges.
    pub fn setting_of(&self, ranges: impl fmt::Display) -> String {
        let (setting, place) = self.setting_and_place();
        format!("{setting} {ranges} of {place}")
    }

    /// What to change for other ranges, in words.
    pub fn setting_to_change(&self) -> String {
        let setting = self.range_setting();
        match self.cluster_cidrs.source {
            CidrSource::Flags => setting,
            CidrSource::Kubeadm => {
                format!(
                    "{setting} and --cluster-cidr of {}",
                    self.name.escape_debug()
                )
            }
        }
    }

    /// Whether it is kube-controller-manager, or an allocator such as k3s that may contain it.
    pub fn is_manager(&self) -> bool {
        match self.name.parse() {
            Ok(ControllerProgram::KubeControllerManager) => true,
            Ok(ControllerProgram::CloudControllerManager) => false,
            Ok(ControllerProgram::NodeIpamController) | Err(_) => {
                self.status != AllocatorStatus::Inactive
            }
        }
    }
}

/// The evidence for the status of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AllocatorProof {
    /// Its command line.
    Flags,
    /// The allocator's writes, or the distribution that contains it.
    Indirect,
}

/// Names that `acknowledgedAllocators` may contain even if no such allocator is visible.
pub const KNOWN_ALLOCATORS: [&str; 5] = [
    ControllerProgram::KubeControllerManager.as_str(),
    ControllerProgram::CloudControllerManager.as_str(),
    ControllerProgram::NodeIpamController.as_str(),
    "k3s",
    "kubelite",
];

/// Number of the newest Nodes whose writers count. The writer of an older Node may be gone.
const NEWEST: usize = 10;

/// Field managers that name no allocator: a user's tool, or an HTTP library.
const NO_PROGRAMS: [&str; 7] = [
    "before-first-apply",
    "curl",
    "Go-http-client",
    "OpenAPI-Generator",
    "python-requests",
    "unknown",
    "ureq",
];

impl Observed {
    /// The ranges of which controllers assign blocks. Those of active allocators come first.
    pub fn cluster_cidrs(&self) -> Vec<Range> {
        let mut allocators: Vec<&Arc<Allocator>> = self.allocators.iter().collect();
        allocators.sort_by_key(|allocator| std::cmp::Reverse(allocator.status));
        let ranges = allocators
            .into_iter()
            .flat_map(|one| &one.cluster_cidrs.ranges);
        ranges.copied().collect()
    }
}

/// The allocators of a cluster, sorted by name. The ranges of kubeadm's configuration count only
/// for a kube-controller-manager whose process is not visible.
pub(super) fn allocators(
    nodes: &BTreeMap<NodeName, Arc<Node>>,
    mut processes: Vec<ControllerProcess>,
    kubeadm: Option<ClusterCidrs>,
) -> Vec<Arc<Allocator>> {
    processes.sort();
    let distribution = nodes.values().find_map(|node| node.distribution);
    let mut found: BTreeMap<String, Allocator> = BTreeMap::new();
    for program in ControllerProgram::ALL {
        let of_program = |process: &&ControllerProcess| process.program == program;
        let of_program: Vec<&ControllerProcess> = processes.iter().filter(of_program).collect();
        if let Some(allocator) = of_processes(&of_program, distribution) {
            found.insert(allocator.name.clone(), allocator);
        }
    }
    add_writers(&mut found, nodes, &processes, distribution);
    if let Some(hidden) = distribution.filter(|distribution| distribution.hides_controllers())
        && !found.values().any(Allocator::is_manager)
    {
        let allocator = hidden_manager(hidden);
        found.insert(allocator.name.clone(), allocator);
    }
    add_k3s_ranges(&mut found, nodes);
    let manager = ControllerProgram::KubeControllerManager;
    if let Some(kubeadm) = kubeadm.filter(|cidrs| is_current(cidrs, nodes))
        && let Some(allocator) = found.get_mut(manager.as_str())
        && allocator.object.is_none()
    {
        allocator.cluster_cidrs = kubeadm;
    }
    found.into_values().map(Arc::new).collect()
}

fn add_k3s_ranges(found: &mut BTreeMap<String, Allocator>, nodes: &BTreeMap<NodeName, Arc<Node>>) {
    let mut servers = nodes
        .values()
        .filter_map(|node| node.cluster_cidrs.as_deref());
    let k3s = Distribution::K3s.embedding_process();
    if let (Some(server), Some(allocator)) =
        (servers.next(), k3s.and_then(|name| found.get_mut(name)))
    {
        allocator.cluster_cidrs = server.clone();
    }
}

/// Whether the ranges of kubeadm's configuration have the blocks of all Nodes. Otherwise, they are
/// older than the flags.
fn is_current(kubeadm: &ClusterCidrs, nodes: &BTreeMap<NodeName, Arc<Node>>) -> bool {
    let mut blocks = nodes.values().flat_map(|node| node.spec.iter());
    let contains = |block: &Block| {
        let mut ranges = kubeadm.ranges.iter();
        ranges.any(|range| range.contains(&block.range()))
    };
    blocks.all(contains)
}

/// The Service CIDRs by flags, for Kubernetes before 1.33, which has no ServiceCIDRs by default.
pub(super) fn service_ranges(processes: &[ControllerProcess]) -> Vec<Range> {
    let ranges = processes.iter().flat_map(|process| &process.service_cidrs);
    let ranges: BTreeSet<Range> = ranges.copied().collect();
    ranges.into_iter().collect()
}

/// The programs that wrote to the newest Nodes.
fn add_writers(
    found: &mut BTreeMap<String, Allocator>,
    nodes: &BTreeMap<NodeName, Arc<Node>>,
    processes: &[ControllerProcess],
    distribution: Option<Distribution>,
) {
    for (manager, node) in writers(nodes) {
        let name = named_in(manager).map_or(manager, |program| program.as_str());
        let allocator = found.entry(name.to_owned());
        let allocator = allocator.or_insert_with(|| unproven(name, distribution));
        let is_proven = match allocator.status {
            AllocatorStatus::Unknown => true,
            AllocatorStatus::Inactive => is_after_start(node, name, processes),
            AllocatorStatus::Active => false,
        };
        if is_proven {
            allocator.status = AllocatorStatus::Active;
            allocator.proof = AllocatorProof::Indirect;
            allocator.evidence = format!(
                "wrote spec.podCIDRs of Node `{}`, one of the newest (metadata.managedFields)",
                node.name
            );
        }
    }
}

/// kube-controller-manager, or the process that contains it.
fn hidden_manager(distribution: Distribution) -> Allocator {
    let manager = ControllerProgram::KubeControllerManager.as_str();
    let name = distribution.embedding_process().unwrap_or(manager);
    let evidence = match name == manager {
        true => format!("is part of {distribution}, which does not show its flags"),
        false => format!("contains {manager}, and does not show its flags"),
    };
    Allocator {
        evidence,
        ..unproven(name, Some(distribution))
    }
}

/// Whether a Node is younger than every process of a program: what the program wrote there shows
/// more than its flags. Flags of unknown age count as older.
fn is_after_start(node: &Node, program: &str, processes: &[ControllerProcess]) -> bool {
    let of_program = processes
        .iter()
        .filter(|process| process.program.as_str() == program);
    let started = of_program.map(|process| process.created.as_str()).max();
    started.is_some_and(|started| node.created.as_str() > started)
}

fn unproven(name: &str, distribution: Option<Distribution>) -> Allocator {
    Allocator {
        name: name.to_owned(),
        status: AllocatorStatus::Unknown,
        proof: AllocatorProof::Indirect,
        evidence: String::new(),
        cluster_cidrs: ClusterCidrs::NONE,
        routes: CloudRoutes::Off,
        switch_off: switch_off(distribution, name),
        object: None,
    }
}

/// The processes of one program. Of several control-plane nodes, any may lead.
fn of_processes(
    processes: &[&ControllerProcess],
    distribution: Option<Distribution>,
) -> Option<Allocator> {
    let leader = processes.iter().max_by_key(|process| process.status)?;
    let distribution = distribution.or(leader.distribution);
    let name = leader.program.as_str();
    let what = match (leader.program, leader.status) {
        (ControllerProgram::NodeIpamController, _) => "runs",
        (_, AllocatorStatus::Active) => "runs with --allocate-node-cidrs=true",
        (ControllerProgram::CloudControllerManager, AllocatorStatus::Inactive) => {
            "assigns no pod CIDRs, by its program and flags"
        }
        (_, AllocatorStatus::Inactive) => "runs without --allocate-node-cidrs=true",
        (_, AllocatorStatus::Unknown) => "runs with flags that are not visible",
    };
    let mut cluster_cidrs = leader.cluster_cidrs.clone();
    for process in processes {
        cluster_cidrs.add(&process.cluster_cidrs.ranges);
    }
    Some(Allocator {
        status: leader.status,
        proof: AllocatorProof::Flags,
        evidence: format!("{what} (kube-system/{})", leader.object.escape_debug()),
        cluster_cidrs,
        routes: processes.iter().map(|process| process.routes).max()?,
        object: Some(leader.object.clone()),
        ..unproven(name, distribution)
    })
}

/// Who wrote `spec.podCIDRs` of a Node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer<'n> {
    Ours,
    Other(&'n str),
}

/// The other programs that assign blocks to new Nodes, each with the newest Node that shows it.
///
/// The API server merges the entries of one manager in `managedFields`, so their time is that of
/// any later write. `spec.podCIDRs` is written soon after a Node's creation, so the creation tells
/// the time: a write on a Node that is older than one of ours is from before.
fn writers(nodes: &BTreeMap<NodeName, Arc<Node>>) -> BTreeMap<&str, &Node> {
    let mut newest: Vec<(Writer<'_>, &Node)> = Vec::with_capacity(NEWEST + 1);
    for node in nodes.values() {
        let Some(writer) = writer(node) else { continue };
        let place = newest.partition_point(|(_, other)| other.created >= node.created);
        if place < NEWEST {
            newest.insert(place, (writer, node));
            newest.truncate(NEWEST);
        }
    }
    let mut ours = newest
        .iter()
        .rev()
        .filter(|(writer, _)| *writer == Writer::Ours);
    let since = ours.next().map(|(_, node)| node.created.as_str());
    let mut writers = BTreeMap::new();
    for (writer, node) in newest {
        if let Writer::Other(manager) = writer
            && since.is_none_or(|since| node.created.as_str() >= since)
        {
            writers.entry(manager).or_insert(node);
        }
    }
    writers
}

fn writer(node: &Node) -> Option<Writer<'_>> {
    if node.spec.is_empty() {
        return None;
    }
    let authors = node.authors.iter();
    let of_spec = authors.filter(|author| author.field == HoldingField::NodeSpec);
    let mut managers = of_spec.map(|author| author.manager.as_str());
    if managers.clone().any(|manager| manager == FIELD_MANAGER) {
        return Some(Writer::Ours);
    }
    let is_program = |manager: &&str| {
        !manager.is_empty() && !manager.starts_with("kubectl") && !NO_PROGRAMS.contains(manager)
    };
    managers.find(is_program).map(Writer::Other)
}
