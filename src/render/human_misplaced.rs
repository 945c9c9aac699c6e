//! Misplaced blocks for a person, by reason and pool.

use std::collections::BTreeSet;

use super::causes;
use super::human::{Detail, codes_of, further, named};
use super::text::{Paint, count, printable};
use ipam_planner::plan::MisplacedDocument;

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
