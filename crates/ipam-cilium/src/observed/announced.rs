//! Where a node's Pods live, and which blocks it announces by BGP.
//!
//! Which field the announced block comes from depends on the implementation (`pkg/bgp/speaker` @
//! 1.11 and 1.12, `pkg/bgpv1` @ 1.12 to 1.18, `pkg/bgp` @ 1.19): the first speaker took it from the
//! Node whatever the IPAM mode, later ones from where the agent takes it.

use std::collections::BTreeSet;
use std::fmt;

use super::{HoldingField, ModeSeen, Node, Observed, PodCidrs, Reading};
use ipam_core::model::{IpamMode, NodeName};
use ipam_core::net::{Block, Family};

/// Which part of Cilium speaks BGP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speaker {
    /// The MetalLB speaker inside the agent, 1.11 to 1.16.
    MetalLb,
    /// The BGP control plane with `CiliumBGPPeeringPolicy`, 1.12 to 1.18.
    PeeringPolicy,
    /// The BGP control plane with `CiliumBGPClusterConfig`, 1.16 and later.
    ClusterConfig,
}

impl fmt::Display for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Speaker::MetalLb => "the BGP speaker of MetalLB (bgp-announce-pod-cidr)",
            Speaker::PeeringPolicy => "the BGP control plane (CiliumBGPPeeringPolicy)",
            Speaker::ClusterConfig => "the BGP control plane (CiliumBGPClusterConfig)",
        })
    }
}

/// What a node announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// By which part.
    pub speaker: Speaker,
    /// The field that it takes them from.
    pub field: HoldingField,
    /// The blocks.
    pub blocks: Vec<Block>,
}

impl Announced {
    /// Whether a block of that family is announced at all.
    pub fn family_is_announced(&self, family: Family) -> bool {
        self.blocks.is_empty() || self.blocks.iter().any(|block| block.family() == family)
    }
}

impl Observed {
    /// Whether it is known where Pods live.
    pub fn knows_homes(&self) -> bool {
        matches!(
            self.cilium.mode(),
            ModeSeen::Known(IpamMode::Kubernetes | IpamMode::ClusterPool | IpamMode::MultiPool)
        )
    }

    /// Whether what is announced depends on the version, and the version is not known.
    pub fn is_announced_by_unknown_rules(&self) -> bool {
        let mode = self.cilium.mode();
        let depends = match self.speaker() {
            Some(Speaker::MetalLb) => mode == ModeSeen::Known(IpamMode::ClusterPool),
            Some(Speaker::PeeringPolicy) => mode == ModeSeen::Known(IpamMode::Kubernetes),
            Some(Speaker::ClusterConfig) | None => false,
        };
        depends && self.cilium.version.is_none()
    }

    /// The speaker, where one is switched on and has anything to do. Of both kinds of control-plane
    /// objects, which one counts depends on the node.
    pub fn speaker(&self) -> Option<Speaker> {
        let version = self.cilium.version.map(|(version, _)| version);
        let is_at_least = |minor| version.is_some_and(|version| version.is_at_least(minor, 0));
        if self.is_on("bgp-announce-pod-cidr") && !is_at_least(17) {
            return Some(Speaker::MetalLb);
        }
        if !self.is_on("enable-bgp-control-plane") {
            return None;
        }
        let (old, new) = (
            !self.announcing.policies.is_empty(),
            !self.announcing.cluster_configs.is_empty(),
        );
        match (
            old && !is_at_least(19),
            new && (version.is_none() || is_at_least(16)),
        ) {
            (true, _) => Some(Speaker::PeeringPolicy),
            (false, true) => Some(Speaker::ClusterConfig),
            (false, false) => None,
        }
    }

    /// The blocks that a node announces; `None` where it announces none.
    pub fn announces(&self, node: &Node) -> Option<Announced> {
        let speaker = self.speaker_of(node)?;
        // In multi-pool it is pools that are announced, and elsewhere nobody knows where Pods live.
        if self.is_announced_by_unknown_rules() || !self.is_host_scoped() {
            return None;
        }
        let field = match speaker {
            Speaker::MetalLb => self.field_of_metal_lb(),
            Speaker::PeeringPolicy => {
                let mut policies = self
                    .announcing
                    .policies
                    .iter()
                    .filter(|policy| policy.nodes.matches(&node.labels));
                let policy = policies.next()?;
                // Two that select one node are an error, and nothing is announced.
                (policies.next().is_none() && policy.pod_cidrs == PodCidrs::Announced)
                    .then_some(())?;
                self.field_of_policies()
            }
            Speaker::ClusterConfig => {
                self.advertisements_of(node)
                    .any(|entry| entry.pod_cidrs == PodCidrs::Announced)
                    .then_some(())?;
                HoldingField::CiliumNode
            }
        };
        let blocks = match field {
            HoldingField::CiliumNode => self
                .cilium_nodes
                .get(&node.name)
                .map(|node| node.pod_cidrs.clone())
                .unwrap_or_default(),
            _ => node.spec.iter().copied().collect(),
        };
        Some(Announced {
            speaker,
            field,
            blocks,
        })
    }

