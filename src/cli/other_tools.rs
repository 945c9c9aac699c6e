//! The words of other tools and ours for them, from `other_tools.txt`. It knows no command.

const WORDS: &str = include_str!("other_tools.txt");

/// The rows of a section of the file: the text before ` = `, and the text after it.
pub(super) fn section(heading: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    WORDS
        .lines()
        .skip_while(move |line| *line != heading)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
}

/// What a section has for a word. A row may name several words, with spaces in between.
pub(super) fn of_word(heading: &'static str, word: &str) -> Option<&'static str> {
    section(heading)
        .find(|(words, _)| words.split(' ').any(|each| each == word))
        .map(|(_, ours)| ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_comment_a_heading_or_a_row() {
        let rows = |line: &&str| line.contains(" = ");
        for line in WORDS.lines().filter(|line| !rows(line)) {
            let is_known = line.is_empty() || line.starts_with("# ") || line.starts_with('[');
            assert!(is_known, "{line}");
        }
        let sections = ["[commands]", "[notes]", "[kinds]", "[flags]"];
        let read = sections.map(|heading| section(heading).count());
        assert_eq!(
            read.iter().sum::<usize>(),
            WORDS.lines().filter(rows).count()
        );
    }
}
