//! Which addresses the ports of VMs let out besides their own: the pod CIDRs of the node that a VM is.
//!
//! Let out is what Pods of the node have addresses of, and what the same plan gives it, as far as it is of the files' pools and nobody else's. Taken
//! back is what looks like a block of those pools and is none of this node's; all other pairs are somebody else's and stay.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::change::{Action, Change, Drift, PairsDrift, Target, node_changes};
use super::document::{ChangeDocument, GuardDocument};
use super::document_edit::EditDocument;
use super::document_lb::hazard_text;
use super::pins::Others;
use crate::desired::{AddressPairs, Desired, Pool};
use crate::model::{Finding, Hazard, NodeName, ObjectRef, Rule, Severity};
use crate::net::{Block, Range};
use crate::neutron::{GuardedPort, Id, Pair, PairsChange, PortSecurity};
use crate::observed::{Node, Observed, Reading};

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

/// Whether a range lies in a pool of the files.
fn is_in_pools(desired: &Desired, range: &IpNet) -> bool {
    let mut ranges = desired.pools.values().flat_map(|pool| &pool.ranges);
    ranges.any(|own| IpNet::from(own.block).contains(range))
}

/// What decides about the pairs of all ports.
struct Deciding<'p> {
    desired: &'p Desired,
    observed: &'p Observed,
    others: &'p Others<'p>,
    /// What this plan gives to nodes.
    given: BTreeMap<&'p NodeName, &'p [Block]>,
    plan: PairsPlan,
}

pub(super) fn plan(desired: &Desired, observed: &Observed, others: &Others<'_>, changes: &[Change]) -> PairsPlan {
    let mut deciding = Deciding { desired, observed, others, given: BTreeMap::new(), plan: PairsPlan::default() };
    if desired.policy.address_pairs == AddressPairs::Ignored {
        return deciding.plan;
    }
    let Some(seen) = &observed.ports else {
        let message = "allowed_address_pairs of VMs' ports are not looked at here";
        let finding = Finding::new(Severity::Info, Rule("address-pairs-unseen"), message);
        let help = "`apply` keeps them, and so does `neutron-node --pod-cidrs-on` on each node";
        deciding.plan.findings.push(finding.help(help));
        return deciding.plan;
    };
    if !observed.knows_homes() {
        let message = "it is not known which addresses Pods have, so the ports of VMs are left alone";
        let finding = Finding::new(Severity::Error, Rule("address-pairs-homes-unknown"), message);
        deciding.plan.findings.push(finding.help("see `ipam` in the ConfigMap cilium-config"));
        return deciding.plan;
    }
    let gives = node_changes(changes).filter(|change| change.action != Action::Release);
    deciding.given = gives.map(|change| (&change.node, change.after.as_slice())).collect();
    deciding.nodes_without_vm();
    for (vm, nodes) in vms(observed) {
        match (nodes.as_slice(), seen.get(&vm)) {
            ([node], Some(Ok(ports))) => deciding.ports(node, &vm, ports),
            ([node], Some(Err(why))) => deciding.tell(node, "address-pairs-unread", unread(&vm, why), ASK),
            ([node], None) => deciding.tell(node, "address-pairs-unread", unread(&vm, "Neutron was not asked"), ASK),
            (nodes, _) => deciding.several(&vm, nodes),
        }
    }
    deciding.plan
}

/// How Neutron is asked.
const ASK: &str = "let Neutron be asked: see --clouds-file and --os-cloud; until then its pairs are left alone";

fn vms(observed: &Observed) -> BTreeMap<Id, Vec<&Node>> {
    let mut vms: BTreeMap<Id, Vec<&Node>> = BTreeMap::new();
    for node in observed.nodes.values() {
        if let Some(vm) = node.vm() {
            vms.entry(vm).or_default().push(node);
        }
    }
    vms
}

fn unread(vm: &Id, why: &str) -> String {
    format!("the ports of VM {vm} cannot be read: {}", why.escape_debug())
}

