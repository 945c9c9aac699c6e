//! What an upgrade of Cilium changes, as Markdown for a change ticket. It fits into the limit of the
//! large Git hosts.

use super::markdown_page::{Entry, Page, PageLimit, UpTo, WHOLE};
use super::markup::{code, prose};
use super::text::grouped_digits;
use super::upgrade::{headline, nothing, target};
use ipam_planner::upgrade::{
    HopDocument, ObjectDocument, UnjudgedDocument, UpgradeChangeDocument, UpgradeDocument,
};

/// The upgrade as Markdown.
pub fn upgrade_markdown(document: &UpgradeDocument, limit: PageLimit) -> String {
    let tail = format!("\nRunning version by {}.\n", prose(&document.from_source));
    let mut page = Page::new(
        limit,
        format!("### {}\n", prose(&headline(document))),
        &tail,
    );
    unjudged(&mut page, &document.unjudged);
    let hops = document.hops.len().max(1);
    for (index, hop) in document.hops.iter().enumerate() {
        // Each hop leaves room for those after it.
        let eighths = WHOLE.0.saturating_sub(hops - 1 - index).max(2);
        one_hop(&mut page, hop, document.unjudged.len(), UpTo(eighths));
    }
    page.finish()
}

fn unjudged(page: &mut Page<'_>, parts: &[UnjudgedDocument]) {
    let lines = page.each(
        parts,
        |_| 1,
        |UnjudgedDocument { what, why, hides }| {
            format!(
                "\n- **not judged** {}: {}; this hides {}",
                code(what),
                prose(why),
                prose(hides)
            )
        },
    );
    page.list(lines, UpTo(2), "part");
}

fn one_hop(page: &mut Page<'_>, hop: &HopDocument, unjudged: usize, up_to: UpTo) {
    let HopDocument { from, to, changes } = hop;
    let nothing = match changes.is_empty() {
        true => format!("\n{}.\n", capitalized(nothing(from, to, unjudged))),
        false => String::new(),
    };
    let title = format!("\n#### {from} to {}\n{nothing}", target(from, to));
    page.part(Entry::one(title), "hop");
    let lines = page.each(changes, |_| 1, change_text);
    page.list(lines, up_to, "change");
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}

fn change_text(change: &UpgradeChangeDocument) -> String {
    let UpgradeChangeDocument {
        code: name,
        message,
        why,
        source,
        before,
        object_count,
        objects,
        files,
    } = change;
    let mut text = format!("\n- [ ] **{}** ({})", prose(message), code(name));
    for ObjectDocument { kind, name, effect } in objects {
        text += &format!("\n  - {kind} {}: {}", code(name), prose(effect));
    }
    if *object_count > objects.len() {
        let more = grouped_digits(object_count - objects.len());
        text += &format!("\n  - … and {more} more");
    }
    text += &format!("\n  - why: {}", prose(why));
    text += &format!("\n  - source: {}", prose(source));
    text += &format!("\n  - **before the hop:** {}", prose(before));
    for file in files {
        let place = format!("{}:{}", file.file, file.line);
        text += &format!("\n  - {}: {}", code(&place), prose(&file.edit));
    }
    text
}
