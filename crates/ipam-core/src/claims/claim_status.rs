//! Whether the write of a claim may still succeed.

use super::{Claim, ClaimGuard};
use crate::net::Block;

/// The object of a claim, as a list shows it. The list must have been taken after the claim was
/// read: only then is a different resourceVersion a later one.
#[derive(Clone, Debug)]
pub struct ObservedObject<'o> {
    pub uid: &'o str,
    pub resource_version: &'o str,
    /// Blocks in any of its fields.
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
        // Even if the created object exists, it may be deleted. Then a creation in flight succeeds
        // after all.
        ClaimGuard::Creation => ClaimStatus::Pending,
    }
}
