//! The pairs that each port of a node's VM should have, and the changes to get there.
//!
//! A port comes to allow the blocks of its node's Pods that belong to the node for certain. It no
//! longer allows a block of the files' pools that the node does not have. Foreign pairs stay.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::allowed::{block_of, in_use, obstacle};
use super::{PortChange, Unplanned};
use crate::openstack::SubnetPools;
use crate::plan::Plan;
use crate::plan::change::{Action, Change, Target, node_changes};
use crate::plan::drift::{Drift, PairsDrift};
use crate::plan::file_blocks::FileBlocks;
use crate::plan::owners::AddressOwners;
use ipam_cilium::observed::{ModeSeen, Node, Observed};
use ipam_core::model::{Finding, IpamMode, NodeName, ObjectRef, Rule, Severity};
use ipam_core::net::Block;
use ipam_core::neutron::{Id, PortSecurity, VmPort};
use ipam_desired::{AddressPairs, Desired};

/// Prefix of `device_owner` of a VM's port.
const VM_OWNER: &str = "compute:";

/// Why no port is planned; `None` if ports are planned.
pub(in crate::plan) fn unplanned(desired: &Desired, observed: &Observed) -> Option<Vec<Finding>> {
    let finding = |severity, rule, message: &str, help: &str| {
        vec![Finding::new(severity, Rule(rule), message).help(help)]
    };
    if desired.policy.address_pairs == AddressPairs::Ignored {
        return Some(Vec::new());
    }
    if observed.ports.is_none() {
        return Some(finding(
            Severity::Info,
            "address-pairs-unseen",
            "allowed_address_pairs of VMs' ports are not read here",
            "`apply`, `watch` and the operator keep them on a live cluster",
        ));
    }
    let unknown = || {
        finding(
            Severity::Error,
            "address-pairs-homes-unknown",
            "the addresses of Pods are unknown, so the ports of VMs stay as they are",
            "see `ipam` in the ConfigMap cilium-config",
        )
    };
    (!observed.knows_pod_blocks()).then(unknown)
}

pub(in crate::plan) fn plan(
    desired: &Desired,
    observed: &Observed,
    owners: &AddressOwners<'_>,
    changes: &[Change],
) -> Plan {
    let Some(seen) = &observed.ports else {
        return Plan::default();
    };
    let mut planner = PortPlanner::new(desired, observed, owners, changes);
    let without_vm = observed.nodes.values().filter(|node| node.vm().is_none());
    planner.unplanned.without_vm = without_vm.map(AsRef::as_ref).collect();
    for (vm, nodes) in vms(observed) {
        match (nodes.as_slice(), seen.get(&vm)) {
            ([node], Some(Ok(ports))) => planner.plan_ports(node, &vm, ports),
            ([node], Some(Err(why))) => planner.unplanned.unread.entry(why).or_default().push(node),
            ([node], None) => planner.unplanned.not_read_yet.push(node),
            (nodes, _) => planner.report_shared_vm(&vm, nodes),
        }
    }
    let PortPlanner {
        unplanned,
        mut plan,
        ..
    } = planner;
    plan.findings
        .extend(unplanned.findings(observed.nodes.len()));
    plan
}

fn vms(observed: &Observed) -> BTreeMap<Id, Vec<&Node>> {
    let mut vms: BTreeMap<Id, Vec<&Node>> = BTreeMap::new();
    for node in observed.nodes.values() {
        if let Some(vm) = node.vm() {
            vms.entry(vm).or_default().push(node);
        }
    }
    vms
}

/// Plans the pairs of all ports, node by node.
struct PortPlanner<'p> {
    desired: &'p Desired,
    observed: &'p Observed,
    owners: &'p AddressOwners<'p>,
    files: FileBlocks<'p>,
    /// Blocks that this plan gives to nodes.
    given: BTreeMap<&'p NodeName, &'p [Block]>,
    /// Blocks that any field shows for each node, whether this Cilium reads the field or not: after
    /// a change of its settings, agents still use the blocks that they read before.
    shown: BTreeMap<&'p NodeName, BTreeSet<IpNet>>,
    unplanned: Unplanned<'p>,
    plan: Plan,
}

