//! Nodes whose ports a plan leaves as they are, by the cause: one finding for each.

use std::collections::BTreeMap;

use ipam_cilium::observed::Node;
use ipam_core::model::{Finding, ObjectRef, Rule, Severity, grouped_digits};

#[derive(Default)]
pub(super) struct Unplanned<'n> {
    /// Nodes that are no VMs.
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

    /// The findings, for a cluster of so many nodes.
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

/// The VMs of these nodes, in words.
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
