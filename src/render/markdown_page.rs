//! A Markdown page of limited size. It keeps whole entries, and counts those that no longer fit.
//! Knows nothing of plans.

use super::markup::{Markup, Phrase};
use super::text::count;

/// How long a whole page may be.
#[derive(Clone, Copy, Debug)]
pub struct PageLimit {
    pub bytes: usize,
    /// What would be too long.
    page: &'static str,
}

impl PageLimit {
    /// The large Git hosts take 65,535 characters.
    pub const COMMENT: PageLimit = PageLimit {
        bytes: 65_000,
        page: "comment",
    };
    /// A browser still opens a file of this size.
    pub const REPORT: PageLimit = PageLimit {
        bytes: 64 << 20,
        page: "report",
    };

    /// The same, with room for text after the page.
    pub(super) fn less(self, bytes: usize) -> PageLimit {
        PageLimit {
            bytes: self.bytes.saturating_sub(bytes),
            ..self
        }
    }
}

/// Bytes for the sentence that counts the entries that are left out.
const LEFT_OUT: usize = 500;

/// Eighths of the page that a part and all parts before it may fill, so that a long part leaves
/// room for those after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpTo(pub(super) usize);

/// The whole page.
pub(super) const WHOLE: UpTo = UpTo(8);

/// Text that stands for one or several entries, and is never cut.
pub(super) struct Entry<T> {
    pub(super) text: T,
    pub(super) count: usize,
}

impl<T> Entry<T> {
    pub(super) fn one(text: T) -> Entry<T> {
        Entry { text, count: 1 }
    }
}

impl Page<'_> {
    /// An entry for each item. Once the text is longer than a page, no further text is made: the
    /// last entry, which cannot fit, stands for the remaining items as well.
    pub(super) fn each<S, T: Measured>(
        &self,
        items: impl IntoIterator<Item = S>,
        count: impl Fn(&S) -> usize,
        text: impl Fn(S) -> T,
    ) -> Vec<Entry<T>> {
        let mut entries: Vec<Entry<T>> = Vec::new();
        let mut bytes = 0;
        for item in items {
            let count = count(&item);
            match entries.last_mut() {
                Some(last) if self.is_longer(bytes) => last.count += count,
                _ => {
                    let text = text(item);
                    bytes += text.bytes();
                    entries.push(Entry { text, count });
                }
            }
        }
        entries
    }
}

/// A text with a length.
pub(super) trait Measured {
    fn bytes(&self) -> usize;
}

impl Measured for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl<const N: usize> Measured for [Markup; N] {
    fn bytes(&self) -> usize {
        self.iter().map(|cell| cell.as_str().len()).sum()
    }
}

/// Whether a host shows a table at once or folds it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    Open,
    Folded,
}

pub(super) struct Table<'t, const N: usize> {
    pub(super) title: Phrase,
    pub(super) heading: [&'t str; N],
    pub(super) rows: Vec<Entry<[Markup; N]>>,
    /// One entry, to count those that are left out.
    pub(super) noun: &'static str,
    pub(super) fold: Fold,
    pub(super) up_to: UpTo,
}

pub(super) struct Page<'t> {
    limit: PageLimit,
    text: String,
    tail: &'t str,
    /// Where the entries are that are left out, in the imperative.
    elsewhere: &'t str,
    /// Number of entries that are left out, by their noun, in the order of the page.
    left_out: Vec<(&'static str, usize)>,
}

