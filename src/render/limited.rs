//! A plan that is limited by `--target` or `--exclude`: what it leaves out, in words.

use super::headlines::{no_changes_to, without_zeros};
use super::text::{count, printable};
use ipam_planner::plan::{LeftOut, SelectionDocument, Summary};

/// ` 12 changes are not in this plan.`; empty for a whole plan.
pub(super) fn left_out(summary: &Summary) -> String {
    let Some(LeftOut {
        changes,
        blocked,
        misplaced,
        drifted,
        findings,
    }) = &summary.left_out
    else {
        return String::new();
    };
    let counts = [
        (*changes, count(*changes, "change")),
        (*blocked, count(*blocked, "blocked change")),
        (*misplaced, count(*misplaced, "misplaced node")),
        (*drifted, count(*drifted, "drifted node")),
        (*findings, count(*findings, "finding")),
    ];
    let all = changes + blocked + misplaced + drifted + findings;
    let texts: Vec<String> = without_zeros(counts).collect();
    match (all, texts.join(", ")) {
        (0, _) => " Nothing else is pending.".to_owned(),
        (1, text) => format!(" {text} is not in this plan."),
        (_, text) => format!(" {text} are not in this plan."),
    }
}

/// The headline of a limited plan without changes. It never speaks for the whole cluster.
pub(super) fn no_changes(summary: &Summary) -> String {
    let selected = match summary.nodes {
        0 => "the selected objects".to_owned(),
        nodes => count(nodes, "selected node"),
    };
    format!("{}.", no_changes_to(&format!(" to {selected}"), summary))
}

/// `limited by --target node/n1`; empty for a whole plan.
pub(super) fn by(selection: Option<&SelectionDocument>) -> String {
    selection
        .map(|selection| format!("limited by {}", printable(&selection.flags())))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_selected_nodes_come_first() {
        let summary = Summary {
            nodes: 1,
            blocked: 1,
            left_out: Some(LeftOut::default()),
            ..Summary::default()
        };
        assert_eq!(
            no_changes(&summary),
            "1 blocked; no changes to 1 selected node can be made now."
        );
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let text = |left_out| {
            super::left_out(&Summary {
                left_out,
                ..Summary::default()
            })
        };
        assert_eq!(text(None), "");
        assert_eq!(text(Some(LeftOut::default())), " Nothing else is pending.");
        let some = LeftOut {
            changes: 12,
            blocked: 1,
            ..LeftOut::default()
        };
        assert_eq!(
            text(Some(some)),
            " 12 changes, 1 blocked change are not in this plan."
        );
        let one = LeftOut {
            changes: 1,
            ..LeftOut::default()
        };
        assert_eq!(text(Some(one)), " 1 change is not in this plan.");
    }
}