    /// A policy that selects a node wins over the newer objects there (`pkg/bgpv1/agent` @ 1.16).
    fn speaker_of(&self, node: &Node) -> Option<Speaker> {
        let speaker = self.speaker()?;
        let is_later = self
            .cilium
            .version
            .is_none_or(|(version, _)| version.is_at_least(16, 0));
        let is_selected = self
            .announcing
            .policies
            .iter()
            .any(|policy| policy.nodes.matches(&node.labels));
        let has_newer = is_later && !self.announcing.cluster_configs.is_empty();
        let passes_on = speaker == Speaker::PeeringPolicy && !is_selected && has_newer;
        Some(if passes_on {
            Speaker::ClusterConfig
        } else {
            speaker
        })
    }

    /// What the peers of a node get, by `CiliumBGPClusterConfig`.
    pub fn advertisements_of<'o>(
        &'o self,
        node: &'o Node,
    ) -> impl Iterator<Item = &'o super::Advertisement> {
        let configs = self
            .announcing
            .cluster_configs
            .iter()
            .filter(|config| config.nodes.matches(&node.labels));
        let peers = configs.flat_map(|config| &config.peer_configs);
        let chosen = peers
            .filter_map(|name| self.announcing.peer_configs.get(name))
            .flatten();
        chosen.flat_map(|selector| {
            self.announcing
                .advertisements
                .iter()
                .filter(|advertisement| selector.matches(&advertisement.labels))
        })
    }

    fn field_of_metal_lb(&self) -> HoldingField {
        let is_first = self
            .cilium
            .version
            .is_some_and(|(version, _)| !version.is_at_least(12, 0));
        match self.cilium.mode() {
            ModeSeen::Known(IpamMode::ClusterPool) if !is_first => HoldingField::CiliumNode,
            _ => HoldingField::NodeSpec,
        }
    }

    fn field_of_policies(&self) -> HoldingField {
        let reads_cilium_node = self
            .cilium
            .version
            .is_none_or(|(version, _)| version.is_at_least(15, 0));
        match self.cilium.mode() {
            ModeSeen::Known(IpamMode::Kubernetes) if !reads_cilium_node => HoldingField::NodeSpec,
            _ => HoldingField::CiliumNode,
        }
    }

    /// The blocks that an agent which starts on a node now would take from the Node: none but in
    /// ipam `kubernetes`.
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

    /// Whether nodes have blocks of several pools, as their Pods need them.
    pub fn is_multi_pool(&self) -> bool {
        self.cilium.mode() == ModeSeen::Known(IpamMode::MultiPool)
    }

    /// Whether each node has one block of each family, which its agent gives Pods addresses of.
    pub fn is_host_scoped(&self) -> bool {
        matches!(
            self.cilium.mode(),
            ModeSeen::Known(IpamMode::Kubernetes | IpamMode::ClusterPool)
        )
    }

    /// Where the Pods of all nodes live, by name; CiliumNodes without a Node count too.
    pub fn homes(&self) -> impl Iterator<Item = (&NodeName, Block)> {
        let names: BTreeSet<&NodeName> =
            self.nodes.keys().chain(self.cilium_nodes.keys()).collect();
        names.into_iter().flat_map(|name| {
            self.lives_in(name)
                .into_iter()
                .map(move |block| (name, block))
        })
    }

    /// The blocks that Pods of a node have addresses of: what its agent published, or, where there
    /// is no CiliumNode, what it would take from the Node. In multi-pool, all that is allocated to
    /// it.
    pub fn lives_in(&self, name: &NodeName) -> Vec<Block> {
        let cilium_node = self.cilium_nodes.get(name);
        match self.cilium.mode() {
            ModeSeen::Known(IpamMode::MultiPool) => cilium_node
                .into_iter()
                .flat_map(|node| &node.allocated)
                .flat_map(|(_, blocks)| blocks.clone())
                .collect(),
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
