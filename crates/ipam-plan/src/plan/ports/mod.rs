//! The additional addresses that the ports of a VM allow: the pod CIDRs of the node on that VM.
//!
//! Knows nothing about Neutron's API: it works on observed ports.
//!
//! A port as a saved plan names it: whether the cluster shows the change, and whether the port is
//! gone.
//!
//! Nodes whose ports a plan leaves as they are, by the cause: one finding for each.
//!
//! A change of a port as JSON.

mod allowed;
mod planner;

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::change::{Change, ChangeAction, TargetKind, node_changes};
use super::document::{ChangeDocument, EditDocument};
use ipam_cilium::observed::{Node, Observed};
use ipam_core::model::{
    Finding, Hazard, NodeName, ObjectRef, ObjectVersion, Rule, Severity, grouped_digits,
};
use ipam_core::neutron::{Id, Pair, PairsChange, VmPort};

pub use allowed::in_use as blocks_in_use;
pub(super) use planner::{plan, unplanned};

/// A change of the `allowed_address_pairs` of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortChange {
    /// Id of the port in Neutron.
    pub port: Id,
    /// The node on the VM of the port.
    pub node: NodeName,
    /// Ranges that the port comes to allow.
    pub added: BTreeSet<IpNet>,
    /// Added ranges that the node holds only after another change of the plan.
    pub awaited: BTreeSet<IpNet>,
    /// Ranges that the port no longer allows.
    pub removed: BTreeSet<IpNet>,
    /// The whole list afterwards, with foreign pairs.
    pub pairs: Vec<Pair>,
    /// The revision of the port that was seen.
    pub revision: u64,
}

impl PortChange {
    pub(super) fn new(
        observed: &Observed,
        node: &Node,
        port: &VmPort,
        change: PairsChange,
    ) -> PortChange {
        let PairsChange {
            pairs,
            added,
            removed,
        } = change;
        let (port, revision) = (port.id.clone(), port.revision);
        let held = blocks_in_use(observed, node);
        let held: BTreeSet<IpNet> = held.into_iter().map(IpNet::from).collect();
        PortChange {
            port,
            node: node.name.clone(),
            awaited: added.difference(&held).copied().collect(),
            added,
            removed,
            pairs,
            revision,
        }
    }

    /// The change without the ranges that the node does not hold yet; `None` if nothing is left.
    pub fn without_awaited(&self) -> Option<PortChange> {
        let added: BTreeSet<IpNet> = self.added.difference(&self.awaited).copied().collect();
        if added.is_empty() && self.removed.is_empty() {
            return None;
        }
        // Added pairs are at the end.
        let foreign = self.pairs.len().saturating_sub(self.added.len());
        let of_others = self.pairs.iter().take(foreign).cloned();
        Some(PortChange {
            pairs: of_others
                .chain(added.iter().copied().map(Pair::of))
                .collect(),
            added,
            awaited: BTreeSet::new(),
            ..self.clone()
        })
    }

    /// The additions alone; `None` if there are none.
    pub(super) fn additions(&self) -> Option<PortChange> {
        if self.added.is_empty() {
            return None;
        }
        let kept = self.removed.iter().copied().map(Pair::of);
        Some(PortChange {
            removed: BTreeSet::new(),
            pairs: kept.chain(self.pairs.iter().cloned()).collect(),
            ..self.clone()
        })
    }

    /// A removed range may cut off Pods.
    pub fn hazard(&self) -> Hazard {
        if self.removed.is_empty() {
            Hazard::None
        } else {
            Hazard::Disruptive
        }
    }
}

