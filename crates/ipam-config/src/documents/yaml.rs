//! Parses text to documents, with an index of its lines, in which the cost of a look-up does not
//! depend on the length of text or line. The limits allow a file of ten thousand pools and stop a
//! YAML bomb. Knows nothing of our kinds.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_yaml::budget::BudgetBreach;
use serde_yaml::granit_parser::ErrorKind;
use serde_yaml::{Error, ExternalMessageSource, Options};

use crate::documents::SourceFile;
use crate::documents::tree::{Document, Node, Spans};
use ipam_cilium::parser_words::{YamlFault, innermost, place, repeats_too_much};
use ipam_core::model::{Finding, Origin, Rule, Severity};

const SYNTAX: Rule = Rule("yaml-syntax");
const TOO_LARGE: Rule = Rule("yaml-too-large");

const SPLIT: &str = "split the file; it was skipped";
const ALIASES: &str = "write the values out instead of using aliases; this file was skipped";
const NESTING: &str = "reduce the nesting; documents have only a few levels";

/// Limits of one file. Memory grows with the number of nodes and with the values that aliases
/// repeat.
fn limits() -> Options {
    serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_documents: 100_000,
            max_nodes: 1_000_000,
            max_events: 4_000_000,
            max_depth: 64,
            // The number of repetitions does not matter: `alias_limits` limits their size.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_yaml::alias_limits! {
            max_total_replayed_events: 200_000,
            max_replay_stack_depth: 16,
        },
        // YAML 1.2: only `true` and `false`. A node can have the name `n`, a label the value `no`.
        strict_booleans: true,
        with_snippet: false,
    }
}

/// Parses every document of a file. Fails with one finding if the file is not YAML.
pub(super) fn parse(file: &SourceFile) -> Result<Vec<Document>, Box<Finding>> {
    let spans = Arc::new(Spans::new(file));
    let roots: Vec<Node> = serde_yaml::from_multiple_with_options(&file.text, limits())
        .map_err(|error| Box::new(fault(file, &spans, &error)))?;
    Ok(roots
        .into_iter()
        .filter_map(|root| Document::new(root, &spans))
        .collect())
}

fn fault(file: &SourceFile, spans: &Spans, error: &Error) -> Finding {
    let origin = place(error).map_or_else(
        || Origin::whole_file(&file.path),
        |location| spans.origin(location),
    );
    let (rule, message, help) = explained(error);
    Finding::new(Severity::Error, rule, message)
        .at(&origin, "here")
        .help(help)
}

/// Rule, message and help. Replaces the parser's messages about its own options.
fn explained(error: &Error) -> (Rule, String, String) {
    match innermost(error) {
        Error::Budget { breach, .. } => {
            let (what, help) = exceeded(breach);
            (TOO_LARGE, format!("the file has {what}"), help.to_owned())
        }
        error if repeats_too_much(error) => (
            TOO_LARGE,
            "the file repeats too much by aliases (`*name`)".to_owned(),
            ALIASES.to_owned(),
        ),
        Error::ExternalMessage { source, .. } if is_nesting(source) => (
            TOO_LARGE,
            "the file has lists and mappings nested too deeply".to_owned(),
            NESTING.to_owned(),
        ),
        other => {
            let YamlFault { what, fix } = YamlFault::of(other);
            let help = format!("{fix}; this file was skipped");
            (SYNTAX, format!("not readable as YAML: {what}"), help)
        }
    }
}

fn is_nesting(source: &ExternalMessageSource) -> bool {
    matches!(source, ExternalMessageSource::Parser(error) if matches!(error.kind(), ErrorKind::RecursionLimitExceeded))
}

fn exceeded(breach: &BudgetBreach) -> (&'static str, &'static str) {
    match breach {
        BudgetBreach::Depth { .. } => ("lists and mappings nested too deeply", NESTING),
        BudgetBreach::Documents { .. } => ("too many documents", SPLIT),
        BudgetBreach::Aliases { .. }
        | BudgetBreach::Anchors { .. }
        | BudgetBreach::AliasAnchorRatio { .. }
        | BudgetBreach::RecordedAnchorEvents { .. }
        | BudgetBreach::RecordedAnchorBytes { .. }
        | BudgetBreach::MergeKeys { .. } => ("too many anchors, aliases or merge keys", ALIASES),
        _ => ("too many values", SPLIT),
    }
}

/// Number of characters between two indexed ones in a long line.
const STEP: usize = 64;

