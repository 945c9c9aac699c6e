//! The blocks of a node's Pods, and the blocks that it announces by BGP.
//!
//! The source field depends on the implementation (`pkg/bgp/speaker` @ 1.11 and 1.12, `pkg/bgpv1` @
//! 1.12 to 1.18, `pkg/bgp` @ 1.19). The first speaker reads the Node in every IPAM mode; later ones
//! read the field that the agent reads.
//!
//! The range in which Pods are routed without masquerading, from Cilium's settings.

use std::collections::BTreeSet;

use super::{HoldingField, ModeSeen, Node, Observed, PodCidrs, Reading, setting_key};
use crate::behaviours::{self, Releases};
use ipam_core::model::{IpamMode, NodeName};
use ipam_core::net::{Block, Family};

ipam_core::text_enum! {
    /// The part of Cilium that speaks BGP.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum BgpSpeaker {
        /// The MetalLB speaker inside the agent, 1.11 to 1.16.
        MetalLb = "the BGP speaker of MetalLB (bgp-announce-pod-cidr)",
        /// The BGP control plane with `CiliumBGPPeeringPolicy`, 1.12 to 1.18.
        PeeringPolicy = "the BGP control plane (CiliumBGPPeeringPolicy)",
        /// The BGP control plane with `CiliumBGPClusterConfig`, 1.16 and later.
        ClusterConfig = "the BGP control plane (CiliumBGPClusterConfig)",
    }
}

/// The announcement of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    pub speaker: BgpSpeaker,
    /// Field from which the speaker takes the blocks.
    pub field: HoldingField,
    /// The families that the speaker announces to a peer.
    pub families: BTreeSet<Family>,
    /// The announced blocks, of these families.
    pub blocks: Vec<Block>,
}

/// The speakers of MetalLB cannot announce IPv6: `internal/bgp/native` of MetalLB 0.12, in every
/// release of Cilium that has them (cilium#18989).
pub const METAL_LB_FAMILIES: [Family; 1] = [Family::Ipv4];

impl Announced {
    /// Whether a block of this family is announced, or would be if the field had one.
    pub fn family_is_announced(&self, family: Family) -> bool {
        let mut blocks = self.blocks.iter();
        self.families.contains(&family)
            && (self.blocks.is_empty() || blocks.any(|block| block.family() == family))
    }
}

impl Observed {
    /// Whether the blocks of Pods are known in this IPAM mode.
    pub fn knows_pod_blocks(&self) -> bool {
        matches!(
            self.cilium.mode(),
            ModeSeen::Known(IpamMode::Kubernetes | IpamMode::ClusterPool | IpamMode::MultiPool)
        )
    }

    /// Whether the announcement depends on the version, and the version is unknown.
    pub fn is_announced_by_unknown_rules(&self) -> bool {
        let mode = self.cilium.mode();
        let depends = match self.speaker() {
            Some(BgpSpeaker::MetalLb) => mode == ModeSeen::Known(IpamMode::ClusterPool),
            Some(BgpSpeaker::PeeringPolicy) => mode == ModeSeen::Known(IpamMode::Kubernetes),
            Some(BgpSpeaker::ClusterConfig) | None => false,
        };
        depends && self.cilium.version.is_none()
    }

    /// Whether agents of this version know `CiliumBGPPeeringPolicy`s.
    pub fn reads_peering_policies(&self) -> bool {
        self.may_have(behaviours::PEERING_POLICIES)
    }

    /// Whether the agents run the speakers of MetalLB.
    pub fn runs_metal_lb_speakers(&self) -> bool {
        let is_enabled = self.is_on(setting_key::BGP_ANNOUNCE_POD_CIDR)
            || self.is_on(setting_key::BGP_ANNOUNCE_LB_IP);
        is_enabled && self.may_have(behaviours::METAL_LB_SPEAKERS)
    }

    /// Whether the speakers of MetalLB announce Services.
    pub fn announces_services_by_metal_lb(&self) -> bool {
        self.is_on(setting_key::BGP_ANNOUNCE_LB_IP) && self.may_have(behaviours::METAL_LB_SPEAKERS)
    }

    /// Whether the running version behaves in this way, or is unknown.
    pub fn may_have(&self, behaviour: Releases) -> bool {
        let version = self.cilium.version;
        version.is_none_or(|(version, _)| behaviour.include(version))
    }

    /// Whether the running version is known, and behaves in this way.
    pub fn surely_has(&self, behaviour: Releases) -> bool {
        let version = self.cilium.version;
        version.is_some_and(|(version, _)| behaviour.include(version))
    }