/// The changes to send of these. A port comes to allow a block only with or after the change that
/// gives it to the node: without that change, the port's own is sent without the block.
pub fn without_awaited_pairs(changes: Vec<Change>) -> Vec<Change> {
    let nodes: BTreeSet<NodeName> = node_changes(&changes)
        .map(|change| change.node.clone())
        .collect();
    let must_wait = |port: &PortChange| !port.awaited.is_empty() && !nodes.contains(&port.node);
    let part = |change: Change| match change.as_port().filter(|port| must_wait(port)) {
        Some(port) => Some(Change::Port(Box::new(port.without_awaited()?))),
        None => Some(change),
    };
    changes.into_iter().filter_map(part).collect()
}

/// Whether a port has the pairs of a saved change.
pub(in crate::plan) fn shows(observed: &Observed, saved: &ChangeDocument) -> bool {
    let EditDocument::AddressPairs { add, remove } = &saved.edit else {
        return false;
    };
    let port = saved.name.parse().ok().and_then(|id| observed.port(&id));
    let (Some((_, port)), Some(add), Some(remove)) = (port, ranges(add), ranges(remove)) else {
        return false;
    };
    let allowed: BTreeSet<IpNet> = port
        .pairs
        .iter()
        .filter_map(|pair| pair.own_range(&port.mac_address))
        .collect();
    add.is_subset(&allowed) && remove.is_disjoint(&allowed)
}

/// Whether the port no longer exists, for certain.
pub(in crate::plan) fn is_gone(observed: &Observed, saved: &ChangeDocument) -> bool {
    unseen(observed).is_none()
        && saved
            .name
            .parse()
            .is_ok_and(|id| observed.port(&id).is_none())
}

/// Why some ports are unknown.
pub(in crate::plan) fn unseen(observed: &Observed) -> Option<String> {
    match &observed.ports {
        None => Some(
            "ports are not planned: the Policy does not set `allowedAddressPairs: PodCIDRs`"
                .to_owned(),
        ),
        Some(seen) => seen
            .values()
            .find_map(|ports| ports.as_ref().err())
            .map(|why| why.escape_debug().to_string()),
    }
}

pub(super) fn ranges(texts: &[String]) -> Option<BTreeSet<IpNet>> {
    texts.iter().map(|text| text.parse().ok()).collect()
}

#[derive(Default)]
pub(super) struct Unplanned<'n> {
    /// Nodes that do not run on a VM of OpenStack.
    pub(super) without_vm: Vec<&'n Node>,
    /// Nodes whose ports cannot be read, by the reason.
    pub(super) unread: BTreeMap<&'n str, Vec<&'n Node>>,
    /// Nodes whose ports are still to be read.
    pub(super) not_read_yet: Vec<&'n Node>,
    /// Nodes whose ports keep stale pairs, by the reason.
    pub(super) doubted: BTreeMap<String, Vec<&'n Node>>,
    /// Nodes whose ports keep single addresses that a pool may have given.
    pub(super) with_single_addresses: Vec<&'n Node>,
}

impl<'n> Unplanned<'n> {
    /// A port of the node keeps stale pairs.
    pub(super) fn doubts(&mut self, node: &'n Node, why: &str) {
        once(self.doubted.entry(why.to_owned()).or_default(), node);
    }

    /// A port of the node keeps single addresses.
    pub(super) fn keeps_single_addresses(&mut self, node: &'n Node) {
        once(&mut self.with_single_addresses, node);
    }

