//! Which addresses the ports of VMs let out besides their own: the pod CIDRs of the node that a VM
//! is.
//!
//! Let out is what Pods of the node have addresses of, and what the same plan gives it, as far as
//! it is of the files' pools and nobody else's. Taken back is what looks like a block of those
//! pools and is none of this node's; all other pairs are somebody else's and stay.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::change::{Action, Change, Target, node_changes};
use super::document::{ChangeDocument, GuardDocument};
use super::document_edit::EditDocument;
use super::document_lb::hazard_text;
use super::drift::{Drift, PairsDrift};
use super::file_blocks::FileBlocks;
use super::misplaced::MisplacedReason;
use super::others::Others;
use crate::check;
use ipam_cilium::observed::{ModeSeen, Node, Observed, Reading};
use ipam_core::model::{
    Finding, Hazard, IpamMode, NodeName, ObjectRef, Rule, Severity, grouped_digits,
};
use ipam_core::net::Block;
use ipam_core::neutron::{GuardedPort, Id, Pair, PairsChange, PortSecurity};
use ipam_desired::{AddressPairs, Desired};

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
    pub(super) fn new(
        node: &Node,
        port: &GuardedPort,
        change: PairsChange,
        cause: PortCause,
    ) -> PortChange {
        let PairsChange {
            pairs,
            added,
            removed,
        } = change;
        let (port, revision) = (port.id.clone(), port.revision);
        PortChange {
            port,
            node: node.name.clone(),
            added,
            removed,
            pairs,
            revision,
            cause,
        }
    }

    /// Packets of Pods may be dropped where something is not let out any more.
    pub fn hazard(&self) -> Hazard {
        if self.removed.is_empty() {
            Hazard::None
        } else {
            Hazard::Disruptive
        }
    }
}

/// What decides about the pairs of all ports.
struct Deciding<'p> {
    desired: &'p Desired,
    observed: &'p Observed,
    others: &'p Others<'p>,
    files: FileBlocks<'p>,
    /// What this plan gives to nodes.
    given: BTreeMap<&'p NodeName, &'p [Block]>,
    /// What any field shows for each node, whether this Cilium reads it or not: after a change of
    /// its settings, agents live in what they read before.
    shown: BTreeMap<&'p NodeName, BTreeSet<IpNet>>,
    plan: PairsPlan,
}

/// What is to be said where no port is looked at; `None` where ports are planned.
pub(super) fn unplanned(desired: &Desired, observed: &Observed) -> Option<Vec<Finding>> {
    let finding = |severity, rule, message: &str, help: &str| {
        Finding::new(severity, Rule(rule), message).help(help)
    };
    if desired.policy.address_pairs == AddressPairs::Ignored {
        return Some(Vec::new());
    }
    if observed.ports.is_none() {
        let message = "allowed_address_pairs of VMs' ports are not looked at here";
        let help = "`apply` keeps them, and so does `neutron-node --pod-cidrs-on` on each node";
        return Some(vec![finding(
            Severity::Info,
            "address-pairs-unseen",
            message,
            help,
        )]);
    }
    let message = "it is not known which addresses Pods have, so the ports of VMs are left alone";
    let help = "see `ipam` in the ConfigMap cilium-config";
    (!observed.knows_homes()).then(|| {
        vec![finding(
            Severity::Error,
            "address-pairs-homes-unknown",
            message,
            help,
        )]
    })
}