impl Deciding<'_> {
    fn tell(&mut self, node: &Node, rule: &'static str, message: String, help: &str) {
        let message = format!("node `{}`: {message}", node.name);
        let finding = Finding::new(Severity::Error, Rule(rule), message).about(ObjectRef::node(&node.name));
        self.plan.findings.push(finding.help(help));
    }

    fn nodes_without_vm(&mut self) {
        let mut without = self.observed.nodes.values().filter(|node| node.vm().is_none());
        if let Some(first) = without.next() {
            let message = format!(
                "{} of {} nodes are no VMs of OpenStack by their `spec.providerID`, as `{}`: no port is looked at for them",
                without.count() + 1,
                self.observed.nodes.len(),
                first.name
            );
            let finding = Finding::new(Severity::Info, Rule("address-pairs-no-vm"), message);
            self.plan.findings.push(finding.help("cloud-provider-openstack writes it: `openstack:///ID`"));
        }
    }

    /// One of them is of the past, or lies, and nobody knows which.
    fn several(&mut self, vm: &Id, nodes: &[&Node]) {
        let names: Vec<String> = nodes.iter().map(|node| format!("`{}`", node.name)).collect();
        let message =
            format!("nodes {} say that they are the same VM {vm}; its ports are left alone", names.join(", "));
        let finding = Finding::new(Severity::Error, Rule("address-pairs-vm-twice"), message);
        self.plan.findings.push(finding.help("delete the Nodes that are no more"));
    }

    fn ports(&mut self, node: &Node, vm: &Id, ports: &[GuardedPort]) {
        let mut of_vm: Vec<&GuardedPort> = ports.iter().filter(|port| port.device_owner.starts_with(OF_VMS)).collect();
        let all = of_vm.len();
        // Everything leaves the others.
        of_vm.retain(|port| port.security == PortSecurity::On);
        if of_vm.is_empty() && all > 0 {
            return;
        }
        let is_of_node =
            |port: &GuardedPort| port.fixed_ips.iter().any(|fixed| node.addresses.contains(&fixed.ip_address));
        // A further NIC of the VM may be a Pod's.
        let of_node: Vec<&GuardedPort> = match of_vm.as_slice() {
            [only] => vec![only],
            several => several.iter().copied().filter(|port| is_of_node(port)).collect(),
        };
        if of_node.is_empty() {
            let message = format!(
                "no port of VM {vm} that can be seen ({} can) is the node's: none has one of its addresses",
                of_vm.len()
            );
            let help = "see that the credentials are of the VM's project and region";
            return self.tell(node, "address-pairs-no-port", message, help);
        }
        let unreadable = self.observed.unreadable(node).map(str::to_owned);
        if let Some(why) = &unreadable {
            let message = format!("what it holds cannot be read, so its port keeps its pairs: {}", why.escape_debug());
            self.tell(node, "address-pairs-node-unread", message, "mend what cannot be read");
        }
        let candidates = self.candidates(node);
        // What any field shows is not taken back, though it may not be let out.
        let shown: BTreeSet<IpNet> = candidates.iter().chain(&node.shown).copied().map(IpNet::from).collect();
        let wanted = self.wanted(node, &candidates);
        for port in of_node {
            let is_stale = |range: &IpNet| unreadable.is_none() && !shown.contains(range) && self.is_ours(range);
            match port.change(&wanted, is_stale) {
                Some(change) => {
                    let kept = wanted.difference(&change.added);
                    let seen = kept.chain(&change.removed).copied().collect();
                    let (node_name, port_id, expected) = (node.name.clone(), port.id.clone(), wanted.clone());
                    self.plan.drift.push(Drift::Pairs(PairsDrift { node: node_name, port: port_id, expected, seen }));
                    let change = PortChange::new(node, port, change, PortCause::Drift);
                    self.plan.changes.push(Change::Port(Box::new(change)));
                }
                None => self.plan.unchanged.push(Target::Port(port.id.clone())),
            }
        }
    }

    /// What Pods of the node have addresses of, or will.
    fn candidates(&self, node: &Node) -> BTreeSet<Block> {
        let mut blocks: BTreeSet<Block> = self.observed.lives_in(&node.name).into_iter().collect();
        let held = self.observed.holds(node);
        blocks.extend(held.iter().filter(|holding| holding.reading == Reading::Read).map(|holding| holding.block));
        blocks.extend(self.given.get(&node.name).into_iter().flat_map(|blocks| blocks.iter()));
        blocks
    }

    /// Of these what is the node's for certain.
    fn wanted(&mut self, node: &Node, candidates: &BTreeSet<Block>) -> BTreeSet<IpNet> {
        let mut wanted = BTreeSet::new();
        for block in candidates.iter().copied() {
            match self.obstacle(node, block) {
                None => drop(wanted.insert(IpNet::from(block))),
                Some(why) => {
                    let message = format!("its port is not made to let {block} out: {why}");
                    self.tell(
                        node,
                        "address-pairs-not-ours",
                        message,
                        "let the node have a block of a pool of its own",
                    );
                }
            }
        }
        wanted
    }

    /// Whoever writes a block to a node must not open its port for what is somebody else's.
    fn obstacle(&self, node: &Node, block: Block) -> Option<String> {
        if !is_in_pools(self.desired, &IpNet::from(block)) {
            return Some("it is of no pool of the files".to_owned());
        }
        if let Some(other) = self.others.holder(block, &node.name) {
            return Some(format!("node `{other}` shows it, too"));
        }
        self.others.uses(block).then(|| "something else than nodes has addresses of it".to_owned())
    }

    /// Whether a range is a block as the pools give them, and of nobody else: not some address in a pool that somebody lets out for his own ends.
    fn is_ours(&self, range: &IpNet) -> bool {
        let Ok(block) = range.to_string().parse::<Block>() else { return false };
        let gives = |pool: &Pool| {
            let reserves = |reserved: &Range| reserved.overlaps(&block.range());
            pool.contains(block)
                && pool.block_size.get(block.family()).is_some_and(|size| *size == block.size())
                && !pool.reserved.iter().any(reserves)
        };
        self.desired.pools.values().any(gives) && !self.others.uses(block)
    }
}

/// What an undo plan asks for of ports. What stands in the file is not trusted: it is about the files' pools alone.
pub(super) fn undone(saved: &ChangeDocument, desired: &Desired, observed: &Observed) -> Option<PortChange> {
    let EditDocument::AddressPairs { add, remove } = &saved.edit else { return None };
    let (node, port) = observed.port(&saved.name.parse().ok()?)?;
    let (add, remove) = (ranges(add)?, ranges(remove)?);
    if !add.iter().chain(&remove).all(|range| is_in_pools(desired, range)) {
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

/// Whether there is no such port of a node any more, for certain.
pub(super) fn is_gone(observed: &Observed, saved: &ChangeDocument) -> bool {
    unseen(observed).is_none() && saved.name.parse().is_ok_and(|id| observed.port(&id).is_none())
}

/// Why nobody knows of every port whether it is there.
pub(super) fn unseen(observed: &Observed) -> Option<String> {
    match &observed.ports {
        None => Some("ports are not looked at: the Policy does not say `allowedAddressPairs: PodCIDRs`".to_owned()),
        Some(seen) => seen.values().find_map(|ports| ports.as_ref().err()).map(|why| why.escape_debug().to_string()),
    }
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
