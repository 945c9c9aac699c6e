//! Blocks of Pods that no node announces by BGP: one finding for each cause, with all of its nodes.
//!
//! A node without an announcement matters only if its Pods need one: packets go without a tunnel, no
//! agent and no cloud makes routes to the nodes, and other nodes do announce their blocks.

use std::collections::BTreeMap;

use super::announcing::field_of;
use super::finding;
use ipam_cilium::observed::{
    Announced, BgpSpeaker, CloudRoutes, Node, Observed, ObservedKind, SeenSpecRouter, setting_key,
};
use ipam_core::model::{Finding, NodeName, Severity};
use ipam_core::net::{Block, Family, RangeIndex};

/// Why no node announces a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// The speaker announces other families to all peers of the node.
    Family(BgpSpeaker, Family),
    /// No object that exports pod CIDRs selects the node.
    NotSelected,
    /// Several `CiliumBGPPeeringPolicy`s select it.
    SeveralPolicies,
    /// The field that is announced is empty.
    EmptyField,
    /// That field has other blocks.
    OtherBlocks,
}

/// The blocks of a cause, each with a line of evidence.
type Silent<'o> = Vec<(&'o NodeName, Block, String)>;

pub(super) fn find(
    observed: &Observed,
    announced: &BTreeMap<&NodeName, Announced>,
    announcers: &RangeIndex<&NodeName>,
) -> Vec<Finding> {
    let pods_need_it = need_announcements(observed);
    let mut silent: BTreeMap<Cause, Silent<'_>> = BTreeMap::new();
    for node in observed.nodes.values() {
        let what = announced.get(&node.name);
        let lives = observed.pod_blocks_of(&node.name).into_iter();
        for block in lives.filter(|block| announcers.overlapping(&block.range()).next().is_none()) {
            let cause = match what {
                Some(what) => cause(what, block),
                None => unselected(observed, node, announced),
            };
            let is_certain = matches!(cause, Some(Cause::EmptyField | Cause::OtherBlocks));
            if let Some(cause) = cause.filter(|_| is_certain || pods_need_it) {
                let line = line(&node.name, block, what);
                let of_cause = silent.entry(cause).or_default();
                of_cause.push((&node.name, block, line));
            }
        }
    }
    let silent = silent.into_iter();
    silent
        .map(|(cause, blocks)| not_announced(observed, cause, &blocks))
        .collect()
}

/// Whether Pods of other nodes are reached only by routes from BGP.
fn need_announcements(observed: &Observed) -> bool {
    use ObservedKind::{BgpAdvertisement, BgpClusterConfig, BgpPeerConfig, BgpPeeringPolicy};
    let kinds = [
        BgpPeeringPolicy,
        BgpClusterConfig,
        BgpPeerConfig,
        BgpAdvertisement,
        ObservedKind::CiliumNodeConfig,
        ObservedKind::RouterDaemonSet,
    ];
    let mut allocators = observed.allocators.iter();
    observed.routes_natively()
        && !observed.is_on_somewhere(setting_key::AUTO_DIRECT_NODE_ROUTES)
        && !observed
            .spec_routers
            .iter()
            .any(SeenSpecRouter::is_of_administrators)
        && !allocators.any(|one| one.routes == CloudRoutes::On)
        && !observed.is_blind_to_any(&kinds)
}

fn cause(what: &Announced, block: Block) -> Option<Cause> {
    let family = block.family();
    Some(match what {
        _ if !what.families.contains(&family) => Cause::Family(what.speaker, family),
        _ if what.blocks.is_empty() => Cause::EmptyField,
        _ => Cause::OtherBlocks,
    })
}

/// Why a node announces nothing, if BGP shall announce pod CIDRs. A speaker of MetalLB without a peer
/// and an advertisement that no peer receives have findings of their own.
fn unselected(
    observed: &Observed,
    node: &Node,
    announced: &BTreeMap<&NodeName, Announced>,
) -> Option<Cause> {
    let exports = observed.announcing.policies.iter();
    let mut exports = exports.filter(|policy| !policy.pod_cidrs.is_empty());
    match observed.speaker()? {
        BgpSpeaker::MetalLb => None,
        _ if !observed.is_host_scoped() || observed.is_announced_by_unknown_rules() => None,
        BgpSpeaker::PeeringPolicy if observed.policies_for(node).count() > 1 => {
            Some(Cause::SeveralPolicies)
        }
        BgpSpeaker::PeeringPolicy if exports.next().is_some() => Some(Cause::NotSelected),
        _ => (!announced.is_empty()).then_some(Cause::NotSelected),
    }
}