pub(super) fn plan(
    desired: &Desired,
    observed: &Observed,
    others: &Others<'_>,
    changes: &[Change],
) -> PairsPlan {
    let (given, shown) = (BTreeMap::new(), BTreeMap::new());
    let files = FileBlocks::new(desired);
    let mut deciding = Deciding {
        desired,
        observed,
        others,
        files,
        given,
        shown,
        plan: PairsPlan::default(),
    };
    let Some(seen) = &observed.ports else {
        return deciding.plan;
    };
    let gives = node_changes(changes).filter(|change| change.action != Action::Release);
    deciding.given = gives
        .map(|change| (&change.node, change.after.as_slice()))
        .collect();
    for (node, block) in observed.shown_blocks() {
        deciding
            .shown
            .entry(node)
            .or_default()
            .insert(IpNet::from(block));
    }
    deciding.nodes_without_vm();
    for (vm, nodes) in vms(observed) {
        match (nodes.as_slice(), seen.get(&vm)) {
            ([node], Some(Ok(ports))) => deciding.ports(node, &vm, ports),
            ([node], Some(Err(why))) => {
                deciding.tell(node, "address-pairs-unread", unread(&vm, why), ASK)
            }
            ([node], None) => deciding.tell(
                node,
                "address-pairs-unread",
                unread(&vm, "Neutron was not asked"),
                ASK,
            ),
            (nodes, _) => deciding.several(&vm, nodes),
        }
    }
    deciding.plan
}

/// How Neutron is asked.
const ASK: &str =
    "let Neutron be asked: see --clouds-file and --os-cloud; until then its pairs are left alone";

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
    format!(
        "the ports of VM {vm} cannot be read: {}",
        why.escape_debug()
    )
}

