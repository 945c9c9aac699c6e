//! Blocks of a plan that a person must approve, for a person at a terminal.

use super::human::{Detail, limit, more};
use super::natural::by_name;
use super::text::{Paint, printable};
use ipam_planner::plan::{ChangeDocument, Summary, UnapprovedBlockDocument};

/// Empty if no block needs approval.
pub(super) fn blocks(summary: &Summary, changes: &[ChangeDocument], detail: Detail) -> String {
    let Some(headline) = summary.approval_headline() else {
        return String::new();
    };
    let all: Vec<_> = unapproved(changes).collect();
    let mut text = format!("\n{}\n", Paint::Bold.on(&headline));
    for (change, block) in all.iter().take(limit(detail)) {
        text.push_str(&format!(
            "  {} {}  {}\n      {}\n",
            Paint::Red.on("!"),
            printable(&change.name),
            printable(&block.block),
            printable(&evidence(block))
        ));
    }
    text + &more(all.len().saturating_sub(limit(detail)))
}

/// Every block that needs approval, with its change.
pub(super) fn unapproved(
    changes: &[ChangeDocument],
) -> impl Iterator<Item = (&ChangeDocument, &UnapprovedBlockDocument)> {
    by_name(changes, |change| &change.name)
        .into_iter()
        .flat_map(|change| {
            change
                .needs_approval
                .iter()
                .map(move |block| (change, block))
        })
}

/// The field that shows the block, its last writer, and why no pool would give it.
pub(super) fn evidence(block: &UnapprovedBlockDocument) -> String {
    let UnapprovedBlockDocument {
        block: _,
        source,
        writer,
        code: _,
        reason,
    } = block;
    let writer = writer
        .as_ref()
        .map(|writer| format!(", written by {} at {}", writer.manager, writer.time))
        .unwrap_or_default();
    format!("only {source} shows it{writer}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_planner::plan::{EditDocument, GuardDocument, WriterDocument};

    fn change(number: usize) -> ChangeDocument {
        let block = UnapprovedBlockDocument {
            block: format!("10.0.{number}.0/24"),
            source: "CiliumNode.spec.ipam.podCIDRs".into(),
            writer: Some(WriterDocument {
                manager: "agent\u{1b}[2K".into(),
                time: "2026-02-01T10:00:00Z".into(),
            }),
            code: "in-no-pool".into(),
            reason: "the block lies in no pool".into(),
        };
        ChangeDocument {
            action: "assign".into(),
            kind: "Node".into(),
            name: format!("n{number:02}"),
            write_path: "node-spec".into(),
            before: Vec::new(),
            after: vec![block.block.clone()],
            pool: None,
            failure_domain: None,
            reason: String::new(),
            hazard: "none".into(),
            edit: EditDocument::AddressPool(None),
            undo: None,
            guard: GuardDocument {
                uid: String::new(),
                resource_version: String::new(),
            },
            origin: None,
            needs_approval: vec![block],
        }
    }

    #[test]
    fn blocks_beyond_the_limit_are_counted() {
        let changes: Vec<ChangeDocument> = (0..12).map(change).collect();
        let summary = Summary {
            needs_approval: 12,
            ..Summary::default()
        };
        let short = blocks(&summary, &changes, Detail::Short);
        assert!(short.contains("12 blocks"), "{short}");
        assert!(short.contains("n09") && !short.contains("n10"), "{short}");
        assert!(short.contains("… and 2 more"), "{short}");
        assert!(
            short.contains(
                "only CiliumNode.spec.ipam.podCIDRs shows it, written by agent\\u{1b}[2K at"
            ),
            "{short}"
        );
        let full = blocks(&summary, &changes, Detail::Full);
        assert!(full.contains("n11") && !full.contains("more"), "{full}");
        assert_eq!(blocks(&Summary::default(), &[], Detail::Short), "");
    }
}
