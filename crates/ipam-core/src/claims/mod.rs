//! Claims: blocks that are spoken for before they are written, and blocks that rest after they were
//! freed.
//!
//! This is what keeps a block from being given twice by several applies, killed and paused ones
//! included, without any clock. The rules are pure functions over what was read; they know nothing
//! of pools, nor of where the claims are kept.
//!
//! The order that whoever uses them must keep: read the claims; then list CiliumNodes, then Nodes;
//! decide; replace the claims, provided that they are still the version that was read; only then
//! write, and every write guarded by the UID and the resourceVersion that its claim names.

mod claim_status;
mod record;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::model::NodeName;
use crate::net::{Block, Range};

pub use claim_status::{ClaimStatus, Witness, claim_status};
pub use record::{FORMAT_VERSION, MOST_BYTES, RecordError};

/// What is spoken for, by block. Blocks of it do not overlap, unless they are of the same node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claims {
    /// Blocks for which a write may be under way.
    pub in_flight: BTreeMap<Block, Claim>,
    /// Blocks that were freed, and are not given to another node for a while.
    pub quarantined: BTreeMap<Block, Quarantined>,
}

/// A block that is about to be written for a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// The node.
    pub node: NodeName,
    /// `metadata.uid` of the object that is written: the Node, or its CiliumNode; for one that is
    /// created, the Node that will own it.
    pub uid: String,
    /// What the write depends on besides the UID.
    pub guard: ClaimGuard,
}

/// What keeps a write from landing late.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClaimGuard {
    /// The object's `metadata.resourceVersion`: once it has moved, the write fails.
    Version(String),
    /// An object that is created by the node's name: nothing but its existence makes the write
    /// fail.
    Creation,
}

/// A block that rests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quarantined {
    /// The node that had it, and that may have it back at once.
    pub node: NodeName,
    /// When others may have it.
    pub free_at: Timestamp,
}

/// A block that was wanted for a node cannot be claimed: another node has it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{block} is claimed by or resting after node `{holder}`")]
pub struct Conflict {
    /// The block that was wanted.
    pub block: Block,
    /// Who has it, or a block that overlaps it.
    pub holder: NodeName,
}

impl Claims {
    /// What is still in force: claims that are dead are gone, those of nodes that are gone rest for
    /// `rest`, and what has rested long enough is free. `witness` tells what lists show that were
    /// taken after these claims were read.
    pub fn in_force<'w>(
        &self,
        witness: impl Fn(&Claim) -> Option<Witness<'w>>,
        now: Timestamp,
        rest: SignedDuration,
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
            match claim_status(*block, claim, witness(claim).as_ref()) {
                ClaimStatus::Pending => {
                    claims.in_flight.insert(*block, claim.clone());
                }
                // A store that went back may bring the claim of an earlier holder; the block rests
                // after the later one.
                ClaimStatus::Orphaned
                    if claims
                        .quarantined
                        .get(block)
                        .is_some_and(|quarantined| quarantined.node != claim.node) => {}
                ClaimStatus::Orphaned => claims.rest(*block, &claim.node, now, rest),
                ClaimStatus::Shown | ClaimStatus::Missed => {}
            }
        }
        claims
    }

    /// Lets a freed block rest.
    pub fn rest(&mut self, block: Block, node: &NodeName, now: Timestamp, rest: SignedDuration) {
        let free_at = now.saturating_add(rest).unwrap_or(Timestamp::MAX);
        // Whole seconds: thousands of these lie in one small object.
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

    /// Adds a claim, or renews one that the node has on the same block. The claims must be those in
    /// force.
    ///
    /// # Errors
    /// Another node has the block or one that overlaps it.
    pub fn claim(&mut self, block: Block, claim: Claim) -> Result<(), Conflict> {
        if let Some((_, holder)) = self
            .overlapping(block)
            .find(|(_, holder)| **holder != claim.node)
        {
            return Err(Conflict {
                block,
                holder: holder.clone(),
            });
        }
        self.in_flight.insert(block, claim);
        Ok(())
    }

    /// What is spoken for that shares an address with a block, with its node.
    fn overlapping(&self, block: Block) -> impl Iterator<Item = (Block, &NodeName)> {
        self.held().filter(move |(held, _)| held.overlaps(block))
    }

    /// Everything that is spoken for, with its node.
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

    /// The addresses of everything that is spoken for.
    pub fn ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.held().map(|(block, _)| block.range())
    }

    /// Whether nothing is spoken for.
    pub fn is_empty(&self) -> bool {
        let Claims {
            in_flight,
            quarantined,
        } = self;
        in_flight.is_empty() && quarantined.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: SignedDuration = SignedDuration::from_secs(60);

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
    fn witness(claim: &Claim) -> Option<Witness<'static>> {
        (claim.node.as_str() == "n").then(|| Witness {
            uid: "u",
            resource_version: "5",
            shown: vec![block("10.0.9.0/24")],
        })
    }

    #[test]
    fn what_is_dead_is_dropped_and_what_is_orphaned_rests() {
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
        claims.rest(
            block("10.0.6.0/24"),
            &"old".parse().unwrap(),
            now,
            SignedDuration::ZERO,
        );
        let left = claims.in_force(witness, now, REST);
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
            left.in_force(witness, now.saturating_add(REST).unwrap(), REST)
                .quarantined
                .is_empty()
        );
    }

    #[test]
    fn a_claim_of_an_earlier_holder_does_not_end_the_rest_after_the_later_one() {
        let now = Timestamp::UNIX_EPOCH;
        let mut claims = Claims::default();
        claims
            .in_flight
            .insert(block("10.0.0.0/24"), claim("n", "older", version("4")));
        claims.rest(block("10.0.0.0/24"), &"later".parse().unwrap(), now, REST);
        let left = claims.in_force(witness, now, REST);
        let holders: Vec<&str> = left.held().map(|(_, node)| node.as_str()).collect();
        assert_eq!(holders, ["later"]);
    }

    #[test]
    fn an_overlap_with_another_node_is_refused() {
        let mut claims = Claims::default();
        claims
            .claim(block("10.0.0.0/24"), claim("n", "u", version("1")))
            .unwrap();
        claims
            .claim(block("10.0.0.0/24"), claim("n", "u", version("2")))
            .unwrap();
        claims
            .claim(block("10.0.0.0/25"), claim("n", "u", version("2")))
            .unwrap();
        let refused = claims
            .claim(block("10.0.0.128/25"), claim("m", "v", version("1")))
            .unwrap_err();
        assert_eq!(refused.holder.as_str(), "n");
        claims.rest(
            block("10.1.0.0/24"),
            &"n".parse().unwrap(),
            Timestamp::UNIX_EPOCH,
            REST,
        );
        assert!(
            claims
                .claim(block("10.1.0.0/16"), claim("m", "v", version("1")))
                .is_err()
        );
        assert!(
            claims
                .claim(block("10.1.0.0/24"), claim("n", "w", version("1")))
                .is_ok()
        );
    }
}