    /// The enabled speaker, if it has objects to act on. With both kinds of control-plane objects,
    /// the node decides which one applies.
    pub fn speaker(&self) -> Option<BgpSpeaker> {
        if self.is_on(setting_key::BGP_ANNOUNCE_POD_CIDR)
            && self.may_have(behaviours::METAL_LB_SPEAKERS)
        {
            return Some(BgpSpeaker::MetalLb);
        }
        if !self.is_on_somewhere(setting_key::ENABLE_BGP_CONTROL_PLANE) {
            return None;
        }
        let (old, new) = (
            !self.announcing.policies.is_empty(),
            !self.announcing.cluster_configs.is_empty(),
        );
        match (
            old && self.reads_peering_policies(),
            new && self.may_have(behaviours::BGP_CLUSTER_CONFIGS),
        ) {
            (true, _) => Some(BgpSpeaker::PeeringPolicy),
            (false, true) => Some(BgpSpeaker::ClusterConfig),
            (false, false) => None,
        }
    }

    /// The blocks that a node announces; `None` if it announces none.
    pub fn announces(&self, node: &Node) -> Option<Announced> {
        let speaker = self.speaker_of(node)?;
        // In multi-pool, pools are announced. In other modes, the blocks of Pods are unknown.
        if self.is_announced_by_unknown_rules() || !self.is_host_scoped() {
            return None;
        }
        let (field, families): (_, BTreeSet<Family>) = match speaker {
            BgpSpeaker::MetalLb => {
                self.speaks_to_a_peer(node).then_some(())?;
                (self.field_of_metal_lb(), METAL_LB_FAMILIES.into())
            }
            BgpSpeaker::PeeringPolicy => {
                let mut policies = self.policies_for(node);
                // Two policies that select one node are an error, and nothing is announced.
                let policy = policies.next().filter(|_| policies.next().is_none())?;
                (self.field_of_policies(), policy.pod_cidrs.clone())
            }
            BgpSpeaker::ClusterConfig => {
                let sent = self.advertised(node);
                let sent = sent.filter(|(_, entry)| entry.pod_cidrs == PodCidrs::Announced);
                (
                    HoldingField::CiliumNode,
                    sent.map(|(family, _)| family).collect(),
                )
            }
        };
        if families.is_empty() {
            return None;
        }
        let mut blocks = match field {
            HoldingField::CiliumNode => self
                .cilium_nodes
                .get(&node.name)
                .map(|node| node.pod_cidrs.clone())
                .unwrap_or_default(),
            _ => node.spec.iter().copied().collect(),
        };
        blocks.retain(|block| families.contains(&block.family()));
        Some(Announced {
            speaker,
            field,
            families,
            blocks,
        })
    }