impl Deciding<'_> {
    fn tell(&mut self, node: &Node, rule: &'static str, message: String, help: &str) {
        let message = format!("node `{}`: {message}", node.name);
        let finding =
            Finding::new(Severity::Error, Rule(rule), message).about(ObjectRef::node(&node.name));
        self.plan.findings.push(finding.help(help));
    }

    fn nodes_without_vm(&mut self) {
        let mut without = self
            .observed
            .nodes
            .values()
            .filter(|node| node.vm().is_none());
        if let Some(first) = without.next() {
            let message = format!(
                "{} of {} nodes are no VMs of OpenStack by their `spec.providerID`, as `{}`: no port is looked at for them",
                grouped_digits(without.count() + 1),
                grouped_digits(self.observed.nodes.len()),
                first.name
            );
            let finding = Finding::new(Severity::Info, Rule("address-pairs-no-vm"), message);
            self.plan
                .findings
                .push(finding.help("cloud-provider-openstack writes it: `openstack:///ID`"));
        }
    }

    /// One of them is of the past, or lies, and nobody knows which.
    fn several(&mut self, vm: &Id, nodes: &[&Node]) {
        let names: Vec<String> = nodes
            .iter()
            .map(|node| format!("`{}`", node.name))
            .collect();
        let message = format!(
            "nodes {} say that they are the same VM {vm}; its ports are left alone",
            names.join(", ")
        );
        let finding = Finding::new(Severity::Error, Rule("address-pairs-vm-twice"), message);
        self.plan
            .findings
            .push(finding.help("delete the Nodes that are no more"));
    }

    fn ports(&mut self, node: &Node, vm: &Id, ports: &[GuardedPort]) {
        let of_vm: Vec<&GuardedPort> = ports
            .iter()
            .filter(|port| port.device_owner.starts_with(OF_VMS))
            .collect();
        let is_of_node = |port: &GuardedPort| {
            port.fixed_ips
                .iter()
                .any(|fixed| node.addresses.contains(&fixed.ip_address))
        };
        // A further NIC of the VM may be a Pod's.
        let mut of_node: Vec<&GuardedPort> = match of_vm.as_slice() {
            [only] => vec![only],
            several => several
                .iter()
                .copied()
                .filter(|port| is_of_node(port))
                .collect(),
        };
        if of_node.is_empty() {
            let message = format!(
                "no port of VM {vm} that can be seen ({} can) is the node's: none has one of its addresses",
                of_vm.len()
            );
            let help = "see that the credentials are of the VM's project and region";
            return self.tell(node, "address-pairs-no-port", message, help);
        }
        // Everything leaves the others.
        of_node.retain(|port| port.security == PortSecurity::On);
        let unreadable = self.observed.unreadable(node).map(str::to_owned);
        if let Some(why) = &unreadable {
            let message = format!(
                "what it holds cannot be read, so its port keeps its pairs: {}",
                why.escape_debug()
            );
            self.tell(
                node,
                "address-pairs-node-unread",
                message,
                "mend what cannot be read",
            );
        }
        let candidates = self.candidates(node);
        // What any field shows is not taken back, though it may not be let out.
        let mut shown: BTreeSet<IpNet> = candidates.iter().copied().map(IpNet::from).collect();
        shown.extend(self.shown.get(&node.name).into_iter().flatten());
        let wanted = self.wanted(node, &candidates);
        let doubt = self.doubt(node);
        for port in of_node {
            let looks_stale = |range: &IpNet| {
                unreadable.is_none() && !shown.contains(range) && self.is_ours(range)
            };
            let mut ranges = port
                .pairs
                .iter()
                .filter_map(|pair| pair.own_range(&port.mac_address));
            let kept = doubt
                .as_ref()
                .filter(|_| ranges.any(|range| looks_stale(&range)));
            let change = port.change(&wanted, |range| doubt.is_none() && looks_stale(range));
            if let Some(why) = kept {
                let message = format!(
                    "its port {} keeps pairs that look stale, because {why}",
                    port.id
                );
                self.tell(
                    node,
                    "address-pairs-kept",
                    message,
                    "they go once all can be seen",
                );
            }
            match change {
                Some(change) => {
                    let kept = wanted.difference(&change.added);
                    let seen = kept.chain(&change.removed).copied().collect();
                    let (node_name, port_id, expected) =
                        (node.name.clone(), port.id.clone(), wanted.clone());
                    self.plan.drift.push(Drift::Pairs(PairsDrift {
                        node: node_name,
                        port: port_id,
                        expected,
                        seen,
                    }));
                    let change = PortChange::new(node, port, change, PortCause::Drift);
                    self.plan.changes.push(Change::Port(Box::new(change)));
                }
                None => self.plan.unchanged.push(Target::Port(port.id.clone())),
            }
        }
    }

    /// Why nobody knows that a range is of no use to the node or to others.
    fn doubt(&self, node: &Node) -> Option<String> {
        let lives_in_cilium_node = matches!(
            self.observed.cilium.mode(),
            ModeSeen::Known(IpamMode::ClusterPool | IpamMode::MultiPool)
        );
        if lives_in_cilium_node && !self.observed.cilium_nodes.contains_key(&node.name) {
            return Some("its CiliumNode is not there".to_owned());
        }
        let blind = self
            .observed
            .blind_spots
            .first()
            .map(|spot| format!("{} cannot be read", spot.kind.resource()));
        blind.or_else(|| {
            check::neutron_trouble(self.desired, self.observed).map(|trouble| trouble.to_string())
        })
    }

    /// What Pods of the node have addresses of, or will.
    fn candidates(&self, node: &Node) -> BTreeSet<Block> {
        let mut blocks = in_use(self.observed, node);
        blocks.extend(
            self.given
                .get(&node.name)
                .into_iter()
                .flat_map(|blocks| blocks.iter()),
        );
        blocks
    }

    /// Of these what is the node's for certain.
    fn wanted(&mut self, node: &Node, candidates: &BTreeSet<Block>) -> BTreeSet<IpNet> {
        let mut wanted = BTreeSet::new();
        for block in candidates.iter().copied() {
            match obstacle(&self.files, self.observed, self.others, node, block) {
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

    /// Whether a range is a block as the pools give them, and of nobody else: not some address in a
    /// pool that somebody lets out for his own ends.
    fn is_ours(&self, range: &IpNet) -> bool {
        block_of(range)
            .is_some_and(|block| self.files.giver(block).is_ok() && !self.others.uses(block))
    }
}

/// What Pods of a node have addresses of, or may get addresses of at any moment.
pub(super) fn in_use(observed: &Observed, node: &Node) -> BTreeSet<Block> {
    let held = observed.holds(node);
    let read = held
        .iter()
        .filter(|holding| holding.reading == Reading::Read)
        .map(|holding| holding.block);
    read.chain(observed.lives_in(&node.name)).collect()
}

/// Why the port of a node is not opened for a block: whoever writes one to a node must not get what
/// is somebody else's.
pub(super) fn obstacle(
    files: &FileBlocks<'_>,
    observed: &Observed,
    others: &Others<'_>,
    node: &Node,
    block: Block,
) -> Option<String> {
    if files.pool_of(block).is_none() {
        return Some("it is of no pool of the files".to_owned());
    }
    // Of what another object shows beyond its bound, the allocator gave the node this block.
    let other = if is_in_spec(node, block) {
        Others::keeper
    } else {
        Others::holder
    };
    if let Some(other) = other(others, block, &node.name) {
        return Some(format!("node `{other}` shows it, too"));
    }
    if let Some(reason) = not_vouched_for(files, observed, node, block) {
        return Some(format!(
            "{reason}, and only the node's own agent shows the block"
        ));
    }
    others
        .uses(block)
        .then(|| "something else than nodes has addresses of it".to_owned())
}

fn is_in_spec(node: &Node, block: Block) -> bool {
    node.spec.get(block.family()) == Some(&block)
}

/// What speaks against a block that only fields show which the node's agent can write.
fn not_vouched_for(
    files: &FileBlocks<'_>,
    observed: &Observed,
    node: &Node,
    block: Block,
) -> Option<MisplacedReason> {
    if is_in_spec(node, block) {
        return None;
    }
    // There a Pod of any node asks for a pool.
    let is_meant = |reason: &MisplacedReason| {
        observed.is_multi_pool() && *reason == MisplacedReason::NotSelected
    };
    files
        .obstacle(node, block)
        .filter(|reason| !is_meant(reason))
}

/// The same as a block; `None` where bits below its prefix are set.
pub(super) fn block_of(range: &IpNet) -> Option<Block> {
    range.to_string().parse().ok()
}

/// Whether a port lets out what was planned.
pub(super) fn shows(observed: &Observed, saved: &ChangeDocument) -> bool {
    let EditDocument::AddressPairs { add, remove } = &saved.edit else {
        return false;
    };
    let port = saved.name.parse().ok().and_then(|id| observed.port(&id));
    let (Some((_, port)), Some(add), Some(remove)) = (port, ranges(add), ranges(remove)) else {
        return false;
    };
    let there: BTreeSet<IpNet> = port
        .pairs
        .iter()
        .filter_map(|pair| pair.own_range(&port.mac_address))
        .collect();
    add.is_subset(&there) && remove.is_disjoint(&there)
}

/// Whether there is no such port of a node any more, for certain.
pub(super) fn is_gone(observed: &Observed, saved: &ChangeDocument) -> bool {
    unseen(observed).is_none()
        && saved
            .name
            .parse()
            .is_ok_and(|id| observed.port(&id).is_none())
}

/// Why nobody knows of every port whether it is there.
pub(super) fn unseen(observed: &Observed) -> Option<String> {
    match &observed.ports {
        None => Some(
            "ports are not looked at: the Policy does not say `allowedAddressPairs: PodCIDRs`"
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

impl From<&PortChange> for ChangeDocument {
    fn from(change: &PortChange) -> ChangeDocument {
        let texts = |ranges: &BTreeSet<IpNet>| {
            ranges
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<String>>()
        };
        let (add, remove) = (texts(&change.added), texts(&change.removed));
        let reason = match change.cause {
            PortCause::Undo => "undoes an earlier apply".to_owned(),
            PortCause::Drift => {
                let missing = (!add.is_empty()).then(|| format!("missing: {}", add.join(" ")));
                let stale = (!remove.is_empty()).then(|| format!("stale: {}", remove.join(" ")));
                let what: Vec<String> = missing.into_iter().chain(stale).collect();
                format!(
                    "drift of allowed_address_pairs of node {}; {}",
                    change.node,
                    what.join("; ")
                )
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
            edit: EditDocument::AddressPairs {
                add: add.clone(),
                remove: remove.clone(),
            },
            undo: Some(EditDocument::AddressPairs {
                add: remove,
                remove: add,
            }),
            guard: GuardDocument {
                uid: change.port.to_string(),
                resource_version: change.revision.to_string(),
            },
            origin: None,
        }
    }
}
