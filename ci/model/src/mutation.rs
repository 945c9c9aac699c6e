//! The rules of the protocol, each taken away on its own. A model that does not fail without a rule
//! does not test it.
//!
//! The effect of a mutation on claims that were read is told here; where the steps of an applier
//! differ, they ask.

use crate::bounds::{Bounds, Moves};
use crate::state::{CiliumNode, Claim, Guard, Node, Seen};

/// One rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Nothing is claimed.
    NoClaims,
    /// The claims are replaced whatever version they are by now.
    BlindReplacement,
    /// The writes are sent although the claims could not be replaced.
    WritesAfterLostSwap,
    /// The writes are sent first and claimed then.
    WritesBeforeSwap,
    /// Who finds a claim for a node without a block writes it at once, for the version of the Node
    /// that it sees.
    FoundClaimFinishedWithoutSwap,
    /// Who takes a claim over leaves the version in it that it was made for.
    FoundClaimNotRenewed,
    /// Claims that were found count for nothing.
    FoundClaimsDropped,
    /// Claims in force keep nothing from being given, and conflicts with them are overlooked.
    ClaimsInForceIgnored,
    /// A claim is dropped because its Node shows another block.
    DroppedAsAnotherBlockIsShown,
    /// An applier drops its claims when it has given up waiting for the answers.
    DroppedUnanswered,
    /// An applier drops its claims at the end whatever version the claims are by now.
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
    /// What is created has no owner, so nothing takes it away when its Node is gone.
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

    /// Bounds within which it does harm, and hardly wider ones.
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
            // One that is killed in between is enough, and a second one makes the way there long.
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

    /// What an applier takes for the claims that it has read.
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
            // These are about something else than what is read.
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

    /// Whether an applier goes on although the claims are not any more what it has read.
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
