//! A world: its parts, its directory, and what the documentation says of its blocks. How it looks in
//! a cluster is in `cluster`, how it is made in `generate`.

use std::collections::{BTreeMap, BTreeSet};

use ipam_config::documents::{Documents, lower};
use ipam_core::alloc::WhenFull;
use ipam_core::model::Severity;
use ipam_core::net::{Block, Family};
use ipam_desired::Desired;
use ipam_plan::check;

use crate::documents::{directory, pin, policy, pool};
use crate::invariants::Broken;
use crate::numbers::{
    FALLBACK, Number, POOL_A, POOL_B, block_of, ipv4, ipv6, is_widest, number_of,
};

/// What a field shows of IPv4 and of IPv6.
pub type Shown = (Option<Number>, Option<Number>);

/// One directory with one cluster: pool `a` of rack `a`, pool `b` of rack `b`, and pool `fallback`.
#[derive(Clone, Debug)]
pub struct World {
    pub mode: Mode,
    pub has_ipv6: bool,
    pub is_b_large: bool,
    pub nodes: Vec<NodeState>,
    /// The node of a block and its family (`true` is IPv6), and the state of the claim.
    pub claims: BTreeMap<(Number, bool), (usize, ClaimState)>,
    /// IPv4 blocks by node.
    pub pins: BTreeMap<usize, Number>,
    pub excluded: BTreeSet<Number>,
    /// Reserved blocks of pool `a`.
    pub reserved: BTreeSet<Number>,
    /// Retiring blocks of pool `a`.
    pub retiring: BTreeSet<Number>,
    /// Priority of pool `fallback`.
    pub priority: i8,
    /// `whenFull` of pool `a`.
    pub when_full: WhenFull,
}

/// Every field of a node that shows blocks.
#[derive(Clone, Debug)]
pub struct NodeState {
    pub rack: char,
    pub spec: Shown,
    pub newer: Shown,
    pub older: Shown,
    pub cilium_node: Option<(Shown, Owner)>,
    pub agent: Agent,
    /// Our `CiliumNodeConfig` of the node with this IPv4 block, in mode `NodeConfig`.
    pub config: Option<Number>,
}

/// Whether the agent of a CiliumNode has started. An agent that starts writes `spec.addresses`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// `spec` of the CiliumNode has addresses.
    Started,
    /// `spec` of the CiliumNode has no addresses.
    Unseen,
}

/// The owner of a CiliumNode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Absent,
    Node,
    Predecessor,
}

/// The object and the version that a claim is for, or the end of a quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimState {
    /// A claim for the current version of the Node. The write to the Node may still succeed.
    ForNode,
    /// A claim for an older version of the Node. The write to the Node can no longer succeed.
    ForNodeBefore,
    /// A claim for the current version of the CiliumNode.
    ForCiliumNode,
    /// A claim for the creation of a CiliumNode.
    ForCreation,
    /// A claim for a deleted Node of the same name.
    ForPredecessor,
    /// A quarantined block that only its last node may get.
    Resting,
    /// A quarantined block that every node may get, because the quarantine is over.
    Rested,
}

/// The fields that Cilium reads, and the other programs that write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Spec {
        annotate: bool,
    },
    BesideControllerManager,
    Annotation,
    OldAnnotation,
    NodeConfig,
    /// Agents read CiliumNodes, and Cilium's operator assigns no blocks.
    ClusterPool,
    /// Agents read CiliumNodes, Cilium's operator assigns blocks too, and the Policy sets
    /// `writePath: cilium-node`.
    BesideOperator,
}

/// The name of a node.
#[must_use]
pub fn name(node: usize) -> String {
    format!("n{node:02}")
}

impl NodeState {
    /// A node of a rack that shows nothing.
    #[must_use]
    pub fn new(rack: char) -> NodeState {
        NodeState {
            rack,
            spec: (None, None),
            newer: (None, None),
            older: (None, None),
            cilium_node: None,
            agent: Agent::Started,
            config: None,
        }
    }

    /// Whether the Node and its CiliumNode show no block. The `CiliumNodeConfig` does not count.
    #[must_use]
    pub fn shows_nothing(&self) -> bool {
        let of_cilium_node = self.cilium_node.map(|(shown, _)| shown);
        let mut fields = [self.spec, self.newer, self.older]
            .into_iter()
            .chain(of_cilium_node);
        fields.all(|shown| shown == (None, None))
    }
}

impl World {
    /// Without nodes, pins and claims.
    #[must_use]
    pub fn new(mode: Mode) -> World {
        World {
            mode,
            has_ipv6: false,
            is_b_large: false,
            nodes: Vec::new(),
            claims: BTreeMap::new(),
            pins: BTreeMap::new(),
            excluded: BTreeSet::new(),
            reserved: BTreeSet::new(),
            retiring: BTreeSet::new(),
            priority: 0,
            when_full: WhenFull::NextPool,
        }
    }

    /// The directory.
    #[must_use]
    pub fn documents(&self) -> Documents {
        let mut documents = vec![self.policy()];
        documents.extend(self.pools());
        let pins = self.pins.iter();
        documents.extend(pins.map(|(node, number)| pin(&name(*node), &ipv4(*number))));
        directory(&documents)
    }