impl<'t> Page<'t> {
    pub(super) fn new(limit: PageLimit, text: String, tail: &'t str) -> Page<'t> {
        Page {
            limit,
            text,
            tail,
            elsewhere: "see the JSON output",
            left_out: Vec::new(),
        }
    }

    /// Names another place for the entries that are left out, as safe Markdown.
    pub(super) fn with_rest_in(self, elsewhere: &'t str) -> Page<'t> {
        Page { elsewhere, ..self }
    }

    /// Whether text of this length fits on no page.
    pub(super) fn is_longer(&self, bytes: usize) -> bool {
        bytes > self.limit.bytes
    }

    /// Whether this number of bytes fits, with room for the tail and for the counts of left-out entries.
    fn fits(&self, bytes: usize, UpTo(eighths): UpTo) -> bool {
        self.text.len() + bytes + self.tail.len() + LEFT_OUT <= self.limit.bytes * eighths / 8
    }

    fn leave_out(&mut self, noun: &'static str, entries: usize) {
        match self.left_out.iter_mut().find(|(known, _)| *known == noun) {
            Some((_, count)) => *count += entries,
            None if entries > 0 => self.left_out.push((noun, entries)),
            None => {}
        }
    }

    /// The lines of a list that fit. `noun` names an entry, to count the others.
    pub(super) fn list(&mut self, lines: Vec<Entry<String>>, up_to: UpTo, noun: &'static str) {
        let mut lines = lines.into_iter();
        let mut end = "";
        while let Some(Entry { text, count }) = lines.next() {
            if !self.fits(text.len() + 1, up_to) {
                let rest: usize = lines.map(|line| line.count).sum();
                self.leave_out(noun, count + rest);
                break;
            }
            self.text.push_str(&text);
            end = "\n";
        }
        self.text.push_str(end);
    }

    /// The rows of a table that fit, under its title.
    pub(super) fn table<const N: usize>(&mut self, table: Table<'_, N>) {
        const END: &str = "\n</details>\n";
        let Table {
            title,
            heading,
            rows,
            noun,
            fold,
            up_to,
        } = table;
        let (summary, heading, line) = (title.html(), heading.join(" | "), "---|".repeat(N));
        let details = match fold {
            Fold::Open => "<details open>",
            Fold::Folded => "<details>",
        };
        let mut text =
            format!("\n{details}<summary>{summary}</summary>\n\n| {heading} |\n|{line}\n");
        let (mut shown, mut left_out) = (0, 0);
        for Entry { text: cells, count } in rows {
            let cells: Vec<&str> = cells.iter().map(Markup::as_str).collect();
            let row = format!("| {} |\n", cells.join(" | "));
            let is_next = left_out == 0;
            if is_next && self.fits(text.len() + row.len() + END.len(), up_to) {
                text.push_str(&row);
                shown += count;
            } else {
                left_out += count;
            }
        }
        self.leave_out(noun, left_out);
        if shown > 0 {
            self.text.push_str(&(text + END));
        }
    }

    /// Adds a part if it fits.
    pub(super) fn part(&mut self, part: Entry<String>, noun: &'static str) {
        let Entry { text, count } = part;
        if self.fits(text.len(), WHOLE) {
            self.text.push_str(&text)
        } else {
            self.leave_out(noun, count)
        }
    }

    pub(super) fn finish(self) -> String {
        let left_out: Vec<String> = self
            .left_out
            .iter()
            .map(|(noun, entries)| count(*entries, noun))
            .collect();
        let left_out = match left_out.is_empty() {
            true => String::new(),
            false => format!(
                "\nToo long for a {}, {}: {} left out\n",
                self.limit.page,
                self.elsewhere,
                left_out.join(", ")
            ),
        };
        self.text + &left_out + self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markup::code;

    fn entries(page: &str, mark: &str) -> usize {
        page.matches(mark).count()
    }

    #[test]
    fn only_whole_entries_are_left_out_and_all_are_counted() {
        let mut page = Page::new(PageLimit::COMMENT, String::new(), "the end\n");
        let line = |number: usize| Entry::one(format!("\n- line {number:05} {}", "x".repeat(90)));
        page.list((0..1_000).map(line).collect(), UpTo(2), "line");
        let row = |number: usize| Entry {
            text: [code(&format!("row-{number:05}-{}", "y".repeat(40)))],
            count: 3,
        };
        for up_to in [UpTo(4), WHOLE] {
            page.table(Table {
                title: Phrase::new("rows"),
                heading: ["name"],
                rows: (0..1_000).map(row).collect(),
                noun: "thing",
                fold: Fold::Folded,
                up_to,
            });
        }
        page.part(
            Entry {
                text: "z".repeat(1_000),
                count: 7,
            },
            "part",
        );
        let page = page.finish();
        assert!(page.len() <= PageLimit::COMMENT.bytes, "{}", page.len());
        let (lines, rows) = (entries(&page, "\n- line "), entries(&page, "| `row-"));
        assert!(lines > 100 && rows > 500, "{lines} {rows}");
        assert_eq!(entries(&page, &"x".repeat(90)), lines);
        assert_eq!(entries(&page, &format!("{}` |\n", "y".repeat(40))), rows);
        let said = format!(
            "see the JSON output: {} lines, {} things, 7 parts left out\nthe end\n",
            crate::render::text::grouped_digits(1_000 - lines),
            crate::render::text::grouped_digits((2_000 - rows) * 3)
        );
        assert!(
            page.ends_with(&said),
            "{said} in {}",
            &page[page.len() - 200..]
        );
        assert_eq!(entries(&page, "<details>"), entries(&page, "</details>"));
    }

    #[test]
    fn text_that_cannot_fit_is_not_made() {
        let made = std::cell::Cell::new(0);
        let cell = |n: usize| {
            made.set(made.get() + 1);
            [code(&format!("row-{n:08}"))]
        };
        let mut page = Page::new(PageLimit::COMMENT, String::new(), "");
        let rows = page.each(0..1_000_000, |_| 2, cell);
        assert!((4_000..6_000).contains(&made.get()), "{} rows", made.get());
        assert_eq!(rows.iter().map(|row| row.count).sum::<usize>(), 2_000_000);
        page.table(Table {
            title: Phrase::new("rows"),
            heading: ["name"],
            rows,
            noun: "thing",
            fold: Fold::Folded,
            up_to: WHOLE,
        });
        let page = page.finish();
        let left_out = 2 * (1_000_000 - entries(&page, "| `row-"));
        let left_out = crate::render::text::grouped_digits(left_out);
        assert!(page.contains(&format!("JSON output: {left_out} things left out")));
    }

    #[test]
    fn a_page_with_room_says_nothing_of_the_rest() {
        let mut page = Page::new(PageLimit::COMMENT, "start\n".to_owned(), "end\n");
        page.list(vec![Entry::one("\n- one".to_owned())], UpTo(1), "line");
        page.list(Vec::new(), UpTo(1), "line");
        assert_eq!(page.finish(), "start\n\n- one\nend\n");
    }
}
