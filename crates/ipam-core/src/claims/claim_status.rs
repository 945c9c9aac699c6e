//! What has become of one claim.

use super::{Claim, ClaimGuard};
use crate::net::Block;

/// What lists show of the object of a claim. They must have been taken after the claim was read:
/// then a resourceVersion that differs from the claim's is a later one.
#[derive(Clone, Debug)]
pub struct Witness<'w> {
    /// The object's UID.
    pub uid: &'w str,
    /// Its resourceVersion.
    pub resource_version: &'w str,
    /// The blocks that it shows, in any field.
    pub shown: Vec<Block>,
}

/// What has become of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimStatus {
    /// Its write may still land.
    Pending,
    /// The object shows the block, so the object is the record.
    Shown,
    /// The resourceVersion has moved, so its write can no longer land. That the object shows some
    /// other block proves nothing by itself: a write that was read before that one may be under
    /// way.
    Missed,
    /// The very object is gone. Its write may have landed before, so the block must rest.
    Orphaned,
}

/// What has become of a claim; `None` is that complete lists do not have it.
pub fn claim_status(block: Block, claim: &Claim, witness: Option<&Witness<'_>>) -> ClaimStatus {
    let Some(witness) = witness.filter(|witness| witness.uid == claim.uid) else {
        return ClaimStatus::Orphaned;
    };
    match &claim.guard {
        ClaimGuard::Version(_) if witness.shown.contains(&block) => ClaimStatus::Shown,
        ClaimGuard::Version(version) if version == witness.resource_version => ClaimStatus::Pending,
        ClaimGuard::Version(_) => ClaimStatus::Missed,
        // Whatever the created object shows, it may be deleted, and then a creation that is under
        // way lands after all.
        ClaimGuard::Creation => ClaimStatus::Pending,
    }
}