    /// The `CiliumBGPPeeringPolicy`s that select a node.
    pub fn policies_for<'o>(
        &'o self,
        node: &'o Node,
    ) -> impl Iterator<Item = &'o super::PeeringPolicy> {
        let policies = self.announcing.policies.iter();
        policies.filter(|policy| policy.nodes.matches(&node.labels))
    }

    /// On a node that a policy selects, the policy wins over the newer objects (`pkg/bgpv1/agent` @
    /// 1.16).
    fn speaker_of(&self, node: &Node) -> Option<BgpSpeaker> {
        let is_on = self.is_on_at(node, setting_key::ENABLE_BGP_CONTROL_PLANE);
        let speaker = self
            .speaker()
            .filter(|speaker| *speaker == BgpSpeaker::MetalLb || is_on)?;
        let is_selected = self.policies_for(node).next().is_some();
        let has_newer = self.may_have(behaviours::BGP_CLUSTER_CONFIGS)
            && !self.announcing.cluster_configs.is_empty();
        let passes_on = speaker == BgpSpeaker::PeeringPolicy && !is_selected && has_newer;
        Some(if passes_on {
            BgpSpeaker::ClusterConfig
        } else {
            speaker
        })
    }

    /// Advertisements to the peers of a node, by `CiliumBGPClusterConfig`.
    pub fn advertisements_of<'o>(
        &'o self,
        node: &'o Node,
    ) -> impl Iterator<Item = &'o super::Advertisement> {
        self.advertised(node)
            .map(|(_, advertisement)| advertisement)
    }

    /// Names of the advertisements that a peer of some node receives.
    pub fn sent_advertisements(&self) -> BTreeSet<&str> {
        let nodes = self.nodes.values();
        let sent = nodes.flat_map(|node| self.advertisements_of(node));
        sent.map(|advertisement| advertisement.name.as_str())
            .collect()
    }

    /// Advertisements to the peers of a node, each with the family for which a peer gets it.
    pub(super) fn advertised<'o>(
        &'o self,
        node: &'o Node,
    ) -> impl Iterator<Item = (Family, &'o super::Advertisement)> {
        let configs = self
            .announcing
            .cluster_configs
            .iter()
            .filter(|config| config.nodes.matches(&node.labels));
        let peers = configs.flat_map(|config| &config.peer_configs);
        let chosen = peers
            .filter_map(|name| self.announcing.peer_configs.get(name))
            .flatten();
        chosen.flat_map(|peer| {
            let all = self.announcing.advertisements.iter();
            let chosen = all.filter(|one| peer.advertisements.matches(&one.labels));
            chosen.map(|advertisement| (peer.family, advertisement))
        })
    }

    fn field_of_metal_lb(&self) -> HoldingField {
        let reads_cilium_node = self.may_have(behaviours::METAL_LB_CILIUM_NODE);
        match self.cilium.mode() {
            ModeSeen::Known(IpamMode::ClusterPool) if reads_cilium_node => HoldingField::CiliumNode,
            _ => HoldingField::NodeSpec,
        }
    }

    fn field_of_policies(&self) -> HoldingField {
        let reads_cilium_node = self.may_have(behaviours::PEERING_POLICIES_CILIUM_NODE);
        match self.cilium.mode() {
            ModeSeen::Known(IpamMode::Kubernetes) if !reads_cilium_node => HoldingField::NodeSpec,
            _ => HoldingField::CiliumNode,
        }
    }

    /// The blocks that an agent would read from the Node if it started now. Empty except in ipam
    /// `kubernetes`.
    pub fn read_from_node(&self, node: &Node) -> Vec<Block> {
        if self.cilium.mode() != ModeSeen::Known(IpamMode::Kubernetes) {
            return Vec::new();
        }
        self.holds(node)
            .iter()
            .filter(|held| held.reading == Reading::Read)
            .map(|held| held.block)
            .collect()
    }

    /// Whether nodes get blocks of several pools on demand.
    pub fn is_multi_pool(&self) -> bool {
        self.cilium.mode() == ModeSeen::Known(IpamMode::MultiPool)
    }

    /// Whether each node has one block per family, from which its agent serves Pods.
    pub fn is_host_scoped(&self) -> bool {
        matches!(
            self.cilium.mode(),
            ModeSeen::Known(IpamMode::Kubernetes | IpamMode::ClusterPool)
        )
    }

    /// Blocks of the Pods of all nodes, by name. Includes CiliumNodes without a Node.
    pub fn pod_blocks(&self) -> impl Iterator<Item = (&NodeName, Block)> {
        let names: BTreeSet<&NodeName> =
            self.nodes.keys().chain(self.cilium_nodes.keys()).collect();
        names.into_iter().flat_map(|name| {
            self.pod_blocks_of(name)
                .into_iter()
                .map(move |block| (name, block))
        })
    }

    /// Blocks of the Pods of a node: those its agent published, or, without a CiliumNode, those it
    /// would read from the Node. In multi-pool, all allocated blocks, and those that a conversion is
    /// about to move.
    pub fn pod_blocks_of(&self, name: &NodeName) -> Vec<Block> {
        let cilium_node = self.cilium_nodes.get(name);
        match self.cilium.mode() {
            ModeSeen::Known(IpamMode::MultiPool) => {
                let allocated = cilium_node.into_iter().flat_map(|node| &node.allocated);
                let allocated = allocated.flat_map(|(_, blocks)| blocks);
                let unconverted = cilium_node.filter(|_| self.converts_to_multi_pool());
                let unconverted = unconverted.into_iter().flat_map(|node| &node.pod_cidrs);
                allocated.chain(unconverted).copied().collect()
            }
            ModeSeen::Known(IpamMode::Kubernetes | IpamMode::ClusterPool) => {
                let published =
                    |family| self.cilium_node_shows(name, family).map(|(block, _)| block);
                let is_kubernetes = self.cilium.mode() == ModeSeen::Known(IpamMode::Kubernetes);
                match self.nodes.get(name).filter(|_| cilium_node.is_none()) {
                    Some(node) => self.read_from_node(node),
                    // `cluster-pool-v2beta` gave a node several.
                    None if !is_kubernetes => cilium_node
                        .map(|node| node.pod_cidrs.clone())
                        .unwrap_or_default(),
                    None => Family::BOTH.into_iter().filter_map(published).collect(),
                }
            }
            _ => Vec::new(),
        }
    }
}

/// Key of Cilium's setting of the native-routing range.
pub fn native_routing_setting(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4-native-routing-cidr",
        Family::Ipv6 => "ipv6-native-routing-cidr",
    }
}

impl Observed {
    /// Whether packets of Pods leave their node without a tunnel.
    pub fn routes_natively(&self) -> bool {
        let setting = |key| self.common_setting(key).map(|setting| setting.value);
        setting(setting_key::ROUTING_MODE) == Some("native")
            || setting(setting_key::TUNNEL) == Some("disabled")
    }

    /// Range whose packets are routed without masquerading; `None` with tunnels, or if it is not
    /// set.
    pub fn native_routing_range(&self, family: Family) -> Option<Block> {
        let setting = |key| self.common_setting(key).map(|setting| setting.value);
        let is_native = self.routes_natively();
        let masquerade = match family {
            Family::Ipv4 => "enable-ipv4-masquerade",
            Family::Ipv6 => "enable-ipv6-masquerade",
        };
        // Masquerading is on by default. ip-masq-agent has a list of ranges of its own.
        if setting(masquerade) == Some("false") || self.is_on("enable-ip-masq-agent") {
            return None;
        }
        Block::lenient(setting(native_routing_setting(family)).filter(|_| is_native)?).ok()
    }
}
