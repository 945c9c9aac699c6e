//! What BGP and L2 announce: the blocks of each node, compared with those that its Pods use; the
//! Services that the selectors of Cilium's objects select; and LoadBalancer addresses without an
//! announcement.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{finding, ineffective};
use ipam_cilium::lbipam::LbService;
use ipam_cilium::observed::{
    Announced, BgpSpeaker, HoldingField, L2Policy, Observed, ObservedKind, ServiceAnnouncements,
    setting_key,
};
use ipam_core::model::{Finding, NodeName, ObjectRef, Selector, Severity, count};
use ipam_core::net::{Block, Range, RangeIndex};

/// For each block of Pods, its node.
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
        let unannounced = |block: &&Block| announcers.overlapping(&block.range()).next().is_none();
        findings.extend(
            lives
                .iter()
                .filter(unannounced)
                .map(|block| not_announced(name, *block, what)),
        );
    }
    findings
}

fn field_of(name: &NodeName, field: HoldingField) -> String {
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

/// No node announces the block, although its own node announces something.
fn not_announced(name: &NodeName, block: Block, what: &Announced) -> Finding {
    let message = format!("no node announces {block}, in which the Pods of node `{name}` live");
    let announced = if what.blocks.is_empty() {
        "nothing".to_owned()
    } else {
        super::spaced(&what.blocks)
    };
    let evidence = [
        format!("its Pods live in {block}"),
        format!("{}: announces {announced}", field_of(name, what.field)),
    ];
    let finding = finding(Severity::Error, "pods-not-announced", message)
        .about(ObjectRef::node(name))
        .seen(evidence);
    let help = match what.blocks.is_empty() {
        true => {
            "the announced field is empty: check that the node's agent runs and has written its CiliumNode"
        }
        false => "write this block to the announced field",
    };
    finding
        .causes("routers have no route to these Pods")
        .help(help)
}

/// Advertisements that no peer of any node receives, often because of a mistyped label.
pub(super) fn unused_advertisements(observed: &Observed) -> Vec<Finding> {
    use ipam_cilium::observed::ObservedKind::{BgpClusterConfig, BgpPeerConfig};
    let is_blind = observed.is_blind_to_any(&[BgpClusterConfig, BgpPeerConfig]);
    if is_blind
        || observed.nodes.is_empty()
        || !observed.is_on_somewhere("enable-bgp-control-plane")
    {
        return Vec::new();
    }
    let sent: BTreeSet<&str> = observed
        .nodes
        .values()
        .flat_map(|node| observed.advertisements_of(node))
        .map(|advertisement| advertisement.name.as_str())
        .collect();
    let unannounced = observed
        .announcing
        .advertisements
        .iter()
        .filter(|advertisement| !sent.contains(advertisement.name.as_str()));
    let finding = |advertisement: &ipam_cilium::observed::Advertisement| {
        let name = advertisement.name.escape_debug();
        let message = format!("no peer of any node receives CiliumBGPAdvertisement `{name}`");
        let labels = advertisement.labels.iter();
        let labels = labels.map(|(key, value)| format!("{key}={value}"));
        let subject = ObjectRef {
            kind: "CiliumBGPAdvertisement",
            name: advertisement.name.clone(),
        };
        let finding =
            finding(Severity::Warning, "bgp-advertisement-unused", message).about(subject);
        let finding = finding.seen([format!("its labels: {}", super::spaced(labels))]);
        finding
            .causes("no node announces the addresses that it lists")
            .help("select it by these labels in a CiliumBGPPeerConfig, and name that peer config in a CiliumBGPClusterConfig for a node")
    };
    unannounced.map(finding).collect()
}

const BGP_CLASS: &str = "io.cilium/bgp-control-plane";
const L2_CLASS: &str = "io.cilium/l2-announcer";

/// Selectors of the Services that BGP or L2 announces.
pub(super) struct Announcements<'o> {
    pub(super) bgp: Vec<&'o Selector>,
    pub(super) l2: Vec<&'o L2Policy>,
    by_rules: ServiceAnnouncements<'o>,
}

