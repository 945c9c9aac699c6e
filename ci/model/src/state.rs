//! A state of the world, as small as it can be told: numbers instead of names, UIDs, versions and
//! blocks. Knows no rules.

use stateright::Representative;

use crate::list::List;

/// A node's name, by its place.
pub(crate) type NodeIndex = u8;
/// A block, by its place in the pool.
pub(crate) type BlockIndex = u8;
/// How many Nodes of that name there were before: versions are compared only where this is equal.
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

/// Whom Kubernetes' garbage collection asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner {
    Node(Uid),
    Nobody,
}

/// A CiliumNode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CiliumNode {
    pub owner: Owner,
    pub block: BlockIndex,
}

/// What a write depends on besides the UID.
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

/// Whether a resting block has rested long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Rest {
    NotYet,
    LongEnough,
}

/// What is spoken for of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Spoken {
    pub claim: Option<Claim>,
    pub quarantined: Option<(NodeIndex, Rest)>,
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

/// What lists have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seen {
    pub claims: Claims,
    pub cilium_nodes: CiliumNodes,
    pub nodes: Nodes,
}

/// Whether the object that keeps the claims is still as an applier knows it. Its version moves only
/// forward, so this is all that a comparison of versions can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Knowledge {
    #[default]
    Current,
    Outdated,
}

/// What has become of a write that its applier still remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ClaimStatus {
    #[default]
    InFlight,
    Landed,
}

/// How far an applier is in its round.
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
        ledger: Claims,
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

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub nodes: List<Slot>,
    pub cilium_nodes: CiliumNodes,
    pub claims: Claims,
    pub appliers: List<Applier>,
    /// Writes whose applier does not wait for them any more, in order.
    pub in_flight: Vec<Change>,
    /// What an outdated server answers lists of Nodes from; empty where there is none.
    pub cache: Nodes,
    pub disturbances_left: u8,
}

impl State {
    /// The list of Nodes.
    pub(crate) fn living(&self) -> Nodes {
        self.nodes.iter().map(|slot| slot.living).collect()
    }

    /// The Node of that name, if there is one.
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
