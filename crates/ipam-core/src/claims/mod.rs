//! Claims: blocks that are reserved before they are written, and blocks that are quarantined after
//! they were freed.
//!
//! Claims prevent several applies from giving one block twice, even if one is killed or paused.
//! They need no synchronised clocks. Knows nothing of pools, nor of where the claims are stored.
//!
//! Callers must keep this order:
//! 1. Read the claims.
//! 2. List CiliumNodes, then Nodes.
//! 3. Decide.
//! 4. Replace the claims, if they still have the version that was read.
//! 5. Write. The UID and resourceVersion of the claim guard each write.
//!
//! Whether the write of a claim may still succeed.

mod batch;
mod departed;
mod record;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::model::NodeName;
use crate::net::{Block, Range};

pub use batch::{ClaimIndex, ClaimRequest};
pub use departed::{
    Departed, DepartedBlocks, DepartedError, DepartedPart, Departure, MOST_OF_PART,
};
pub use record::{FORMAT_VERSION, MOST_BYTES, RecordError};

/// Reserved blocks. Two of them overlap only if they belong to one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claims {
    /// Blocks with a write that may be in flight.
    pub in_flight: BTreeMap<Block, Claim>,
    /// Freed blocks that no other node may get yet.
    pub quarantined: BTreeMap<Block, Quarantined>,
}

/// Reserves a block for a write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    pub node: NodeName,
    /// `metadata.uid` of the written object: the Node or its CiliumNode. For an object that is
    /// created, that of the Node that will own it.
    pub uid: String,
    /// Makes a late write fail, together with the UID.
    pub guard: ClaimGuard,
}

/// What makes a late write fail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClaimGuard {
    /// The object's `metadata.resourceVersion`: a change of it makes the write fail.
    Version(String),
    /// The write creates an object with the node's name. Only its existence makes the write fail.
    Creation,
}

/// A freed block that only its last node may get.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quarantined {
    /// The node that had the block. It may get the block back at once.
    pub node: NodeName,
    /// When other nodes may get the block.
    pub free_at: Timestamp,
}

/// A block that cannot be claimed, because another node has it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{block} is claimed for, or quarantined after, node `{holder}`")]
pub struct Conflict {
    pub block: Block,
    /// The node that has this block or an overlapping one.
    pub holder: NodeName,
}

impl Claims {
    /// The claims that still hold. Drops dead claims and ended quarantines, and quarantines
    /// orphaned claims for `quarantine_for`.
    ///
    /// `observed` returns the object of a claim, from lists taken after these claims were read.
    pub fn live<'o>(
        &self,
        observed: impl Fn(&Claim) -> Option<ObservedObject<'o>>,
        now: Timestamp,
        quarantine_for: SignedDuration,
    ) -> Claims {
        let mut claims = Claims::default();
        for (block, quarantined) in self
            .quarantined
            .iter()
            .filter(|(_, quarantined)| quarantined.free_at > now)
        {
            claims.quarantined.insert(*block, quarantined.clone());
        }
        for (block, claim) in &self.in_flight {
            match claim_status(*block, claim, observed(claim).as_ref()) {
                ClaimStatus::Pending => {
                    claims.in_flight.insert(*block, claim.clone());
                }
                // A restored store may contain a claim of an earlier holder. The block stays
                // quarantined for the later one.
                ClaimStatus::Orphaned
                    if claims
                        .quarantined
                        .get(block)
                        .is_some_and(|quarantined| quarantined.node != claim.node) => {}
                ClaimStatus::Orphaned => {
                    claims.quarantine(*block, &claim.node, now, quarantine_for)
                }
                ClaimStatus::Shown | ClaimStatus::Missed => {}
            }
        }
        claims
    }

    /// Quarantines a freed block.
    pub fn quarantine(
        &mut self,
        block: Block,
        node: &NodeName,
        now: Timestamp,
        quarantine_for: SignedDuration,
    ) {
        let free_at = now.saturating_add(quarantine_for).unwrap_or(Timestamp::MAX);
        // Whole seconds keep the text short: one object holds thousands of them.
        let begun = i64::from(free_at.subsec_nanosecond() > 0);
        let free_at = Timestamp::from_second(free_at.as_second() + begun).unwrap_or(Timestamp::MAX);
        self.quarantined.insert(
            block,
            Quarantined {
                node: node.clone(),
                free_at,
            },
        );
    }

    /// Every reserved block, with its node.
    pub fn held(&self) -> impl Iterator<Item = (Block, &NodeName)> {
        let claimed = self
            .in_flight
            .iter()
            .map(|(block, claim)| (*block, &claim.node));
        claimed.chain(
            self.quarantined
                .iter()
                .map(|(block, quarantined)| (*block, &quarantined.node)),
        )
    }

    /// Addresses of all reserved blocks.
    pub fn ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.held().map(|(block, _)| block.range())
    }

    /// Whether no block is reserved.
    pub fn is_empty(&self) -> bool {
        let Claims {
            in_flight,
            quarantined,
        } = self;
        in_flight.is_empty() && quarantined.is_empty()
    }
}

