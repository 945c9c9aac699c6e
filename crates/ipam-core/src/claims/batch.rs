//! Claims of many writes at once: which of them may be sent, and the claims before and after.
//!
//! Knows nothing of plans: each write is a [`ClaimRequest`].

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Claim, ClaimGuard, Claims, Conflict};
use crate::model::NodeName;
use crate::net::{Block, RangeIndex, overlapping_pairs};

/// What one write for a node asks of the claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest<'c> {
    pub node: &'c NodeName,
    /// `metadata.uid` of the Node.
    pub node_uid: &'c str,
    /// `metadata.uid` of the object that is written; for one that is created, that of the Node.
    pub uid: &'c str,
    /// What keeps the write from landing late.
    pub guard: ClaimGuard,
    /// Blocks that the written field comes to show and does not show yet.
    pub new_blocks: BTreeSet<Block>,
    /// All blocks that the written field will show.
    pub written: BTreeSet<Block>,
    /// Blocks that the written field no longer shows.
    pub freed: Vec<Block>,
}

/// Claims of other nodes, found by address.
pub struct ClaimIndex<'c> {
    claims: &'c Claims,
    by_address: RangeIndex<&'c NodeName>,
}

impl<'c> ClaimIndex<'c> {
    /// `claims` must be the live claims.
    pub fn new(claims: &'c Claims) -> ClaimIndex<'c> {
        let by_address = RangeIndex::new(claims.held().map(|(block, node)| (block.range(), node)));
        ClaimIndex { claims, by_address }
    }

    /// Another node for which an overlapping block is claimed or quarantined.
    pub fn claimant(&self, block: Block, node: &NodeName) -> Option<&'c NodeName> {
        self.by_address
            .overlapping(&block.range())
            .map(|(_, other)| *other)
            .filter(|other| *other != node)
            .min()
    }

    /// The first new block that is claimed already: for another node, or for another object of the
    /// same node. The latter ends when that object changes.
    pub fn conflict(&self, request: &ClaimRequest<'_>) -> Option<Conflict> {
        let holder = |block: Block| {
            self.claimant(block, request.node)
                .or_else(|| self.claimed_elsewhere(block, request))
        };
        request.new_blocks.iter().find_map(|block| {
            Some(Conflict {
                block: *block,
                holder: holder(*block)?.clone(),
            })
        })
    }

    /// The node itself, if the block is about to be written into another object of it. An object
    /// that is still to be created is never one that exists.
    fn claimed_elsewhere(&self, block: Block, request: &ClaimRequest<'_>) -> Option<&'c NodeName> {
        let is_elsewhere = |claim: &&Claim| match (&claim.guard, &request.guard) {
            (ClaimGuard::Creation, _) => false,
            (ClaimGuard::Version(_), ClaimGuard::Creation) => true,
            (ClaimGuard::Version(_), ClaimGuard::Version(_)) => claim.uid != request.uid,
        };
        self.claims
            .in_flight
            .get(&block)
            .filter(is_elsewhere)
            .map(|claim| &claim.node)
    }
}

impl Claims {
    /// The claims with those of these writes, and the requests, by their index, that must not be
    /// written because another node has one of their blocks.
    ///
    /// `self` must be the live claims. Freed blocks are quarantined before the write, so that a
    /// kill in between forgets nothing.
    pub fn claim_batch(
        &self,
        requests: &[ClaimRequest<'_>],
        now: Timestamp,
        quarantine: SignedDuration,
    ) -> (Claims, BTreeMap<usize, Conflict>) {
        let conflicts = self.conflicts(requests);
        let mut claims = self.clone();
        let accepted = requests
            .iter()
            .enumerate()
            .filter(|(index, _)| !conflicts.contains_key(index));
        for (_, request) in accepted {
            for block in &request.new_blocks {
                if !claims.is_being_created(*block, request) {
                    claims.in_flight.insert(*block, request.claim());
                }
            }
            claims.quarantine_freed(request, now, quarantine);
        }
        (claims, conflicts)
    }

    /// The claims after these writes were applied: their objects are the record now, and the blocks
    /// that they freed are quarantined from now on.
    ///
    /// Claims of other writes stay, and so do those of objects that were created by name.
    pub fn settle<'c>(
        &self,
        applied: impl IntoIterator<Item = ClaimRequest<'c>>,
        now: Timestamp,
        quarantine: SignedDuration,
    ) -> Claims {
        let mut claims = self.clone();
        for request in applied {
            let is_of_this_write = |claim: &Claim| {
                let is_guarded = matches!(claim.guard, ClaimGuard::Version(_));
                is_guarded && claim.node == *request.node && claim.uid == request.uid
            };
            for block in &request.written {
                if claims.in_flight.get(block).is_some_and(is_of_this_write) {
                    claims.in_flight.remove(block);
                }
            }
            claims.quarantine_freed(&request, now, quarantine);
        }
        claims
    }

