//! Lines that fit into a terminal. Must never know what the lines say.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use terminal_size::{Width, terminal_size_of};
use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter};

/// Columns below which text is not readable.
pub(super) const NARROWEST: usize = 40;

/// Columns of the terminal at the stream, which `COLUMNS` overrides; `None` for a file or a pipe.
pub fn terminal_width(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let columns = std::env::var("COLUMNS").ok();
    let columns = columns.and_then(|columns| columns.parse().ok());
    let width = || terminal_size_of(stream).map(|(Width(columns), _)| usize::from(columns));
    columns.or_else(width).map(|width| width.max(NARROWEST))
}

/// The text with its long lines broken between words. The rest of a line is indented by two more
/// columns than its start. Rows of a table stay whole: they have no indent, and their cells are
/// three spaces apart.
pub fn wrapped(text: &str, width: usize) -> Cow<'_, str> {
    let is_row = |line: &str| !line.starts_with(' ') && line.contains("   ");
    let fits = |line: &str| display_width(line) <= width || is_row(line);
    if text.lines().all(fits) {
        return text.into();
    }
    let mut wrapped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        if fits(content) {
            wrapped.push_str(line);
            continue;
        }
        let indent = content.len() - content.trim_start_matches(' ').len() + 2;
        let indent = " ".repeat(indent);
        let options = Options::new(width)
            .break_words(false)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation)
            .subsequent_indent(&indent);
        wrapped.push_str(&textwrap::wrap(content, options).join("\n"));
        wrapped.push_str(&line[content.len()..]);
    }
    wrapped.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "short\n  + n1    10.0.0.0/24  the lowest free block of pool a\n";
        let expected = "short\n  + n1    10.0.0.0/24  the\n    lowest free block of\n    pool a\n";
        assert_eq!(wrapped(text, 28), expected);
    }

    #[test]
    fn a_word_longer_than_the_line_stays_whole() {
        let text = "see 2001:db8:1234:5678:9abc:def0:1234:5678/128 and more";
        let expected = "see\n  2001:db8:1234:5678:9abc:def0:1234:5678/128\n  and more";
        assert_eq!(wrapped(text, 20), expected);
    }

    #[test]
    fn rows_of_a_table_and_colours_count_for_nothing() {
        let table = "NAME     POOL     BLOCKS\n";
        assert_eq!(wrapped(table, 10), table);
        let coloured = "\u{1b}[32mten letters\u{1b}[0m";
        assert_eq!(wrapped(coloured, 11), coloured);
    }
}
