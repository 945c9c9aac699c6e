//! Which addresses the ports of VMs let out besides their own: the pod CIDRs of the node that a VM is.
//!
//! Only what the node holds already is let out: what this very plan gives it, the next one does. Pairs outside of the files' pools, and
//! those with another hardware address, are somebody else's and stay.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::change::{Change, Drift, PairsDrift, Target};
use super::document::{ChangeDocument, GuardDocument};
use super::document_edit::EditDocument;
use super::document_lb::hazard_text;
use crate::desired::{AddressPairs, Desired};
use crate::model::{Finding, Hazard, NodeName, ObjectRef, Rule, Severity};
use crate::neutron::{GuardedPort, Id, Pair, PairsChange, PortSecurity};
use crate::observed::{Node, Observed};

/// What the owner of a VM's port begins with.
const OF_VMS: &str = "compute:";

/// A change of the pairs of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortChange {
    /// The port.
    pub port: Id,
    /// The node that the VM is.
    pub node: NodeName,
    /// Ranges that are let out from now on.
    pub added: BTreeSet<IpNet>,
    /// Ranges that are not any more.
    pub removed: BTreeSet<IpNet>,
    /// The whole list afterwards, with the pairs of others.
    pub pairs: Vec<Pair>,
    /// The revision of the port that was seen.
    pub revision: u64,
    /// Whether it takes an apply back.
    pub cause: PortCause,
}

/// Why pairs change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortCause {
    /// The node holds other pod CIDRs than the port lets out.
    Drift,
    /// An earlier apply is taken back.
    Undo,
}

/// What is planned for ports.
#[derive(Default)]
pub(super) struct PairsPlan {
    pub(super) changes: Vec<Change>,
    pub(super) drift: Vec<Drift>,
    pub(super) unchanged: Vec<Target>,
    pub(super) findings: Vec<Finding>,
}

impl PortChange {
    fn new(node: &Node, port: &GuardedPort, change: PairsChange, cause: PortCause) -> PortChange {
        let PairsChange { pairs, added, removed } = change;
        let (port, revision) = (port.id.clone(), port.revision);
        PortChange { port, node: node.name.clone(), added, removed, pairs, revision, cause }
    }

    /// Packets of Pods may be dropped where something is not let out any more.
    pub fn hazard(&self) -> Hazard {
        if self.removed.is_empty() { Hazard::None } else { Hazard::Disruptive }
    }

    /// What takes it back. Which list that makes is known when it is done.
    pub(super) fn inverted(&self) -> PortChange {
        let PortChange { added, removed, .. } = self.clone();
        PortChange { added: removed, removed: added, pairs: Vec::new(), cause: PortCause::Undo, ..self.clone() }
    }
}

/// Whether a range lies in a pool of the files, which makes its pair ours.
fn is_ours(desired: &Desired, range: &IpNet) -> bool {
    let mut ranges = desired.pools.values().flat_map(|pool| &pool.ranges);
    ranges.any(|own| IpNet::from(own.block).contains(range))
}

/// The pod CIDRs that a node holds, in whatever field, or that its Pods live in.
fn held(node: &Node, observed: &Observed) -> BTreeSet<IpNet> {
    let holds: Vec<_> = observed.holds(node).iter().map(|holding| holding.block).collect();
    holds.into_iter().chain(observed.lives_in(&node.name)).map(IpNet::from).collect()
}

pub(super) fn plan(desired: &Desired, observed: &Observed) -> PairsPlan {
    let mut plan = PairsPlan::default();
    if desired.policy.address_pairs == AddressPairs::Ignored {
        return plan;
    }
    let Some(seen) = &observed.ports else {
        let message = "allowed_address_pairs of VMs' ports are not looked at here";
        let finding = Finding::new(Severity::Info, Rule("address-pairs-unseen"), message);
        plan.findings.push(finding.help("`apply` keeps them, and so does `neutron-node --pod-cidrs-on` on each node"));
        return plan;
    };
    for node in observed.nodes.values() {
        let Some(vm) = node.vm() else { continue };
        match seen.get(&vm) {
            Some(Ok(ports)) => plan.ports(node, ports, desired, observed),
            Some(Err(why)) => plan.findings.push(unread(node, &vm, why)),
            None => plan.findings.push(unread(node, &vm, "Neutron was not asked")),
        }
    }
    plan
}