#[derive(Clone, Debug)]
pub struct Lines {
    text: Arc<str>,
    starts: Vec<usize>,
    /// For each long line with non-ASCII characters, the byte of every [`STEP`]th character.
    marks: BTreeMap<usize, Vec<usize>>,
}

impl Lines {
    /// Indexes a text.
    pub fn new(text: &Arc<str>) -> Lines {
        let newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(newlines).collect();
        let mut lines = Lines {
            text: text.clone(),
            starts,
            marks: BTreeMap::new(),
        };
        for line in 1..=lines.count() {
            let range = lines.range(line);
            let text = &lines.text[range.clone()];
            if text.len() > STEP && !text.is_ascii() {
                let marks = text
                    .char_indices()
                    .step_by(STEP)
                    .map(|(at, _)| range.start + at)
                    .collect();
                lines.marks.insert(line, marks);
            }
        }
        lines
    }

    /// Number of lines; at least 1.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// The bytes of a line without its line ending. Lines count from 1. After the last line, the
    /// range is empty.
    pub fn range(&self, line: usize) -> Range<usize> {
        let Some(start) = line.checked_sub(1).and_then(|index| self.starts.get(index)) else {
            return self.text.len()..self.text.len();
        };
        let end = self
            .starts
            .get(line)
            .map_or(self.text.len(), |next| next - 1);
        let is_carriage = end > *start && self.text.as_bytes()[end - 1] == b'\r';
        *start..if is_carriage { end - 1 } else { end }
    }

    /// The text of a line without its line ending.
    pub fn text(&self, line: usize) -> &str {
        &self.text[self.range(line)]
    }

    /// The text between two bytes.
    pub fn between(&self, bytes: Range<usize>) -> &str {
        &self.text[bytes]
    }

    /// The text from a byte on.
    pub(super) fn after(&self, byte: usize) -> &str {
        &self.text[byte..]
    }

    /// The byte of a character of a line, or the end of the line. Characters count from 0.
    pub fn byte(&self, line: usize, character: usize) -> usize {
        let (near, characters) = self.near(line, character);
        let next = self.text[near.clone()].char_indices().nth(characters);
        next.map_or(near.end, |(at, _)| near.start + at)
    }

    /// The rest of a line from the nearest indexed character, and the number of characters from
    /// there to the wanted one.
    fn near(&self, line: usize, character: usize) -> (Range<usize>, usize) {
        let range = self.range(line);
        match self.marks.get(&line) {
            Some(marks) => match marks.get(character / STEP) {
                Some(mark) => (*mark..range.end, character % STEP),
                None => (range.end..range.end, 0),
            },
            // A long line without marks is ASCII.
            None if range.len() > STEP => (
                range.end.min(range.start.saturating_add(character))..range.end,
                0,
            ),
            None => (range, character),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By counting from the start of the line.
    fn naive(text: &str, line: usize, character: usize) -> usize {
        let start: usize = text
            .split_inclusive('\n')
            .take(line - 1)
            .map(str::len)
            .sum();
        let line = text[start..].lines().next().unwrap_or_default();
        line.char_indices()
            .nth(character)
            .map_or(start + line.len(), |(at, _)| start + at)
    }

    proptest! {
        #[test]
        fn bytes_are_those_of_counting(parts in prop::collection::vec(("[aé→😀]|\n|\r\n", 1..40_usize), 1..12)) {
            let text: Arc<str> = parts.iter().map(|(part, times)| part.repeat(*times)).collect::<String>().into();
            let lines = Lines::new(&text);
            prop_assert_eq!(lines.count(), text.matches('\n').count() + 1);
            for line in 1..=lines.count() {
                for character in (0..200).step_by(9) {
                    prop_assert_eq!(lines.byte(line, character), naive(&text, line, character), "{}:{}", line, character);
                }
            }
        }
    }

    #[test]
    fn a_place_costs_as_much_at_the_end_of_a_long_line_as_at_its_start() {
        let text: Arc<str> =
            format!("short\n{}\n{}", "é".repeat(500_000), "e".repeat(500_000)).into();
        let lines = Lines::new(&text);
        for character in (0..500_000).step_by(1_000) {
            assert_eq!(lines.byte(2, character), 6 + 2 * character);
            assert_eq!(lines.byte(3, character), 7 + 1_000_000 + character);
            for line in [2, 3] {
                let (_, characters) = lines.near(line, character);
                assert!(
                    characters < STEP,
                    "{characters} characters are looked at for {line}:{character}"
                );
            }
        }
    }
}
