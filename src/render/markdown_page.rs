//! A Markdown page of limited size. Parts that no longer fit are named with their counts, never cut
//! in the middle. Knows nothing of plans.

use super::markup::{Markup, Phrase, prose};
use super::text::count;

/// Bytes of the whole page: the large Git hosts take 65,535 characters.
const LIMIT: usize = 65_000;

/// Bytes for the names of the parts that are left out.
const NAMES: usize = 400;

/// Bytes for the words around these names.
const WORDS: usize = 100;

pub(super) struct Page<'t> {
    text: String,
    tail: &'t str,
    left_out: Vec<Markup>,
}

impl<'t> Page<'t> {
    pub(super) fn new(text: String, tail: &'t str) -> Page<'t> {
        Page {
            text,
            tail,
            left_out: Vec::new(),
        }
    }

    /// Whether a part fits into the first `1 / share` of the page, with room for the tail and for
    /// the names of the parts that are left out.
    fn fits(&self, part: &str, share: usize) -> bool {
        self.text.len() + part.len() + self.tail.len() + NAMES + WORDS <= LIMIT / share
    }

    /// The lines of a list that fit into the first `1 / share` of the page. `one` names an entry,
    /// to count the others.
    pub(super) fn list(&mut self, lines: &[String], share: usize, one: &str) {
        for (index, line) in lines.iter().enumerate() {
            if !self.fits(line, share) {
                self.left_out.push(prose(&count(lines.len() - index, one)));
                break;
            }
            self.text.push_str(line);
        }
    }

    pub(super) fn end_list(&mut self) {
        self.text.push('\n');
    }

    /// A table that is folded away.
    pub(super) fn table<const N: usize>(
        &mut self,
        title: Phrase,
        heading: [&str; N],
        rows: &[[Markup; N]],
    ) {
        if rows.is_empty() {
            return;
        }
        let (summary, heading, line) = (title.html(), heading.join(" | "), "---|".repeat(N));
        let mut table =
            format!("\n<details><summary>{summary}</summary>\n\n| {heading} |\n|{line}\n");
        for row in rows {
            let cells: Vec<&str> = row.iter().map(Markup::as_str).collect();
            table.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        table.push_str("\n</details>\n");
        self.part(&table, title.markdown());
    }

    /// A part if it fits, or else its name among those that are left out.
    pub(super) fn part(&mut self, part: &str, name: Markup) {
        if self.fits(part, 1) {
            self.text.push_str(part)
        } else {
            self.left_out.push(name)
        }
    }

    pub(super) fn finish(self) -> String {
        let left_out = if self.left_out.is_empty() {
            String::new()
        } else {
            names_of(&self.left_out)
        };
        self.text + &left_out + self.tail
    }
}

/// The names of the parts that are left out, in at most [`NAMES`] bytes, and the number of the
/// others.
fn names_of(left_out: &[Markup]) -> String {
    let mut names = String::new();
    let mut shown = 0;
    for name in left_out {
        if names.len() + name.as_str().len() + 2 > NAMES {
            break;
        }
        names.push_str(if names.is_empty() { "" } else { "; " });
        names.push_str(name.as_str());
        shown += 1;
    }
    let rest = match (left_out.len() - shown, shown) {
        (0, _) => String::new(),
        (others, 0) => count(others, "part"),
        (others, _) => format!("; and {}", count(others, "more part")),
    };
    format!("\nToo long for a comment, see the JSON output: {names}{rest}\n")
}
