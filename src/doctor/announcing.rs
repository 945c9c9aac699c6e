//! What each node announces by BGP, and whether Pods really live there.

use std::collections::BTreeMap;

use super::finding;
use crate::model::{Finding, NodeName, ObjectRef, Severity};
use crate::net::{Block, RangeIndex};
use crate::observed::{Announced, HoldingField, Observed, Speaker};

/// The Pods of all nodes, by block.
type Homes<'o> = RangeIndex<(&'o NodeName, Block)>;

/// Nodes that announce blocks in which other nodes' Pods live, and nodes whose Pods nobody announces.
pub(super) fn blocks_of_others(observed: &Observed) -> Vec<Finding> {
    let homes =
        observed.nodes.keys().flat_map(|name| observed.lives_in(name).into_iter().map(move |block| (name, block)));
    let homes: Homes<'_> = RangeIndex::new(homes.map(|(name, block)| (block.range(), (name, block))));
    let announced: BTreeMap<&NodeName, Announced> =
        observed.nodes.values().filter_map(|node| Some((&node.name, observed.announces(node)?))).collect();
    let announcers = RangeIndex::new(
        announced.iter().flat_map(|(name, what)| what.blocks.iter().map(move |block| (block.range(), *name))),
    );
    let mut findings = Vec::new();
    for (name, what) in &announced {
        let lives = observed.lives_in(name);
        for block in what.blocks.iter().filter(|block| !lives.contains(block)) {
            findings.push(of_announcer(name, *block, what, &lives, &homes));
        }
        let silent = |block: &&Block| announcers.overlapping(&block.range()).next().is_none();
        findings.extend(lives.iter().filter(silent).map(|block| unheard(name, *block, what)));
    }
    findings
}

fn field_of(name: &NodeName, field: HoldingField) -> String {
    match field {
        HoldingField::CiliumNode => format!("CiliumNode `{name}` spec.ipam.podCIDRs"),
        _ => format!("Node `{name}` spec.podCIDRs"),
    }
}

fn of_announcer(name: &NodeName, block: Block, what: &Announced, lives: &[Block], homes: &Homes<'_>) -> Finding {
    let victims: Vec<(&NodeName, Block)> =
        homes.overlapping(&block.range()).map(|(_, home)| *home).filter(|(other, _)| *other != name).collect();
    let mut evidence = vec![
        format!("{}: {block}", field_of(name, what.field)),
        format!("its Pods live in {}", if lives.is_empty() { "no block".to_owned() } else { super::spaced(lives) }),
    ];
    evidence.extend(victims.iter().map(|(other, block)| format!("Pods of node `{other}` live in {block}")));
    evidence.push(format!("announced by {}", what.speaker));
    let mend = mend(what);
    let about = |finding: Finding| finding.about(ObjectRef::node(name)).seen(evidence.clone()).help(mend);
    if victims.is_empty() {
        let message = format!("node `{name}` announces {block}, in which no Pods live");
        let lost = if lives.is_empty() {
            "packets to it end at this node"
        } else {
            "this node's own Pods are reached only if others announce them"
        };
        return about(finding(Severity::Warning, "announces-empty-block", message)).causes(lost);
    }
    let names: Vec<&NodeName> = victims.iter().map(|(other, _)| *other).collect();
    let others = super::named(&names);
    let message = format!("node `{name}` announces {block}, in which the Pods of {others} live");
    let consequence = format!(
        "packets to those Pods arrive at `{name}`; when `{name}` goes down, the Pods of {others} are lost, though nothing is wrong there"
    );
    about(finding(Severity::Error, "announces-block-of-another", message)).causes(consequence)
}

/// The way out depends on which of the two fields is the right one.
fn mend(what: &Announced) -> &'static str {
    match (what.speaker, what.field) {
        (_, HoldingField::CiliumNode) => {
            "restart the agent, so that it publishes and announces the block that it gives addresses of"
        }
        (Speaker::MetalLb, _) => {
            "in cluster-pool, upgrade to Cilium 1.12 or later, which announces the CiliumNode's block; in ipam kubernetes, drain the nodes and restart their agents, so that Pods move to the Node's block"
        }
        (_, _) => {
            "upgrade to Cilium 1.15 or later, which announces the CiliumNode's block, or drain the nodes and restart their agents, so that Pods move to the Node's block"
        }
    }
}

/// Nobody announces the block, though its node announces something.
fn unheard(name: &NodeName, block: Block, what: &Announced) -> Finding {
    let message = format!("nobody announces {block}, in which the Pods of node `{name}` live");
    let evidence = [format!("its Pods live in {block}"), format!("it announces {}", super::spaced(&what.blocks))];
    let finding = finding(Severity::Error, "pods-not-announced", message).about(ObjectRef::node(name)).seen(evidence);
    finding.causes("routers do not know the way to these Pods").help("make the field that is announced show this block")
}
