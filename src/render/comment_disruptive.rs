//! Changes that running Pods feel, for the comment of a pull request: nodes that move, and other
//! changes that take effect when an agent restarts.

use super::comment_changes::{NODES, further_rows};
use super::comment_moves::what_it_means;
use super::human::short_name;
use super::markdown_page::{Entry, Fold, Page, Table, UpTo};
use super::markup::{Markup, Phrase, code, codes, prose};
use super::natural::by_name;
use super::text::count;
use ipam_planner::plan::{ChangeDocument, Intent};

/// Nodes that move, and other changes that need a restart, never folded away. What the first lines
/// tell is not repeated.
pub(super) fn disruptive(
    page: &mut Page<'_>,
    changes: &[&ChangeDocument],
    told: Option<&ChangeDocument>,
    intent: Intent,
) {
    let disruptive = changes.iter().filter(|one| one.hazard == "disruptive");
    let all = by_name(disruptive.copied(), |change| &change.name);
    let (moves, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|change| change.moves_a_block());
    let is_told = told.is_some_and(ChangeDocument::moves_a_block);
    if let (Some(first), false) = (moves.first(), is_told) {
        let text: String = what_it_means(first, intent)
            .iter()
            .map(|(question, answer)| format!("\n- **{question}:** {}", answer.markdown()))
            .collect();
        let text = match text.is_empty() {
            true => text,
            false => format!("\n**Each node that moves:**\n{text}\n"),
        };
        page.part(Entry { text, count: 0 }, "move");
    }
    moving_nodes(page, &without_told(moves, told));
    restarts(page, &without_told(others, told));
}

/// Empty if the first lines tell the only change.
fn without_told<'p>(
    changes: Vec<&'p ChangeDocument>,
    told: Option<&ChangeDocument>,
) -> Vec<&'p ChangeDocument> {
    match (&changes[..], told) {
        ([only], Some(told)) if std::ptr::eq(*only, told) => Vec::new(),
        _ => changes,
    }
}

fn moving_nodes(page: &mut Page<'_>, moves: &[&ChangeDocument]) {
    let row = |c: &&ChangeDocument| {
        let pin = c.origin.as_ref();
        let pin = pin.map(|origin| code(&format!("{}:{}", origin.file, origin.line)));
        [
            code(&c.name),
            codes(&c.before),
            codes(&c.after),
            pin.unwrap_or_else(|| prose(&c.reason)),
        ]
    };
    let title = Phrase::new(&format!(
        "move when their agents restart, {}",
        count(moves.len(), "node")
    ));
    let heading = ["node", "from", "to", "pinned by"];
    open_table(page, moves, (title, heading, "move"), row);
}

/// Changes that take effect only when an agent restarts, but move nothing.
fn restarts(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let title = Phrase::new(&format!(
        "when the agent restarts, {}",
        count(changes.len(), "change")
    ));
    let name = |c: &ChangeDocument| code(&short_name(&c.kind, &c.name));
    match same(changes, |change| change.reason.clone()) {
        Some(reason) => {
            let row = |c: &&ChangeDocument| [name(c), codes(&c.before), codes(&c.after)];
            let title = title.words(": ").sentence(&reason);
            let heading = ["object", "before", "after"];
            open_table(page, changes, (title, heading, "disruptive change"), row);
        }
        None => {
            let row = |c: &&ChangeDocument| {
                [name(c), codes(&c.before), codes(&c.after), prose(&c.reason)]
            };
            let heading = ["object", "before", "after", "why"];
            open_table(page, changes, (title, heading, "disruptive change"), row);
        }
    }
}

/// A table that is never folded away, with a title, a heading and a noun.
fn open_table<const N: usize>(
    page: &mut Page<'_>,
    changes: &[&ChangeDocument],
    (title, heading, noun): (Phrase, [&str; N], &'static str),
    row: impl Fn(&&ChangeDocument) -> [Markup; N],
) {
    let mut rows = page.each(changes.iter().take(NODES), |_| 1, row);
    rows.extend(further_rows(changes.len()));
    page.table(Table {
        title,
        heading,
        rows,
        noun,
        fold: Fold::Open,
        up_to: UpTo(6),
    });
}

/// The text that two or more changes have in common.
fn same(changes: &[&ChangeDocument], text: impl Fn(&ChangeDocument) -> String) -> Option<String> {
    let (first, rest) = changes.split_first()?;
    let common = text(first);
    let all = !rest.is_empty() && rest.iter().all(|change| text(change) == common);
    all.then_some(common)
}
