//! A plan that is limited by `--target` or `--exclude`, in words.

use super::text::printable;
use ipam_planner::plan::SelectionDocument;

/// `limited by --target node/n1`; empty for a whole plan.
pub(super) fn by(selection: Option<&SelectionDocument>) -> String {
    selection
        .map(|selection| format!("limited by {}", printable(&selection.flags())))
        .unwrap_or_default()
}