/// `None` if the objects could not be read, or if MetalLB announces every Service.
pub(super) fn announcements(observed: &Observed) -> Option<Announcements<'_>> {
    use ObservedKind::{
        BgpAdvertisement, BgpClusterConfig, BgpPeerConfig, BgpPeeringPolicy, L2AnnouncementPolicy,
    };
    let kinds = [
        BgpPeeringPolicy,
        BgpClusterConfig,
        BgpPeerConfig,
        BgpAdvertisement,
        L2AnnouncementPolicy,
    ];
    if observed.is_blind_to_any(&kinds) {
        return None;
    }
    // MetalLB's own configuration decides which ones. This program does not read it.
    if observed.is_on(setting_key::BGP_ANNOUNCE_LB_IP) {
        return None;
    }
    let (mut bgp, mut l2) = (Vec::new(), Vec::new());
    if observed.is_on_somewhere(setting_key::ENABLE_BGP_CONTROL_PLANE) {
        let policies = observed.announcing.policies.iter().filter(|policy| {
            observed.reads_peering_policies()
                && observed
                    .nodes
                    .values()
                    .any(|node| policy.nodes.matches(&node.labels))
        });
        bgp.extend(policies.flat_map(|policy| &policy.services));
        bgp.extend(
            observed
                .nodes
                .values()
                .flat_map(|node| observed.advertisements_of(node))
                .flat_map(|entry| &entry.services),
        );
        bgp.sort();
        bgp.dedup();
    }
    // A policy without nodes, or with L2 switched off, has its own finding.
    l2.extend(observed.announcing.l2_policies.iter());
    let by_rules = ServiceAnnouncements::new(observed);
    Some(Announcements { bgp, l2, by_rules })
}

impl Announcements<'_> {
    /// Whether a BGP advertisement selects the Service.
    pub(super) fn by_bgp(&self, service: &LbService) -> bool {
        let is_of_class = service.class.as_deref().is_none_or(|of| of == BGP_CLASS);
        is_of_class && self.bgp.iter().any(|one| one.matches(&service.labels))
    }

    /// Whether an L2 policy selects the Service, and agents of this release answer for it.
    pub(super) fn by_l2(&self, service: &LbService) -> bool {
        !self.lacks_local_backend(service)
            && self.l2.iter().any(|policy| by_policy(policy, service))
    }

    /// Whether L2 leaves out the Service, because no node has a local backend for it.
    pub(super) fn lacks_local_backend(&self, service: &LbService) -> bool {
        self.by_rules.lacks_local_backend(service)
    }
}

/// Whether this L2 policy selects the Service.
pub(super) fn by_policy(policy: &L2Policy, service: &LbService) -> bool {
    let is_of_class = service.class.as_deref().is_none_or(|of| of == L2_CLASS);
    is_of_class && policy.services.matches(&service.labels)
}

/// Services with an address that neither BGP nor L2 announces. A cluster with neither routes such
/// addresses in another way, so it gets no finding.
pub(super) fn unannounced(observed: &Observed) -> Vec<Finding> {
    let Some(announcements) = announcements(observed) else {
        return Vec::new();
    };
    let keys = ["enable-bgp-control-plane", "enable-l2-announcements"];
    if !keys.iter().any(|key| observed.is_on_somewhere(key)) {
        return Vec::new();
    }
    // Policies that no agent reads have their own finding, which names these Services.
    let is_told = |service: &LbService| {
        ineffective::unread_policies(observed).any(|policy| {
            policy
                .services
                .iter()
                .any(|selector| selector.matches(&service.labels))
        })
    };
    let is_announced = |service: &LbService| {
        announcements.by_bgp(service) || announcements.by_l2(service) || is_told(service)
    };
    // Addresses from another source, such as those of nodes, are not judged.
    let rules = observed.lb_rules();
    let is_ours = |service: &&LbService| rules.serves(service);
    let pools: Vec<Range> = observed
        .load_balancer_ranges()
        .map(|(_, range)| range)
        .collect();
    let is_of_pool = |address: &IpAddr| {
        pools
            .iter()
            .any(|range| range.contains(&Range::from(*address)))
    };
    let unannounced_services = observed.services.values().filter(is_ours);
    let unannounced_services = unannounced_services
        .filter(|service| service.ingress.iter().any(is_of_pool) && !is_announced(service));
    let finding = |service: &LbService| {
        let name = service.name.to_string();
        let message = format!(
            "Service `{}` has {}, which nothing announces",
            name.escape_debug(),
            super::spaced(&service.ingress)
        );
        let finding = finding(Severity::Warning, "address-not-announced", message)
            .about(ObjectRef::service(&service.name));
        let evidence = [
            format!(
                "{} BGP selectors, none of which selects it",
                announcements.bgp.len()
            ),
            match announcements.lacks_local_backend(service) {
                true => format!(
                    "{} L2 policies, and externalTrafficPolicy: Local without a local backend",
                    announcements.l2.len()
                ),
                false => format!(
                    "{} L2 policies, none of which selects it",
                    announcements.l2.len()
                ),
            },
        ];
        let finding = finding
            .seen(evidence)
            .causes("clients outside the cluster cannot reach it");
        if announcements.lacks_local_backend(service) {
            return finding.help("set `externalTrafficPolicy: Cluster` for the Gateway or Ingress, or announce the address by BGP: agents of this release answer only for Services with a local backend (cilium#48799)");
        }
        finding.help("label the Service so that a CiliumBGPAdvertisement or CiliumL2AnnouncementPolicy selects it, or widen one of their selectors")
    };
    unannounced_services.map(finding).collect()
}
