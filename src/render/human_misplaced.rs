//! Misplaced blocks for a person, by reason and pool.

use std::collections::BTreeMap;

use super::human::{Detail, named};
use super::text::{Paint, count, printable};
use crate::plan::MisplacedDocument;

/// What misplaced blocks have in common: code, pool, reason, way out.
type Cause<'m> = (&'m str, Option<&'m str>, &'m str, &'m str);

/// By cause, the nodes with their blocks.
pub(super) fn by_cause(misplaced: &[MisplacedDocument]) -> BTreeMap<Cause<'_>, Vec<String>> {
    let mut causes: BTreeMap<Cause<'_>, Vec<String>> = BTreeMap::new();
    for one in misplaced {
        let cause = (&*one.code, one.pool.as_deref(), &*one.reason, &*one.help);
        causes.entry(cause).or_default().push(format!("{} {}", one.name, one.block));
    }
    causes
}

pub(super) fn misplaced(misplaced: &[MisplacedDocument], detail: Detail) -> String {
    let title = Paint::Bold.on("misplaced");
    let mut text = format!("\n{title} ({}; a held block never moves by itself)\n", count(misplaced.len(), "block"));
    for ((_, pool, reason, help), blocks) in by_cause(misplaced) {
        let place = pool.map(|pool| format!(" of pool {pool}")).unwrap_or_default();
        let what = format!("{}{place}: {reason}", count(blocks.len(), "block"));
        text.push_str(&format!("  {} {}\n", Paint::Yellow.on("!"), printable(&what)));
        text.push_str(&format!("      {}\n", printable(&named(&blocks, detail))));
        text.push_str(&format!("      {}\n", Paint::Dim.on(&printable(help))));
    }
    text
}