fn line(name: &NodeName, block: Block, what: Option<&Announced>) -> String {
    let lives = format!("`{name}`: its Pods live in {block}");
    match what {
        Some(what) if what.blocks.is_empty() => format!("{lives}, it announces nothing"),
        Some(what) => format!(
            "{lives}, {}: announces {}",
            field_of(name, what.field),
            super::spaced(&what.blocks)
        ),
        None => format!("{lives}, it announces nothing"),
    }
}

fn not_announced(observed: &Observed, cause: Cause, blocks: &Silent<'_>) -> Finding {
    let mut names: Vec<&NodeName> = blocks.iter().map(|(name, ..)| *name).collect();
    names.dedup();
    let of_family = match cause {
        Cause::Family(_, family) => format!("{family} "),
        _ => String::new(),
    };
    let message = match &blocks[..] {
        [(name, block, _)] => {
            format!("no node announces {block}, in which the Pods of node `{name}` live")
        }
        _ => format!(
            "no node announces the {of_family}blocks in which the Pods of {} live",
            super::named(&names)
        ),
    };
    // A finding of these causes holds whatever routes the blocks.
    let is_certain = matches!(cause, Cause::EmptyField | Cause::OtherBlocks);
    let routers = super::blocks::spec_routers(observed).filter(|_| !is_certain);
    let (severity, consequence) = match &routers {
        None => (
            Severity::Error,
            "routers have no route to these Pods".to_owned(),
        ),
        Some(routers) => (
            Severity::Warning,
            format!("routers have no route to these Pods, unless it is by this: {routers}"),
        ),
    };
    let finding = finding(severity, "pods-not-announced", message);
    super::about_nodes(finding, names)
        .seen(evidence(observed, cause))
        .seen(blocks.iter().map(|(.., line)| line.clone()))
        .causes(consequence)
        .help(help(cause))
}

/// What selects nodes, and what a speaker announces.
fn evidence(observed: &Observed, cause: Cause) -> Vec<String> {
    let announcing = &observed.announcing;
    match cause {
        Cause::Family(BgpSpeaker::MetalLb, _) => {
            vec![format!("{}: announces only IPv4", BgpSpeaker::MetalLb)]
        }
        Cause::Family(BgpSpeaker::PeeringPolicy, family) => {
            vec![format!("no neighbor of the policy has {family}")]
        }
        Cause::Family(BgpSpeaker::ClusterConfig, family) => vec![format!(
            "no CiliumBGPPeerConfig of these nodes has an advertisement of pod CIDRs for {family}"
        )],
        Cause::NotSelected | Cause::SeveralPolicies => {
            let policies = announcing.policies.iter();
            let policies = policies
                .filter(|_| observed.reads_peering_policies())
                .map(|one| ("CiliumBGPPeeringPolicy", &one.name, &one.nodes));
            let configs = announcing.cluster_configs.iter();
            let configs = configs.map(|one| ("CiliumBGPClusterConfig", &one.name, &one.nodes));
            let line = |(kind, name, nodes): (&str, &String, _)| {
                format!(
                    "{kind} `{}` spec.nodeSelector: {nodes}",
                    name.escape_debug()
                )
            };
            policies.chain(configs).map(line).collect()
        }
        Cause::EmptyField | Cause::OtherBlocks => Vec::new(),
    }
}

fn help(cause: Cause) -> &'static str {
    match cause {
        Cause::Family(BgpSpeaker::MetalLb, _) => {
            "replace `bgp-announce-pod-cidr` by the BGP control plane (`enable-bgp-control-plane`, Cilium 1.12 and later), which announces both families"
        }
        Cause::Family(BgpSpeaker::PeeringPolicy, _) => {
            "add the family to `families` of the neighbors in the CiliumBGPPeeringPolicy"
        }
        Cause::Family(BgpSpeaker::ClusterConfig, _) => {
            "add the family, with `advertisements` that select the pod CIDRs, to `spec.families` of the CiliumBGPPeerConfig"
        }
        Cause::NotSelected => {
            "label these nodes so that an object that announces pod CIDRs selects them, or widen its `spec.nodeSelector`"
        }
        Cause::SeveralPolicies => {
            "let only one CiliumBGPPeeringPolicy select a node: with several ones, its agent announces nothing"
        }
        Cause::EmptyField => {
            "the announced field is empty: check that the node's agent runs and has written its CiliumNode"
        }
        Cause::OtherBlocks => "write this block to the announced field",
    }
}
