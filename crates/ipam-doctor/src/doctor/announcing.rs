//! The blocks that each node announces by BGP, compared with those that its Pods use.

use std::collections::{BTreeMap, BTreeSet};

use super::{finding, unannounced_pods};
use ipam_cilium::observed::{Announced, BgpSpeaker, HoldingField, Observed};
use ipam_core::model::{Finding, NodeName, ObjectRef, Severity, count};
use ipam_core::net::{Block, RangeIndex};

/// Index of the blocks of Pods, each with its node.
type PodBlocks<'o> = RangeIndex<(&'o NodeName, Block)>;

/// Nodes that announce blocks of other nodes' Pods, and nodes whose own Pods no node announces.
pub(super) fn blocks_of_others(observed: &Observed) -> Vec<Finding> {
    let homes = observed.nodes.keys().flat_map(|name| {
        observed
            .pod_blocks_of(name)
            .into_iter()
            .map(move |block| (name, block))
    });
    let homes: PodBlocks<'_> =
        RangeIndex::new(homes.map(|(name, block)| (block.range(), (name, block))));
    let announced: BTreeMap<&NodeName, Announced> = observed
        .nodes
        .values()
        .filter_map(|node| Some((&node.name, observed.announces(node)?)))
        .collect();
    let announcers = RangeIndex::new(
        announced
            .iter()
            .flat_map(|(name, what)| what.blocks.iter().map(move |block| (block.range(), *name))),
    );
    let mut findings = Vec::new();
    for (name, what) in &announced {
        let lives = observed.pod_blocks_of(name);
        for block in what.blocks.iter().filter(|block| !lives.contains(block)) {
            findings.extend(of_announcer(name, *block, what, &lives, &homes));
        }
    }
    findings.extend(unannounced_pods::find(observed, &announced, &announcers));
    findings
}

pub(super) fn field_of(name: &NodeName, field: HoldingField) -> String {
    match field {
        HoldingField::CiliumNode => format!("CiliumNode `{name}` spec.ipam.podCIDRs"),
        _ => format!("Node `{name}` spec.podCIDRs"),
    }
}

fn of_announcer(
    name: &NodeName,
    block: Block,
    what: &Announced,
    lives: &[Block],
    homes: &PodBlocks<'_>,
) -> Option<Finding> {
    let of_others = || {
        homes
            .overlapping(&block.range())
            .map(|(_, home)| *home)
            .filter(|(other, _)| *other != name)
    };
    let lives_text = if lives.is_empty() {
        "no block".to_owned()
    } else {
        super::spaced(lives)
    };
    let mut evidence = vec![
        format!("{}: {block}", field_of(name, what.field)),
        format!("its Pods live in {lives_text}"),
        format!("announced by {}", what.speaker),
    ];
    // A wide block may hold the Pods of every node, for every node that announces it.
    let victims = of_others()
        .take(super::NAMED)
        .map(|(other, block)| format!("Pods of node `{other}` live in {block}"));
    evidence.extend(victims);
    let more = of_others().count().saturating_sub(super::NAMED);
    evidence.extend((more > 0).then(|| format!("{} live there too", count(more, "further block"))));
    let about = |finding: Finding| {
        finding
            .about(ObjectRef::node(name))
            .seen(evidence.clone())
            .help(fix_for(what))
    };
    let names: BTreeSet<&NodeName> = of_others().map(|(other, _)| other).collect();
    if names.is_empty() {
        // A part of its own block, or a wider range around it, leads to the right node.
        if lives.iter().any(|own| own.overlaps(block)) {
            return None;
        }
        let message = format!("node `{name}` announces {block}, in which no Pods live");
        let has_family = lives.iter().any(|own| own.family() == block.family());
        let lost = match has_family {
            true => {
                "packets to it end at this node, and its own Pods are reached only if others announce them"
            }
            false => "packets to it end at this node, which has no Pods of this family",
        };
        return Some(
            about(finding(Severity::Warning, "announces-empty-block", message)).causes(lost),
        );
    }
    let names: Vec<&NodeName> = names.into_iter().collect();
    let others = super::named(&names);
    let message = format!("node `{name}` announces {block}, in which the Pods of {others} live");
    let consequence = format!(
        "packets to those Pods arrive at `{name}`; when `{name}` goes down, the Pods of {others} are lost, though nothing is wrong there"
    );
    Some(
        about(finding(
            Severity::Error,
            "bgp-announces-foreign-block",
            message,
        ))
        .causes(consequence),
    )
}

/// The fix depends on which of the two fields is right.
fn fix_for(what: &Announced) -> &'static str {
    match (what.speaker, what.field) {
        (_, HoldingField::CiliumNode) => {
            "restart the agent, so that it publishes and announces the block that it allocates from"
        }
        (BgpSpeaker::MetalLb, _) => {
            "in cluster-pool, upgrade to Cilium 1.12 or later, which announces the CiliumNode's block; in ipam kubernetes, drain the nodes and restart their agents, so that Pods move to the Node's block"
        }
        (_, _) => {
            "upgrade to Cilium 1.15 or later, which announces the CiliumNode's block, or drain the nodes and restart their agents, so that Pods move to the Node's block"
        }
    }
}
