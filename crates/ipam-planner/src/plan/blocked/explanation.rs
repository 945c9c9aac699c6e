//! The two texts of a blocked change.

/// Why a change must wait, and what unblocks it.
pub(in crate::plan) struct Explanation {
    pub(in crate::plan) reason: String,
    pub(in crate::plan) unblock: String,
}

impl Explanation {
    pub(in crate::plan) fn new(
        reason: impl Into<String>,
        unblock: impl Into<String>,
    ) -> Explanation {
        Explanation {
            reason: reason.into(),
            unblock: unblock.into(),
        }
    }
}
