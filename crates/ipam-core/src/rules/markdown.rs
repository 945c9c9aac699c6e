//! The rule pages as Markdown. Must never know where they are kept.

use super::{RulePage, families};

/// Every page in one text.
pub fn all() -> String {
    let mut text = "# Finding codes\n".to_owned();
    for one in families().iter().flat_map(|family| &family.pages) {
        text.push_str(&format!("\n{}", page(one)));
    }
    text
}

/// Markdown of one rule: a heading, which is also the anchor, and the parts of the page.
pub fn page(page: &RulePage) -> String {
    entry(page, &page.place())
}

/// As [`page`], but with `note` in place of the kinds and commands. An empty note is omitted.
pub fn entry(page: &RulePage, note: &str) -> String {
    let RulePage {
        code,
        summary,
        seen,
        why,
        action,
        ..
    } = page;
    let note = match note {
        "" => String::new(),
        note => format!("*{note}.*\n\n"),
    };
    format!("## {code}\n\n{summary}\n{seen}\n\n{note}**Why:** {why}\n\n**Fix:** {action}\n")
}
