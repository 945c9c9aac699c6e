//! Misplaced blocks for a person, by reason and pool.
//!
//! Blocks of a plan that a person must approve, for a person at a terminal.
//!
//! Drift for a person at a terminal, by field and author.

use std::collections::BTreeSet;

use super::causes::{self, DriftCause};
use super::human::{Detail, codes_of, further, limit, more, named, short_name};
use super::text::{Paint, count, printable};
use ipam_core::text::by_name;
use ipam_plan::plan::{
    ChangeDocument, DriftDocument, MisplacedDocument, Summary, UnapprovedBlockDocument,
};

/// Empty where no block is misplaced.
pub(super) fn misplaced(misplaced: &[MisplacedDocument], detail: Detail) -> String {
    if misplaced.is_empty() {
        return String::new();
    }
    let causes = causes::misplaced(misplaced, detail);
    let title = Paint::Bold.on("misplaced");
    let mut text = format!(
        "\n{title} ({}; a held block never moves by itself)\n",
        how_many(misplaced)
    );
    for cause in &causes.shown {
        let place = cause
            .pool
            .map(|pool| format!(" of pool {pool}"))
            .unwrap_or_default();
        let what = format!(
            "{}{place}: {}",
            count(cause.blocks.len(), "block"),
            cause.reason
        );
        let blocks: Vec<String> = cause
            .blocks
            .iter()
            .map(|one| format!("{} {}", one.name, one.block))
            .collect();
        text.push_str(&format!(
            "  {} {}\n",
            Paint::Yellow.on("!"),
            printable(&what)
        ));
        text.push_str(&format!("      {}\n", printable(&named(&blocks, detail))));
        text.push_str(&format!(
            "      {}\n",
            Paint::Dim.on(&printable(cause.help))
        ));
    }
    text += &further(causes.further());
    text + &codes_of(misplaced.iter().map(|one| one.code.as_str()))
}

/// `3 blocks of 2 nodes`: a node may have one of each family.
pub(super) fn how_many(misplaced: &[MisplacedDocument]) -> String {
    let nodes: BTreeSet<&str> = misplaced.iter().map(|one| one.name.as_str()).collect();
    format!(
        "{} of {}",
        count(misplaced.len(), "block"),
        count(nodes.len(), "node")
    )
}

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

/// Empty where nothing drifted.
pub(super) fn drift(drift: &[DriftDocument], detail: Detail) -> String {
    if drift.is_empty() {
        return String::new();
    }
    let heading = Paint::Bold.on("drift");
    let mut text = format!("\n{heading} ({})\n", count(drift.len(), "field"));
    let causes = causes::drift(drift, detail);
    for cause in &causes.shown {
        text.push_str(&of_cause(cause, detail));
    }
    text + &further(causes.further())
}

fn of_cause(cause: &DriftCause<'_>, detail: Detail) -> String {
    let sign = Paint::Yellow.on("?");
    if let [only] = cause.entries[..] {
        let author = match (&only.manager, &only.time) {
            (Some(manager), Some(time)) => format!(", written by {manager} at {time}"),
            (Some(_) | None, _) => String::new(),
        };
        let name = short_name(only.kind, &only.name);
        let line = format!(
            "{name}  {} shows {}, expected {}{author}",
            only.field, only.seen, only.expected
        );
        return format!("  {sign} {}\n", printable(&line));
    }
    let author = cause
        .manager
        .map(|manager| format!(", written by {manager}"))
        .unwrap_or_default();
    let what = format!(
        "{}: {} differs{author}",
        count(cause.entries.len(), "object"),
        cause.field
    );
    let one = |entry: &&DriftDocument| {
        let name = short_name(entry.kind, &entry.name);
        format!("{name} shows {} (expected {})", entry.seen, entry.expected)
    };
    let objects: Vec<String> = cause.entries.iter().map(one).collect();
    format!(
        "  {sign} {}\n      {}\n",
        printable(&what),
        printable(&named(&objects, detail))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_core::model::{Hazard, ObjectVersion};
    use ipam_plan::plan::{ChangeAction, EditDocument, TargetKind, WriterDocument};

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
            action: ChangeAction::Assign,
            kind: TargetKind::Node,
            name: format!("n{number:02}"),
            write_path: "node-spec".into(),
            before: Vec::new(),
            after: vec![block.block.clone()],
            pool: None,
            failure_domain: None,
            reason: String::new(),
            hazard: Hazard::None,
            edit: EditDocument::AddressPool(None),
            undo: None,
            guard: ObjectVersion::default(),
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
