//! A Markdown page of limited size. It keeps whole entries, and counts those that no longer fit.
//! Knows nothing of plans.

use super::model::{Form, Listing, Row, UpTo, WHOLE};
use super::phrase::Phrase;
use super::text::{count, log_text, printable};

/// How long a whole page may be.
#[derive(Clone, Copy, Debug)]
pub struct PageLimit {
    pub bytes: usize,
    /// Noun for the kind of page that would be too long.
    page: &'static str,
    /// Tables of at most this many rows are not folded.
    open: usize,
}

impl PageLimit {
    /// The large Git hosts take 65,535 characters.
    pub const COMMENT: PageLimit = PageLimit {
        bytes: 65_000,
        page: "comment",
        open: 0,
    };
    /// A browser still opens a file of this size.
    pub const REPORT: PageLimit = PageLimit {
        bytes: 64 << 20,
        page: "report",
        open: 20,
    };

    /// The limit reduced by `bytes`, which leaves room for text after the page.
    pub(super) fn less(self, bytes: usize) -> PageLimit {
        PageLimit {
            bytes: self.bytes.saturating_sub(bytes),
            ..self
        }
    }
}

/// Bytes for the sentence that counts the entries that are left out.
const LEFT_OUT: usize = 500;

pub(super) struct Page<'t> {
    limit: PageLimit,
    text: String,
    tail: &'t str,
    /// Where to find left-out entries, in the imperative.
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

    /// Whether this number of bytes fits on the page, with room for the tail and for the counts of
    /// left-out entries.
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

    /// Adds the rows of a listing that fit, below their title.
    pub(super) fn listing(&mut self, mut listing: Listing<'_>) {
        let rows = std::mem::replace(&mut listing.rows, Box::new(std::iter::empty()));
        let rest = listing.rest.take().map(|(rest, count)| Row {
            is_rest: true,
            ..Row::new([Phrase::prose(&format!("… and {rest}"))]).of(count)
        });
        let rows = rows.chain(rest);
        match listing.form {
            Form::Lines | Form::Titled | Form::Headed => self.lines(&listing, rows),
            Form::Open | Form::Folded => self.table(&listing, rows),
        }
    }

    fn lines(&mut self, listing: &Listing<'_>, rows: impl Iterator<Item = Row>) {
        let mut start = match listing.form {
            Form::Titled => format!("\n**{}**\n", listing.title.markdown()),
            Form::Headed => format!("\n#### {}\n", listing.title.markdown()),
            Form::Lines | Form::Open | Form::Folded => String::new(),
        };
        let (mut end, mut left_out) = ("", 0);
        for row in rows {
            let count = row.count;
            if left_out == 0 {
                let line = row.line.or_else(|| row.cells.into_iter().next());
                let line = line.unwrap_or_default().markdown();
                let details = row.details.iter().map(detail_line).collect::<String>();
                let text = format!("{start}\n- {line}{details}");
                if self.fits(text.len() + 1, listing.up_to) {
                    self.text.push_str(&text);
                    (start, end) = (String::new(), "\n");
                    continue;
                }
            }
            left_out += count;
        }
        self.leave_out(listing.noun, left_out);
        self.text.push_str(end);
    }

    fn table(&mut self, listing: &Listing<'_>, rows: impl Iterator<Item = Row>) {
        const END: &str = "\n</details>\n";
        const START: usize = "\n<details open>".len();
        let columns = listing.columns.iter();
        let headings: Vec<&str> = columns.map(|column| column.heading).collect();
        let shown: Vec<&str> = headings
            .iter()
            .copied()
            .filter(|one| !one.is_empty())
            .collect();
        let (heading, line) = (shown.join(" | "), "---|".repeat(shown.len()));
        let title = match listing.how_many.is_empty() {
            true => listing.title.html(),
            false => format!("{}, {}", listing.title.html(), listing.how_many),
        };
        let mut text = format!("<summary>{title}</summary>\n\n| {heading} |\n|{line}\n");
        let (mut fitting, mut left_out, mut diffs) = (0, 0, Vec::new());
        let mut shown = 0;
        for row in rows {
            let cells = || {
                headings
                    .iter()
                    .enumerate()
                    .filter(|(_, one)| !one.is_empty())
            };
            if left_out == 0 {
                let cell = |(at, _): (usize, _)| {
                    let cell = row.cells.get(at);
                    cell.map(|cell| cell.markdown().to_string())
                };
                let cells: Vec<String> = cells().map(|one| cell(one).unwrap_or_default()).collect();
                let line = format!("| {} |\n", cells.join(" | "));
                if self.fits(START + text.len() + line.len() + END.len(), listing.up_to) {
                    text.push_str(&line);
                    fitting += row.count;
                    shown += 1;
                } else {
                    left_out += row.count;
                }
            } else {
                left_out += row.count;
            }
            diffs.extend(row.diff);
        }
        self.leave_out(listing.noun, left_out);
        if fitting > 0 {
            let is_open = listing.form == Form::Open || shown <= self.limit.open;
            let start = if is_open {
                "<details open>"
            } else {
                "<details>"
            };
            self.text.push_str(&format!("\n{start}{text}{END}"));
        }
        for (title, lines) in diffs {
            self.diff(&title.markdown().to_string(), &lines.join("\n"));
        }
    }

    /// Adds a diff below its title, which is Markdown.
    pub(super) fn diff(&mut self, title: &str, lines: &str) {
        if lines.is_empty() {
            return;
        }
        let lines = log_text(&printable(lines)).into_owned();
        // The fence is longer than any row of backticks inside, so that none of them ends it.
        let longest = lines.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let diff = format!("\n{title}\n\n{fence}diff\n{lines}\n{fence}\n");
        self.part(&diff, 1, "diff");
    }

    /// Adds a text, which stands for this number of entries, if it fits. It is never cut.
    pub(super) fn part(&mut self, text: &str, count: usize, noun: &'static str) {
        if self.fits(text.len(), WHOLE) {
            self.text.push_str(text)
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

fn detail_line((word, detail): &(&'static str, Phrase)) -> String {
    let between = if word.is_empty() { "" } else { ": " };
    format!("\n  - {word}{between}{}", detail.markdown())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::model::first;

    fn entries(page: &str, mark: &str) -> usize {
        page.matches(mark).count()
    }

    #[test]
    fn only_whole_entries_are_left_out_and_all_are_counted() {
        let mut page = Page::new(PageLimit::COMMENT, String::new(), "the end\n");
        let line = |number: usize| {
            let text = format!("line {number:05} {}", "x".repeat(90));
            Row::new([Phrase::new(&text)])
        };
        let lines = Listing::new(Phrase::default(), "line", &[]).form(Form::Lines, UpTo(2));
        page.listing(lines.rows(0..1_000, line));
        let row = |number: usize| {
            let name = format!("row-{number:05}-{}", "y".repeat(40));
            Row::new([Phrase::of(&name)]).of(3)
        };
        for up_to in [UpTo(4), WHOLE] {
            let rows = Listing::new(Phrase::new("rows"), "thing", &[first("name")]);
            page.listing(rows.form(Form::Folded, up_to).rows(0..1_000, row));
        }
        page.part(&"z".repeat(1_000), 7, "part");
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
    fn rows_that_cannot_fit_are_counted() {
        let mut page = Page::new(PageLimit::COMMENT, String::new(), "");
        let row = |number: i32| Row::new([Phrase::of(&format!("row-{number:08}"))]).of(2);
        let rows = Listing::new(Phrase::new("rows"), "thing", &[first("name")]);
        page.listing(rows.rows(0..1_000_000, row));
        let page = page.finish();
        let left_out = 2 * (1_000_000 - entries(&page, "| `row-"));
        let left_out = crate::render::text::grouped_digits(left_out);
        assert!(page.contains(&format!("JSON output: {left_out} things left out")));
    }

    #[test]
    fn a_page_with_room_says_nothing_of_the_rest() {
        let mut page = Page::new(PageLimit::COMMENT, "start\n".to_owned(), "end\n");
        let lines = |rows| {
            let lines = Listing::new(Phrase::default(), "line", &[]).form(Form::Lines, UpTo(1));
            lines.rows(rows, |row: &str| Row::new([Phrase::new(row)]))
        };
        page.listing(lines(vec!["one"]));
        page.listing(lines(Vec::new()));
        assert_eq!(page.finish(), "start\n\n- one\nend\n");
    }
}
