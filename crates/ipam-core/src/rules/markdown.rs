//! The rule pages as Markdown: one page for each family, and an index. Must never know where the
//! files are kept.

use super::{RuleFamily, RulePage, families};

/// Name and text of every file of the reference.
pub fn files() -> Vec<(String, String)> {
    let of_family = |family: &RuleFamily| (format!("{}.md", family.name), family_page(family));
    std::iter::once(("index.md".to_owned(), index()))
        .chain(families().iter().map(of_family))
        .collect()
}

/// Every page in one text.
pub fn all() -> String {
    let mut text = "# Rule codes\n".to_owned();
    for one in families().iter().flat_map(|family| &family.pages) {
        text.push_str(&format!("\n{}", page(one)));
    }
    text
}

/// One page: a heading, which is also the anchor, and its parts.
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

fn family_page(family: &RuleFamily) -> String {
    let RuleFamily {
        name,
        title,
        about,
        pages,
    } = family;
    let mut text = generated(&format!("rules/{name}.txt"));
    text.push_str(&format!("# {title}\n\n{about}\n\n"));
    text.push_str(&table(pages, ""));
    for one in pages {
        text.push_str(&format!("\n{}", page(one)));
    }
    text
}

fn index() -> String {
    let mut text = generated("rules/*.txt");
    text.push_str(
        "# Rule codes\n\n\
         Every finding, refusal and blocked change has a code. Codes are stable: they never get\n\
         another meaning. The terminal prints the page of a code without a network:\n\n\
         ```sh\n\
         cilium-ipam explain-rule pool-overlap\n\
         ```\n",
    );
    for family in families() {
        text.push_str(&format!("\n## {}\n\n{}\n\n", family.title, family.about));
        text.push_str(&table(&family.pages, &format!("{}.md", family.name)));
    }
    text
}

fn table(pages: &[RulePage], file: &str) -> String {
    let row = |page: &RulePage| {
        let code = page.code;
        format!("| [`{code}`]({file}#{code}) | {} |\n", page.summary)
    };
    let rows: String = pages.iter().map(row).collect();
    format!("| code | meaning |\n|---|---|\n{rows}")
}

fn generated(source: &str) -> String {
    format!(
        "<!-- Written by `cilium-ipam explain-rule --out-dir`. Edit crates/ipam-core/{source}. -->\n\n"
    )
}