    /// The `Desired` of the directory; `None` if it has errors.
    #[must_use]
    pub fn desired(&self) -> Option<Desired> {
        let (desired, mut findings) = lower(&self.documents());
        findings.extend(check::files(&desired));
        let is_error = |severity| severity == Severity::Error;
        (!findings.iter().any(|finding| is_error(finding.severity))).then_some(desired)
    }

    /// A copy of the world in which `spec` of these Nodes has these IPv4 blocks.
    ///
    /// # Panics
    /// If the world has no node of such a name, or if a block is not a block of a pool.
    #[must_use]
    pub fn with_assigned(&self, blocks: &BTreeMap<String, Block>) -> World {
        let mut world = self.clone();
        let mut assigned = 0;
        for (index, node) in world.nodes.iter_mut().enumerate() {
            if let Some(block) = blocks.get(&name(index)) {
                node.spec.0 = Some(number_of(*block).expect("a block of a pool"));
                assigned += 1;
            }
        }
        assert_eq!(assigned, blocks.len(), "unknown nodes in {blocks:?}");
        world
    }

    /// The pools of a node in order, in the words of the documentation: a pin, then the pool of its
    /// rack and the fallback by priority.
    #[must_use]
    pub fn pools_of(&self, node: usize) -> Vec<Vec<Number>> {
        if let Some(pinned) = self.pins.get(&node) {
            let pools = [self.blocks_of('a'), self.blocks_of('b'), FALLBACK.collect()];
            return pools
                .into_iter()
                .filter(|pool| pool.contains(pinned))
                .collect();
        }
        let mut pools = vec![self.blocks_of(self.nodes[node].rack), FALLBACK.collect()];
        if self.priority > 0 {
            pools.reverse();
        }
        pools
    }

    fn blocks_of(&self, rack: char) -> Vec<Number> {
        match rack {
            'a' => POOL_A
                .filter(|number| !self.reserved.contains(number) && !self.retiring.contains(number))
                .collect(),
            'b' if self.is_b_large => (POOL_B.start..FALLBACK.start).collect(),
            'b' => POOL_B.collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the directory gives a node this block, in the words of the documentation.
    #[must_use]
    pub fn gives(&self, node: usize, block: Block) -> bool {
        let is_first = |number: &Number| block_of(*number)[0] == block;
        if self.pins.get(&node).is_some_and(is_first) {
            return true;
        }
        let is_barred = self.pins.values().any(is_first) || self.excluded.iter().any(is_first);
        let is_of_a_family = self.has_ipv6 || block.family() == Family::Ipv4;
        let pools = self.pools_of(node);
        let mut numbers = pools.iter().flatten();
        is_of_a_family && !is_barred && numbers.any(|number| block_of(*number).contains(&block))
    }

    /// The broken rules without overlaps with the widest blocks, see [`is_widest`].
    #[must_use]
    pub fn that_count(&self, mut broken: Vec<Broken>) -> Vec<Broken> {
        broken.retain(|one| !one.other.is_some_and(is_widest));
        broken
    }

    fn policy(&self) -> String {
        let path = match self.mode {
            Mode::Spec { .. } | Mode::BesideControllerManager | Mode::ClusterPool => "auto",
            Mode::Annotation | Mode::OldAnnotation => "node-annotation",
            Mode::NodeConfig => "node-config",
            Mode::BesideOperator => "cilium-node",
        };
        policy(&format!(
            "{{writePath: {path}, quarantine: 1h, excluded: [{}], limits: {{disruptive: {{percent: 100}}}}}}",
            listed(&self.excluded)
        ))
    }

    fn pools(&self) -> [String; 3] {
        let (b, b6) = match self.is_b_large {
            true => ("10.1.0.0/20", "fd00:0:0:100::/58"),
            false => ("10.1.0.0/23", "fd00:0:0:100::/61"),
        };
        let one = |name: &str, ipv4: &str, ipv6: &str, more: &str| {
            let spec = match self.has_ipv6 {
                true => format!(
                    "{{cidrs: [{ipv4}, \"{ipv6}\"], blockSize: {{ipv4: 26, ipv6: 64}}, {more}}}"
                ),
                false => format!("{{cidrs: [{ipv4}], blockSize: 26, {more}}}"),
            };
            pool(name, &spec)
        };
        let selector = |rack: char| format!("nodeSelector: {{matchLabels: {{rack: {rack}}}}}");
        let of_a = format!(
            "{}, reserved: [{}], retiring: [{}], whenFull: {}",
            selector('a'),
            listed(&self.reserved),
            listed(&self.retiring),
            self.when_full
        );
        let priority = format!("priority: {}", self.priority);
        [
            one("a", "10.0.0.0/23", "fd00::/61", &of_a),
            one("b", b, b6, &selector('b')),
            one("fallback", "10.0.8.0/24", "fd00:0:0:20::/62", &priority),
        ]
    }
}

fn listed(numbers: &BTreeSet<Number>) -> String {
    let texts: Vec<String> = numbers.iter().map(|number| ipv4(*number)).collect();
    texts.join(", ")
}

/// The texts of both families.
pub(crate) fn texts((first, second): Shown) -> Vec<String> {
    first
        .map(ipv4)
        .into_iter()
        .chain(second.map(ipv6))
        .collect()
}