fn unread(node: &Node, vm: &Id, why: &str) -> Finding {
    let message = format!("ports of VM {vm}, node `{}`, cannot be read: {}", node.name, why.escape_debug());
    let finding =
        Finding::new(Severity::Error, Rule("address-pairs-unread"), message).about(ObjectRef::node(&node.name));
    finding.help("let Neutron be asked: see --clouds-file and --os-cloud; until then its pairs are left alone")
}

impl PairsPlan {
    fn ports(&mut self, node: &Node, ports: &[GuardedPort], desired: &Desired, observed: &Observed) {
        let of_vm = |port: &&GuardedPort| port.device_owner.starts_with(OF_VMS) && port.security == PortSecurity::On;
        let wanted = held(node, observed);
        for port in ports.iter().filter(of_vm) {
            match port.change(&wanted, |range| is_ours(desired, range)) {
                Some(change) => {
                    let kept = wanted.difference(&change.added);
                    let seen = kept.chain(&change.removed).copied().collect();
                    let (node_name, port_id, expected) = (node.name.clone(), port.id.clone(), wanted.clone());
                    self.drift.push(Drift::Pairs(PairsDrift { node: node_name, port: port_id, expected, seen }));
                    let change = PortChange::new(node, port, change, PortCause::Drift);
                    self.changes.push(Change::Port(Box::new(change)));
                }
                None => self.unchanged.push(Target::Port(port.id.clone())),
            }
        }
    }
}

/// What an undo plan asks for of ports. What stands in the file is not trusted: it is about the files' pools alone.
pub(super) fn undone(saved: &ChangeDocument, desired: &Desired, observed: &Observed) -> Option<PortChange> {
    let EditDocument::AddressPairs { add, remove } = &saved.edit else { return None };
    let (node, port) = observed.port(&saved.name.parse().ok()?)?;
    let (add, remove) = (ranges(add)?, ranges(remove)?);
    if !add.iter().chain(&remove).all(|range| is_ours(desired, range)) {
        return None;
    }
    let change = port.change(&add, |range| remove.contains(range))?;
    (change.added == add && change.removed == remove).then(|| PortChange::new(node, port, change, PortCause::Undo))
}

/// Whether a port lets out what was planned.
pub(super) fn shows(observed: &Observed, saved: &ChangeDocument) -> bool {
    let EditDocument::AddressPairs { add, remove } = &saved.edit else { return false };
    let port = saved.name.parse().ok().and_then(|id| observed.port(&id));
    let (Some((_, port)), Some(add), Some(remove)) = (port, ranges(add), ranges(remove)) else { return false };
    let there: BTreeSet<IpNet> = port.pairs.iter().filter_map(|pair| pair.own_range(&port.mac_address)).collect();
    add.is_subset(&there) && remove.is_disjoint(&there)
}

/// Whether there is no such port of a node any more.
pub(super) fn is_gone(observed: &Observed, saved: &ChangeDocument) -> bool {
    saved.name.parse().ok().is_none_or(|id| observed.port(&id).is_none())
}

fn ranges(texts: &[String]) -> Option<BTreeSet<IpNet>> {
    texts.iter().map(|text| text.parse().ok()).collect()
}

impl From<&PortChange> for ChangeDocument {
    fn from(change: &PortChange) -> ChangeDocument {
        let texts = |ranges: &BTreeSet<IpNet>| ranges.iter().map(ToString::to_string).collect::<Vec<String>>();
        let (add, remove) = (texts(&change.added), texts(&change.removed));
        let reason = match change.cause {
            PortCause::Undo => "undoes an earlier apply".to_owned(),
            PortCause::Drift => {
                let missing = (!add.is_empty()).then(|| format!("missing: {}", add.join(" ")));
                let stale = (!remove.is_empty()).then(|| format!("stale: {}", remove.join(" ")));
                let what: Vec<String> = missing.into_iter().chain(stale).collect();
                format!("drift of allowed_address_pairs of node {}; {}", change.node, what.join("; "))
            }
        };
        ChangeDocument {
            action: "update".to_owned(),
            kind: "Port".to_owned(),
            name: change.port.to_string(),
            write_path: "allowed_address_pairs".to_owned(),
            before: remove.clone(),
            after: add.clone(),
            pool: None,
            reason,
            hazard: hazard_text(change.hazard()),
            edit: EditDocument::AddressPairs { add: add.clone(), remove: remove.clone() },
            undo: Some(EditDocument::AddressPairs { add: remove, remove: add }),
            guard: GuardDocument { uid: change.port.to_string(), resource_version: change.revision.to_string() },
            origin: None,
        }
    }
}
