//! The rules of the protocol, each removed on its own. A model that does not fail without a rule
//! does not test that rule.
//!
//! This module applies a mutation to claims that were read. The steps of an applier check for the
//! mutations that change them.

use crate::bounds::{Bounds, Moves};
use crate::state::{CiliumNode, Claim, Guard, Node, Seen};

/// One rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Nothing is claimed.
    NoClaims,
    /// The claims are replaced without a check of their version.
    BlindReplacement,
    /// The writes are sent although the claims could not be replaced.
    WritesAfterLostSwap,
    /// The writes are sent before they are claimed.
    WritesBeforeSwap,
    /// An applier that finds a claim for a node without a block writes the block at once, for the
    /// version of the Node that it sees.
    FoundClaimFinishedWithoutSwap,
    /// An applier that takes over a claim keeps the Node version in that claim.
    FoundClaimNotRenewed,
    /// Claims that were found are ignored.
    FoundClaimsDropped,
    /// Claims in force do not prevent assignments, and conflicts with them are ignored.
    ClaimsInForceIgnored,
    /// A claim is dropped because its Node shows another block.
    DroppedAsAnotherBlockIsShown,
    /// An applier drops its claims when it stops waiting for the answers.
    DroppedUnanswered,
    /// An applier drops its claims at the end without a check of their version.
    BlindClose,
    /// A write does not depend on the UID.
    NoUid,
    /// A write does not depend on the resourceVersion.
    NoResourceVersion,
    /// A write depends on what the Node shows instead of its resourceVersion.
    GuardedByOldValue,
    /// Nodes are listed before the claims are read.
    NodesBeforeClaims,
    /// Nodes are listed from a cache that may be older than the claims.
    NodesFromCache,
    /// The claim of a creation is dropped because the CiliumNode shows its block.
    CreationDroppedWhenShown,
    /// The claim of a creation is dropped by the applier whose creation has succeeded.
    CreationDroppedWhenApplied,
    /// The claim of a creation is dropped because the CiliumNode shows another block.
    CreationDroppedAsAnotherBlockIsShown,
    /// The claim of a creation is dropped because the resourceVersion of its Node has moved.
    CreationDroppedAsVersionMoved,
    /// A created CiliumNode has no owner, so Kubernetes does not delete it after its Node.
    CreationWithoutOwner,
}

impl Mutation {
    const ALL: [Mutation; 21] = [
        Mutation::NoClaims,
        Mutation::BlindReplacement,
        Mutation::WritesAfterLostSwap,
        Mutation::WritesBeforeSwap,
        Mutation::FoundClaimFinishedWithoutSwap,
        Mutation::FoundClaimNotRenewed,
        Mutation::FoundClaimsDropped,
        Mutation::ClaimsInForceIgnored,
        Mutation::DroppedAsAnotherBlockIsShown,
        Mutation::DroppedUnanswered,
        Mutation::BlindClose,
        Mutation::NoUid,
        Mutation::NoResourceVersion,
        Mutation::GuardedByOldValue,
        Mutation::NodesBeforeClaims,
        Mutation::NodesFromCache,
        Mutation::CreationDroppedWhenShown,
        Mutation::CreationDroppedWhenApplied,
        Mutation::CreationDroppedAsAnotherBlockIsShown,
        Mutation::CreationDroppedAsVersionMoved,
        Mutation::CreationWithoutOwner,
    ];

    /// Bounds just wide enough for the mutation to do harm.
    pub fn bounds(self) -> Bounds {
        let guarded = Bounds {
            disturbances: 1,
            ..Bounds::SMALL
        };
        let creation = Bounds {
            disturbances: 1,
            ..Bounds::SMALL_CREATION
        };
        match self {
            Mutation::NoClaims
            | Mutation::BlindReplacement
            | Mutation::WritesAfterLostSwap
            | Mutation::WritesBeforeSwap
            | Mutation::FoundClaimFinishedWithoutSwap
            | Mutation::FoundClaimNotRenewed
            | Mutation::FoundClaimsDropped
            | Mutation::ClaimsInForceIgnored
            | Mutation::DroppedUnanswered
            | Mutation::BlindClose
            | Mutation::NoUid
            | Mutation::NoResourceVersion
            | Mutation::GuardedByOldValue
            | Mutation::NodesBeforeClaims
            | Mutation::NodesFromCache => guarded,
            Mutation::DroppedAsAnotherBlockIsShown => Bounds {
                disturbances: 2,
                moves: Moves::Planned,
                ..guarded
            },
            Mutation::CreationDroppedWhenApplied
            | Mutation::CreationDroppedAsVersionMoved
            | Mutation::CreationWithoutOwner => creation,
            // One applier that is killed in between is enough. A second one makes the trace long.
            Mutation::CreationDroppedWhenShown => Bounds {
                appliers: 1,
                ..creation
            },
            Mutation::CreationDroppedAsAnotherBlockIsShown => Bounds {
                appliers: 1,
                disturbances: 2,
                ..creation
            },
        }
    }

    /// The applier's view of its reads under this mutation.
    pub(crate) fn misread(self, seen: &Seen) -> Seen {
        let mut misread = *seen;
        for (block, spoken) in (0..).zip(&mut misread.claims) {
            if let Some(claim) = spoken.claim {
                let place = usize::from(claim.node);
                let node = seen
                    .nodes
                    .get(place)
                    .copied()
                    .flatten()
                    .filter(|node| node.uid == claim.uid);
                let created = seen.cilium_nodes.get(place).copied().flatten();
                if self.drops(block, &claim, node, created) {
                    spoken.claim = None;
                }
            }
        }
        misread
    }

    fn drops(
        self,
        block: u8,
        claim: &Claim,
        node: Option<Node>,
        created: Option<CiliumNode>,
    ) -> bool {
        let is_creation = claim.guard == Guard::Creation;
        match self {
            Mutation::NoClaims | Mutation::FoundClaimsDropped => true,
            Mutation::DroppedAsAnotherBlockIsShown => node
                .and_then(|node| node.shown)
                .is_some_and(|shown| shown != block),
            Mutation::CreationDroppedWhenShown => {
                is_creation && created.is_some_and(|object| object.block == block)
            }
            Mutation::CreationDroppedAsAnotherBlockIsShown => {
                is_creation && created.is_some_and(|object| object.block != block)
            }
            // These mutations do not change what is read.
            Mutation::BlindReplacement
            | Mutation::WritesAfterLostSwap
            | Mutation::WritesBeforeSwap
            | Mutation::FoundClaimFinishedWithoutSwap
            | Mutation::FoundClaimNotRenewed
            | Mutation::ClaimsInForceIgnored
            | Mutation::DroppedUnanswered
            | Mutation::BlindClose
            | Mutation::NoUid
            | Mutation::NoResourceVersion
            | Mutation::GuardedByOldValue
            | Mutation::NodesBeforeClaims
            | Mutation::NodesFromCache
            | Mutation::CreationDroppedWhenApplied
            | Mutation::CreationDroppedAsVersionMoved
            | Mutation::CreationWithoutOwner => false,
        }
    }

    /// Whether an applier continues although the claims have changed since it read them.
    pub(crate) fn lets_outdated_appliers_act(self) -> bool {
        matches!(
            self,
            Mutation::NoClaims
                | Mutation::BlindReplacement
                | Mutation::WritesAfterLostSwap
                | Mutation::WritesBeforeSwap
                | Mutation::FoundClaimFinishedWithoutSwap
                | Mutation::BlindClose
        )
    }
}

/// All of them.
pub fn mutations() -> impl Iterator<Item = Mutation> {
    Mutation::ALL.into_iter()
}