/// The object of a claim, as a list shows it. The list must have been taken after the claim was
/// read: only then is a different resourceVersion a later one.
#[derive(Clone, Debug)]
pub struct ObservedObject<'o> {
    pub uid: &'o str,
    pub resource_version: &'o str,
    /// Blocks in any field of the object.
    pub shown: Vec<Block>,
}

/// Status of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimStatus {
    /// The write may still succeed.
    Pending,
    /// The object shows the block, so the claim is no longer required.
    Shown,
    /// The resourceVersion changed, so the write will fail.
    ///
    /// Another block in the object proves nothing: a write with an older resourceVersion may still
    /// be in flight.
    Missed,
    /// The object is gone. Its write may have succeeded before, so the block must be quarantined.
    Orphaned,
}

/// Status of a claim. `None`: complete lists do not contain its object.
pub fn claim_status(
    block: Block,
    claim: &Claim,
    observed: Option<&ObservedObject<'_>>,
) -> ClaimStatus {
    let Some(observed) = observed.filter(|observed| observed.uid == claim.uid) else {
        return ClaimStatus::Orphaned;
    };
    match &claim.guard {
        ClaimGuard::Version(_) if observed.shown.contains(&block) => ClaimStatus::Shown,
        ClaimGuard::Version(version) if version == observed.resource_version => {
            ClaimStatus::Pending
        }
        ClaimGuard::Version(_) => ClaimStatus::Missed,
        // Even an existing object may be deleted, and then a creation in flight succeeds after all.
        ClaimGuard::Creation => ClaimStatus::Pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUARANTINE: SignedDuration = SignedDuration::from_secs(60);

    fn block(text: &str) -> Block {
        text.parse().unwrap()
    }

    fn claim(node: &str, uid: &str, guard: ClaimGuard) -> Claim {
        Claim {
            node: node.parse().unwrap(),
            uid: uid.into(),
            guard,
        }
    }

    fn version(version: &str) -> ClaimGuard {
        ClaimGuard::Version(version.into())
    }

    /// Node `n` with UID `u` at version 5 shows 10.0.9.0/24; there is no other node.
    fn observed(claim: &Claim) -> Option<ObservedObject<'static>> {
        (claim.node.as_str() == "n").then(|| ObservedObject {
            uid: "u",
            resource_version: "5",
            shown: vec![block("10.0.9.0/24")],
        })
    }

    #[test]
    fn dead_claims_are_dropped_and_orphaned_ones_quarantined() {
        let now = Timestamp::UNIX_EPOCH;
        let mut claims = Claims::default();
        for (text, claim) in [
            ("10.0.0.0/24", claim("n", "u", version("5"))),
            ("10.0.1.0/24", claim("n", "u", version("4"))),
            ("10.0.9.0/24", claim("n", "u", version("5"))),
            ("10.0.2.0/24", claim("n", "older", version("5"))),
            ("10.0.3.0/24", claim("gone", "u", version("5"))),
            ("10.0.4.0/24", claim("n", "u", ClaimGuard::Creation)),
            ("10.0.8.0/24", claim("n", "u", ClaimGuard::Creation)),
            ("10.0.5.0/24", claim("gone", "u", ClaimGuard::Creation)),
        ] {
            claims.in_flight.insert(block(text), claim);
        }
        claims.quarantine(
            block("10.0.6.0/24"),
            &"old".parse().unwrap(),
            now,
            SignedDuration::ZERO,
        );
        let left = claims.live(observed, now, QUARANTINE);
        let texts =
            |blocks: Vec<&Block>| blocks.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            texts(left.in_flight.keys().collect()),
            ["10.0.0.0/24", "10.0.4.0/24", "10.0.8.0/24"]
        );
        assert_eq!(
            texts(left.quarantined.keys().collect()),
            ["10.0.2.0/24", "10.0.3.0/24", "10.0.5.0/24"]
        );
        assert!(
            left.live(
                observed,
                now.saturating_add(QUARANTINE).unwrap(),
                QUARANTINE
            )
            .quarantined
            .is_empty()
        );
    }

    #[test]
    fn a_claim_of_an_earlier_holder_does_not_end_the_quarantine_for_a_later_one() {
        let now = Timestamp::UNIX_EPOCH;
        let mut claims = Claims::default();
        claims
            .in_flight
            .insert(block("10.0.0.0/24"), claim("n", "older", version("4")));
        claims.quarantine(
            block("10.0.0.0/24"),
            &"later".parse().unwrap(),
            now,
            QUARANTINE,
        );
        let left = claims.live(observed, now, QUARANTINE);
        let holders: Vec<&str> = left.held().map(|(_, node)| node.as_str()).collect();
        assert_eq!(holders, ["later"]);
    }
}