/// What one node needs of its ports.
struct NodePairs {
    /// Ranges that the port should allow.
    wanted: BTreeSet<IpNet>,
    /// Ranges that are never removed, wanted or not.
    kept: BTreeSet<IpNet>,
    /// Whether the node's fields can be read, so that missing ranges count as stale.
    is_readable: bool,
    /// Why ranges that look stale stay allowed for now.
    doubt: Option<String>,
}

impl<'p> PortPlanner<'p> {
    fn new(
        desired: &'p Desired,
        observed: &'p Observed,
        owners: &'p AddressOwners<'p>,
        changes: &'p [Change],
    ) -> PortPlanner<'p> {
        let given = node_changes(changes)
            .filter(|change| change.action != Action::Release)
            .map(|change| (&change.node, change.after.as_slice()));
        let mut shown: BTreeMap<&NodeName, BTreeSet<IpNet>> = BTreeMap::new();
        for (node, block) in observed.shown_blocks() {
            shown.entry(node).or_default().insert(IpNet::from(block));
        }
        PortPlanner {
            desired,
            observed,
            owners,
            files: FileBlocks::new(desired),
            given: given.collect(),
            shown,
            unplanned: Unplanned::default(),
            plan: Plan::default(),
        }
    }

    fn report(&mut self, node: &Node, rule: &'static str, message: String, help: &str) {
        let message = format!("node `{}`: {message}", node.name);
        let finding =
            Finding::new(Severity::Error, Rule(rule), message).about(ObjectRef::node(&node.name));
        self.plan.findings.push(finding.help(help));
    }

    /// At most one of the Nodes runs on the VM, and which one is unknown.
    fn report_shared_vm(&mut self, vm: &Id, nodes: &[&Node]) {
        let names: Vec<String> = nodes
            .iter()
            .map(|node| format!("`{}`", node.name))
            .collect();
        let message = format!(
            "nodes {} name the same VM {vm}; its ports stay as they are",
            names.join(", ")
        );
        let finding = Finding::new(Severity::Error, Rule("address-pairs-vm-twice"), message);
        self.plan
            .findings
            .push(finding.help("delete the Nodes that no longer exist"));
    }

    fn plan_ports(&mut self, node: &'p Node, vm: &Id, ports: &[VmPort]) {
        let of_vm: Vec<&VmPort> = ports
            .iter()
            .filter(|port| port.device_owner.starts_with(VM_OWNER))
            .collect();
        let of_node = ports_of_node(node, &of_vm);
        if of_node.is_empty() {
            let message = format!(
                "none of the {} visible ports of VM {vm} has an address of the node",
                of_vm.len()
            );
            let help = "check that the credentials are of the VM's project and region";
            return self.report(node, "address-pairs-no-port", message, help);
        }
        let pairs = self.node_pairs(node);
        // A port without port security sends everything.
        for port in of_node
            .into_iter()
            .filter(|port| port.security == PortSecurity::On)
        {
            self.plan_port(node, port, &pairs);
        }
    }

    fn node_pairs(&mut self, node: &Node) -> NodePairs {
        let unreadable = self.observed.unreadable(node).map(str::to_owned);
        if let Some(why) = &unreadable {
            let message = format!(
                "its fields cannot be read, so its port keeps its pairs: {}",
                why.escape_debug()
            );
            let help = "fix the field that cannot be read";
            self.report(node, "address-pairs-node-unread", message, help);
        }
        let candidates = self.candidates(node);
        let mut kept: BTreeSet<IpNet> = candidates.iter().copied().map(IpNet::from).collect();
        kept.extend(self.shown.get(&node.name).into_iter().flatten());
        NodePairs {
            wanted: self.wanted(node, &candidates),
            kept,
            is_readable: unreadable.is_none(),
            doubt: self.doubt(node),
        }
    }

    fn plan_port(&mut self, node: &'p Node, port: &VmPort, pairs: &NodePairs) {
        let NodePairs {
            wanted,
            kept,
            is_readable,
            doubt,
        } = pairs;
        let looks_stale =
            |range: &IpNet| *is_readable && !kept.contains(range) && self.is_ours(range);
        let has_stale = doubt.is_some() && ranges(port).any(|range| looks_stale(&range));
        let change = port.change(wanted, |range| doubt.is_none() && looks_stale(range));
        if let Some(why) = doubt.as_ref().filter(|_| has_stale) {
            self.unplanned.doubts(node, why);
        }
        let lone = ranges(port)
            .find(|range| *is_readable && !kept.contains(range) && self.is_single_of_a_pool(range));
        if lone.is_some() {
            self.unplanned.keeps_single_addresses(node);
        }
        let Some(change) = change else {
            self.plan.unchanged.push(Target::Port(port.id.clone()));
            return;
        };
        let seen = wanted.difference(&change.added).chain(&change.removed);
        self.plan.drift.push(Drift::Pairs(PairsDrift {
            node: node.name.clone(),
            port: port.id.clone(),
            expected: wanted.clone(),
            seen: seen.copied().collect(),
        }));
        let change = PortChange::new(self.observed, node, port, change);
        self.plan.changes.push(Change::Port(Box::new(change)));
    }

    /// Why a range that looks stale may still be in use.
    fn doubt(&self, node: &Node) -> Option<String> {
        let lives_in_cilium_node = matches!(
            self.observed.cilium.mode(),
            ModeSeen::Known(IpamMode::ClusterPool | IpamMode::MultiPool)
        );
        if lives_in_cilium_node && !self.observed.cilium_nodes.contains_key(&node.name) {
            return Some("its CiliumNode does not exist".to_owned());
        }
        let blind = self
            .observed
            .hidden_users()
            .map(|spot| format!("{} cannot be read", spot.kind.resource()));
        blind.or_else(|| {
            SubnetPools::resolve(self.desired, self.observed)
                .unresolved()
                .map(ToString::to_string)
        })
    }

    /// Blocks of which Pods of the node have addresses, or will have.
    fn candidates(&self, node: &Node) -> BTreeSet<Block> {
        let mut blocks = in_use(self.observed, node);
        let given = self.given.get(&node.name).into_iter();
        blocks.extend(given.flat_map(|blocks| blocks.iter()));
        blocks
    }

    /// The candidates that belong to the node for certain.
    fn wanted(&mut self, node: &Node, candidates: &BTreeSet<Block>) -> BTreeSet<IpNet> {
        let mut wanted = BTreeSet::new();
        for block in candidates.iter().copied() {
            match obstacle(&self.files, self.observed, self.owners, node, block) {
                None => {
                    wanted.insert(IpNet::from(block));
                }
                Some(why) => {
                    let message = format!("its port does not allow {block}: {why}");
                    let help = "give the node a block of its own from a pool";
                    self.report(node, "address-pairs-not-ours", message, help);
                }
            }
        }
        wanted
    }

    /// Whether a range is a block as the pools give them, and nothing else uses it: a foreign pair
    /// may well name some address of a pool. A single address is never ours, whatever the size of
    /// blocks: keepalived and BIRD share virtual addresses that way.
    fn is_ours(&self, range: &IpNet) -> bool {
        !is_single(range) && self.is_unused_of_a_pool(range)
    }

    fn is_single_of_a_pool(&self, range: &IpNet) -> bool {
        is_single(range) && self.is_unused_of_a_pool(range)
    }

    fn is_unused_of_a_pool(&self, range: &IpNet) -> bool {
        block_of(range)
            .is_some_and(|block| self.files.owning_pool(block).is_ok() && !self.owners.uses(block))
    }
}

fn is_single(range: &IpNet) -> bool {
    range.prefix_len() == range.max_prefix_len()
}

/// The ranges that a port allows with its own hardware address.
fn ranges(port: &VmPort) -> impl Iterator<Item = IpNet> {
    let pairs = port.pairs.iter();
    pairs.filter_map(|pair| pair.own_range(&port.mac_address))
}

/// The only port of the VM, or those that have an address of the node. A further NIC may be a
/// Pod's.
fn ports_of_node<'v>(node: &Node, of_vm: &[&'v VmPort]) -> Vec<&'v VmPort> {
    let is_of_node = |port: &&VmPort| {
        port.fixed_ips
            .iter()
            .any(|fixed| node.addresses.contains(&fixed.ip_address))
    };
    match of_vm {
        [only] => vec![*only],
        several => several.iter().copied().filter(is_of_node).collect(),
    }
}