    /// The findings, for a cluster with this number of nodes.
    pub(super) fn findings(&self, nodes: usize) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(self.of_nodes_without_vm(nodes));
        for (why, nodes) in &self.unread {
            let of_vms = of_vms(nodes);
            let message = format!(
                "the ports of {of_vms} cannot be read: {}",
                why.escape_debug()
            );
            let help =
                "let Neutron be asked: see --clouds-file and --os-cloud; until then the pairs stay";
            let rule = Rule("address-pairs-unread");
            findings.push(finding(Severity::Error, rule, nodes, message, help));
        }
        for (why, nodes) in &self.doubted {
            let of_vms = of_vms(nodes);
            let message =
                format!("the ports of {of_vms} keep pairs that look stale, because {why}");
            let help = "the next plan that sees everything removes them";
            let rule = Rule("address-pairs-kept");
            findings.push(finding(Severity::Error, rule, nodes, message, help));
        }
        if !self.not_read_yet.is_empty() {
            let nodes = &self.not_read_yet;
            let message = format!("the ports of {} are not read yet", of_vms(nodes));
            let help = "they are read in the background, and planned then";
            let rule = Rule("address-pairs-unseen");
            findings.push(finding(Severity::Info, rule, nodes, message, help));
        }
        if !self.with_single_addresses.is_empty() {
            let nodes = &self.with_single_addresses;
            let of_vms = of_vms(nodes);
            let message = format!(
                "the ports of {of_vms} keep single addresses of a pool that the nodes do not hold"
            );
            let help = "keepalived and BIRD share virtual addresses like that; if they do not, remove the pairs by hand";
            let rule = Rule("address-pairs-single-kept");
            findings.push(finding(Severity::Info, rule, nodes, message, help));
        }
        findings
    }

    fn of_nodes_without_vm(&self, nodes: usize) -> Option<Finding> {
        let first = self.without_vm.first()?;
        let message = format!(
            "{} of {} nodes are not VMs of OpenStack by their `spec.providerID`, as `{}`: their ports are not planned",
            grouped_digits(self.without_vm.len()),
            grouped_digits(nodes),
            first.name
        );
        let finding = Finding::new(Severity::Info, Rule("address-pairs-no-vm"), message);
        Some(finding.help("cloud-provider-openstack writes it: `openstack:///ID`"))
    }
}

/// Nodes come one by one, some with several ports.
fn once<'n>(nodes: &mut Vec<&'n Node>, node: &'n Node) {
    if nodes.last().is_none_or(|last| last.name != node.name) {
        nodes.push(node);
    }
}

fn finding(
    severity: Severity,
    rule: Rule,
    nodes: &[&Node],
    message: String,
    help: &str,
) -> Finding {
    let finding = Finding::new(severity, rule, message).help(help);
    let about = nodes.first().map(|node| ObjectRef::node(&node.name));
    about.into_iter().fold(finding, Finding::about)
}

/// Names the VMs of these nodes in a sentence.
fn of_vms(nodes: &[&Node]) -> String {
    match nodes {
        [] => "no VM".to_owned(),
        [node] => format!("the VM of node `{}`", node.name),
        [first, ..] => format!(
            "the VMs of {} nodes, as of `{}`,",
            grouped_digits(nodes.len()),
            first.name
        ),
    }
}

impl From<&PortChange> for ChangeDocument {
    fn from(change: &PortChange) -> ChangeDocument {
        let texts = |ranges: &BTreeSet<IpNet>| {
            ranges
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<String>>()
        };
        let (add, remove) = (texts(&change.added), texts(&change.removed));
        let missing = (!add.is_empty()).then(|| format!("missing: {}", add.join(" ")));
        let stale = (!remove.is_empty()).then(|| format!("stale: {}", remove.join(" ")));
        let what: Vec<String> = missing.into_iter().chain(stale).collect();
        let reason = format!(
            "drift of allowed_address_pairs of node {}; {}",
            change.node,
            what.join("; ")
        );
        ChangeDocument {
            action: ChangeAction::Update,
            kind: TargetKind::Port,
            name: change.port.to_string(),
            write_path: "allowed_address_pairs".to_owned(),
            before: remove.clone(),
            after: add.clone(),
            pool: None,
            failure_domain: None,
            reason,
            hazard: change.hazard(),
            edit: EditDocument::AddressPairs {
                add: add.clone(),
                remove: remove.clone(),
            },
            undo: Some(EditDocument::AddressPairs {
                add: remove,
                remove: add,
            }),
            guard: ObjectVersion {
                uid: change.port.to_string(),
                resource_version: change.revision.to_string(),
            },
            origin: None,
            needs_approval: Vec::new(),
        }
    }
}