    /// Requests with a block that another node has, or that an earlier request gives to another
    /// node. A plan has no such pair, but uniqueness must not depend on that.
    fn conflicts(&self, requests: &[ClaimRequest<'_>]) -> BTreeMap<usize, Conflict> {
        let index = ClaimIndex::new(self);
        let mut conflicts: BTreeMap<usize, Conflict> = requests
            .iter()
            .enumerate()
            .filter_map(|(place, request)| Some((place, index.conflict(request)?)))
            .collect();
        let wanted = requests.iter().enumerate().flat_map(|(place, request)| {
            let blocks = request.new_blocks.iter();
            blocks.map(move |block| (block.range(), place))
        });
        for (one, other) in overlapping_pairs(wanted) {
            let (first, second) = (one.min(other), one.max(other));
            let (holder, request) = (requests[first].node, &requests[second]);
            let block = request.new_blocks.first();
            if let Some(block) = block.filter(|_| holder != request.node) {
                let (block, holder) = (*block, holder.clone());
                conflicts.insert(second, Conflict { block, holder });
            }
        }
        conflicts
    }

    /// Whether the block is claimed for an object of this Node that is being created: that creation
    /// may still land.
    fn is_being_created(&self, block: Block, request: &ClaimRequest<'_>) -> bool {
        self.in_flight.get(&block).is_some_and(|claim| {
            claim.guard == ClaimGuard::Creation && claim.uid == request.node_uid
        })
    }

    fn quarantine_freed(
        &mut self,
        request: &ClaimRequest<'_>,
        now: Timestamp,
        quarantine: SignedDuration,
    ) {
        for block in &request.freed {
            self.quarantine(*block, request.node, now, quarantine);
        }
    }
}

impl ClaimRequest<'_> {
    fn claim(&self) -> Claim {
        Claim {
            node: self.node.clone(),
            uid: self.uid.to_owned(),
            guard: self.guard.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUARANTINE: SignedDuration = SignedDuration::from_secs(60);

    fn request<'c>(node: &'c NodeName, uid: &'c str, block: &str) -> ClaimRequest<'c> {
        let blocks: BTreeSet<Block> = [block.parse().unwrap()].into();
        ClaimRequest {
            node,
            node_uid: uid,
            uid,
            guard: ClaimGuard::Version("1".to_owned()),
            new_blocks: blocks.clone(),
            written: blocks,
            freed: Vec::new(),
        }
    }

    #[test]
    fn of_two_requests_for_one_block_the_first_gets_it() {
        let (a, b): (NodeName, NodeName) = ("a".parse().unwrap(), "b".parse().unwrap());
        let requests = [
            request(&a, "1", "10.0.0.0/24"),
            request(&b, "2", "10.0.0.0/25"),
        ];
        let now = Timestamp::UNIX_EPOCH;
        let (claims, conflicts) = Claims::default().claim_batch(&requests, now, QUARANTINE);
        assert_eq!(conflicts.keys().copied().collect::<Vec<_>>(), [1]);
        assert_eq!(conflicts[&1].holder, a);
        assert_eq!(claims.held().count(), 1);
        let [first, _] = requests;
        assert!(claims.settle([first], now, QUARANTINE).is_empty());
    }

    #[test]
    fn another_object_of_the_same_node_is_a_conflict() {
        let node: NodeName = "a".parse().unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let first = [request(&node, "1", "10.0.0.0/24")];
        let (claims, _) = Claims::default().claim_batch(&first, now, QUARANTINE);
        let second = [request(&node, "2", "10.0.0.0/24")];
        let (_, conflicts) = claims.claim_batch(&second, now, QUARANTINE);
        assert_eq!(conflicts[&0].holder, node);
        let (_, conflicts) = claims.claim_batch(&first, now, QUARANTINE);
        assert!(conflicts.is_empty());
    }

    #[test]
    fn only_another_node_is_a_claimant() {
        let (a, b): (NodeName, NodeName) = ("a".parse().unwrap(), "b".parse().unwrap());
        let now = Timestamp::UNIX_EPOCH;
        let first = [request(&a, "1", "10.0.0.0/24")];
        let (mut claims, _) = Claims::default().claim_batch(&first, now, QUARANTINE);
        claims.quarantine("10.1.0.0/24".parse().unwrap(), &a, now, QUARANTINE);
        let index = ClaimIndex::new(&claims);
        for overlapping in ["10.0.0.0/24", "10.0.0.128/25", "10.1.0.0/16"] {
            let block = overlapping.parse().unwrap();
            assert_eq!(index.claimant(block, &b), Some(&a));
            assert_eq!(index.claimant(block, &a), None);
        }
        assert_eq!(index.claimant("10.2.0.0/24".parse().unwrap(), &b), None);
    }
}
