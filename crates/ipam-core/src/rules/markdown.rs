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
    let mut text = format!(
        "## {}\n\n{}\n\n*{}.*\n",
        page.code,
        page.summary,
        page.place()
    );
    for (heading, body) in page.sections() {
        text.push_str(&format!("\n**{heading}**\n\n{body}\n"));
    }
    text
}
