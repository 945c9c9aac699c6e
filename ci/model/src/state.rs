//! A state of the modelled cluster, as small as possible: numbers instead of names, UIDs, versions
//! and blocks. It must never know a rule.

use stateright::Representative;

use crate::list::List;

/// The name of a node, by its position.
pub(crate) type NodeIndex = u8;
/// A block, by its position in the pool.
pub(crate) type BlockIndex = u8;
/// Number of Nodes of that name before. Versions are compared only where it is equal.
pub(crate) type Uid = u8;
/// A resourceVersion. Every Node starts with the same one, so that an older guard may fit the
/// version of a later Node.
pub(crate) type Version = u8;

/// A Node that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub uid: Uid,
    pub version: Version,
    pub shown: Option<BlockIndex>,
}

/// A name of a node, in use or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot {
    pub living: Option<Node>,
    pub next_uid: Uid,
}

/// The owner that Kubernetes' garbage collection looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner {
    Node(Uid),
    None,
}

/// A CiliumNode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CiliumNode {
    pub owner: Owner,
    pub block: BlockIndex,
}

/// The guard of a write, in addition to the UID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Guard {
    Version(Version),
    Creation,
}

/// A claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Claim {
    pub node: NodeIndex,
    pub uid: Uid,
    pub guard: Guard,
}

/// The quarantine of a block after its last node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Quarantine {
    Running,
    Over,
}

/// Claim and quarantine of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Spoken {
    pub claim: Option<Claim>,
    pub quarantined: Option<(NodeIndex, Quarantine)>,
}

/// The claims, by block.
pub(crate) type Claims = List<Spoken>;

/// What a list of Nodes shows.
pub(crate) type Nodes = List<Option<Node>>;

/// What a list of CiliumNodes shows.
pub(crate) type CiliumNodes = List<Option<CiliumNode>>;

/// A change of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Change {
    pub node: NodeIndex,
    pub uid: Uid,
    pub version: Version,
    pub before: Option<BlockIndex>,
    pub after: BlockIndex,
}

/// The lists that an applier has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seen {
    pub claims: Claims,
    pub cilium_nodes: CiliumNodes,
    pub nodes: Nodes,
}

/// Whether the claims' object is still as an applier knows it. Its version only goes up, so a
/// comparison of versions can tell no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Knowledge {
    #[default]
    Current,
    Outdated,
}

/// The fate of a write that its applier still remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ClaimStatus {
    #[default]
    InFlight,
    Landed,
}

/// The phase of an applier's round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// It has read the claims, the CiliumNodes or the Nodes, in whatever order it reads them.
    Reading {
        claims: Option<Claims>,
        cilium_nodes: Option<CiliumNodes>,
        nodes: Option<Nodes>,
    },
    /// It has decided, and has claimed and sent everything but `left`.
    Deciding {
        claims: Claims,
        left: List<Change>,
        sent: List<(Change, ClaimStatus)>,
    },
}

/// A process that applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Applier {
    pub phase: Phase,
    pub knowledge: Knowledge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub nodes: List<Slot>,
    pub cilium_nodes: CiliumNodes,
    pub claims: Claims,
    pub appliers: List<Applier>,
    /// Writes whose applier no longer waits for them, in order.
    pub in_flight: Vec<Change>,
    /// The Nodes that an outdated server lists; empty if there is no such server.
    pub cache: Nodes,
    pub disturbances_left: u8,
}

impl State {
    /// The list of Nodes.
    pub(crate) fn living(&self) -> Nodes {
        self.nodes.iter().map(|slot| slot.living).collect()
    }

    /// The Node of that name, if it exists.
    pub(crate) fn node(&self, node: NodeIndex) -> Option<Node> {
        self.nodes
            .get(usize::from(node))
            .and_then(|slot| slot.living)
    }
}

/// Appliers are alike, so it does not matter which of them is where.
impl Representative for State {
    fn representative(&self) -> State {
        let mut state = self.clone();
        state.appliers.sort_unstable();
        state
    }
}
