//! Plain words for texts that a parser refuses. The words of parsers name grammar and types of this
//! program, which mean nothing to users.

use ipam_core::text::one_line;
use serde_yaml::granit_parser::ErrorKind;
use serde_yaml::{Error, ExternalMessageSource, Location};

/// The fault of a text that is not YAML, and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlFault {
    pub what: String,
    pub fix: &'static str,
}

impl YamlFault {
    /// The fault that ended a parse, but for limits of size.
    pub fn of(error: &Error) -> YamlFault {
        let (what, fix) = match innermost(error) {
            Error::DuplicateMappingKey { key, .. } => {
                let key = key.as_ref().map(|key| format!("`{}`", one_line(key)));
                let what = key.as_deref().unwrap_or("a key").to_owned();
                let fix = "keep one of the two";
                return YamlFault {
                    what: what + " is written twice in one mapping",
                    fix,
                };
            }
            Error::UnknownAnchor { .. } => (
                "an alias (`*name`) without its anchor (`&name`) before it",
                "write the value itself, or put text in quotes",
            ),
            Error::InvalidScalar { .. } => (
                "a value that does not fit its tag (`!!…`)",
                "correct the value, or remove the tag",
            ),
            Error::ExternalMessage { source, .. } => match &**source {
                ExternalMessageSource::Parser(error) => of_parser(error.kind()),
                _ => UNKNOWN,
            },
            _ => UNKNOWN,
        };
        YamlFault {
            what: what.to_owned(),
            fix,
        }
    }

    /// The fault of a whole text, with its place, fix and code. It fits after the file's name.
    pub fn sentence(error: &Error) -> String {
        let YamlFault { what, fix } = YamlFault::of(error);
        let place = place(error)
            .map(|at| format!(" at line {}, column {}", at.line(), at.column()))
            .unwrap_or_default();
        match innermost(error) {
            error if matches!(error, Error::Budget { .. }) || repeats_too_much(error) => format!(
                "it has too many values, aliases or levels{place}; write values out instead of aliases, or split the file (yaml-too-large)"
            ),
            _ => format!("it is neither JSON nor YAML{place}: {what}; {fix} (yaml-syntax)"),
        }
    }
}

/// The place of an error, if the parser knows it.
pub fn place(error: &Error) -> Option<Location> {
    error.location().filter(|at| *at != Location::UNKNOWN)
}

/// Whether the values that aliases repeat exceed a limit.
pub fn repeats_too_much(error: &Error) -> bool {
    matches!(
        error,
        Error::AliasReplayCounterOverflow { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. }
    )
}

/// The error without the excerpt or the alias around it.
pub fn innermost(error: &Error) -> &Error {
    match error {
        Error::AliasError { error, .. } | Error::WithSnippet { error, .. } => innermost(error),
        other => other,
    }
}

const UNKNOWN: (&str, &str) = (
    "this is not YAML",
    "check the indentation, quotes and brackets here and in the line before",
);

/// What is wrong, and the fix.
fn of_parser(kind: &ErrorKind) -> (&'static str, &'static str) {
    use ErrorKind as K;
    match kind {
        K::TabNotAllowed | K::TabInBlockIndentation | K::TabInIndentation => {
            ("a tab in place of spaces", "indent with spaces")
        }
        K::UnclosedFlowCollection { .. }
        | K::UnexpectedEofFlowSequence
        | K::UnexpectedEofFlowMapping
        | K::UnexpectedEofImplicitFlowMapping
        | K::ExpectedFlowMappingSeparator
        | K::ExpectedFlowSequenceSeparator
        | K::MismatchedFlowCollectionEnd { .. } => (
            "a `[` or `{` without its closing bracket, or without a comma between items",
            "add the bracket or the comma",
        ),
        K::UnclosedQuotedScalar
        | K::InvalidQuotedScalarIndent
        | K::DocumentIndicatorInQuotedScalar
        | K::InvalidTrailingSingleQuotedScalar
        | K::InvalidTrailingDoubleQuotedScalar => (
            "a quote that is not closed, or text after a closing quote",
            "put the whole value in quotes",
        ),
        K::MappingValueNotAllowed | K::InvalidColonPlacement => (
            "a `:` where no key can be",
            "put text with `: ` in quotes, close the bracket before it, or begin a line with the key",
        ),
        K::SimpleKeyExpected | K::InvalidSimpleKey => (
            "a key without `:`",
            "add `:` after the key, or indent the line as part of the value before it",
        ),
        K::ExpectedBlockMappingKey
        | K::ExpectedBlockSequenceEntry
        | K::InvalidIndentation
        | K::BlockSequenceEntryNotAllowed => (
            "a line that does not continue the lines before it",
            "indent it as its neighbours in the same list or mapping",
        ),
        K::UnexpectedCharacter { .. } => (
            "a character that cannot begin a value",
            "put the value in quotes",
        ),
        _ => UNKNOWN,
    }
}

/// A message of serde about one value in plain words, without any text of the value: it may be secret.
pub fn in_plain_words(why: &str) -> String {
    let is_place =
        |(_, place): &(&str, &str)| place.replacen(" column ", "", 1).parse::<u64>().is_ok();
    let (why, place) = match why.rsplit_once(" at line ").filter(is_place) {
        Some((why, place)) => (
            why,
            format!(
                ", at line {} of the object",
                place.replace(" column", ", column")
            ),
        ),
        None => (why, String::new()),
    };
    let kinds = ["invalid type: ", "invalid value: "];
    let invalid = kinds.iter().find_map(|kind| why.strip_prefix(kind));
    let words = match invalid.and_then(|invalid| invalid.rsplit_once(", expected ")) {
        Some((found, wanted)) => {
            format!("{} instead of {}", found_words(found), wanted_words(wanted))
        }
        None => match why.split_once(" field ") {
            _ if why.starts_with("unknown variant ") => "an unknown word".to_owned(),
            Some(("missing", field)) => format!("{field} is missing"),
            Some(("duplicate", field)) => format!("{field} is written twice"),
            _ => why.to_owned(),
        },
    };
    words + &place
}

fn found_words(found: &str) -> String {
    match found.split_once(' ') {
        _ if found == "null" || found == "unit value" => "no value".to_owned(),
        _ if found == "sequence" => "a list".to_owned(),
        _ if found == "map" => "a mapping".to_owned(),
        Some(("string", _)) => "text".to_owned(),
        Some(("integer", number)) => format!("the number {number}"),
        Some(("floating", point)) => point.replacen("point", "the number", 1),
        Some(("boolean", value)) => value.to_owned(),
        _ => found.to_owned(),
    }
}

fn wanted_words(wanted: &str) -> &str {
    match wanted {
        "a map" => "a mapping",
        "a sequence" => "a list",
        "a string" | "a borrowed string" | "string or map" => "text",
        "a boolean" => "`true` or `false`",
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => "a whole number",
        _ if wanted.starts_with("struct ") => "a mapping",
        _ => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_serde_or_name_of_a_type_is_left() {
        for (why, words) in [
            (
                "invalid type: string \"x\", expected struct ItemMetadata at line 1 column 63",
                "text instead of a mapping, at line 1, column 63 of the object",
            ),
            (
                "invalid type: floating point `1.5`, expected u32",
                "the number `1.5` instead of a whole number",
            ),
            (
                "invalid type: null, expected a string",
                "no value instead of text",
            ),
            (
                "invalid type: map, expected a sequence",
                "a mapping instead of a list",
            ),
            (
                "invalid value: string \"a field at line secret, expected x\", expected a map",
                "text instead of a mapping",
            ),
            ("unknown variant `secret`, expected `A`", "an unknown word"),
            ("missing field `ipam`", "`ipam` is missing"),
            ("duplicate field `ipam`", "`ipam` is written twice"),
            ("its name is too long", "its name is too long"),
        ] {
            assert_eq!(in_plain_words(why), words);
        }
    }

    #[test]
    fn a_syntax_error_names_place_fault_fix_and_code() {
        let sentence = |text: &str| {
            let parsed = serde_yaml::from_str::<serde_json::Value>(text);
            YamlFault::sentence(&parsed.unwrap_err())
        };
        let mut wrong = Vec::new();
        for (text, place, what) in [
            ("a: [1, 2\nb: 3\n", "line 2, column ", "bracket"),
            (
                "a:\n\tb: 1\n",
                "line 2, column ",
                "a tab in place of spaces; indent with spaces",
            ),
            ("a: \"x\n", "line 2, column 1", "a quote that is not closed"),
            (
                "a: b: c\n",
                "line 1, column ",
                "put text with `: ` in quotes",
            ),
            ("a: 1\n  b: 2\n", "line 2, column ", ""),
            ("a: {b: 1\n", "line ", "bracket"),
            (
                "- a\nb: 1\n",
                "line 2, column ",
                "a line that does not continue",
            ),
            ("a: 1\na: 2\n", "line 2, column 1", "`a` is written twice"),
            ("a: *b\n", "line 1, column 4", "an alias"),
            ("a: @b\n", "line 1, column 4", "put the value in quotes"),
        ] {
            let sentence = sentence(text);
            let is_whole = [place, what, "; ", " (yaml-syntax)"]
                .iter()
                .all(|part| sentence.contains(part));
            let theirs = [
                "did not find",
                "while ",
                "expected",
                "scalar",
                "flow",
                "block",
            ];
            if !is_whole || theirs.iter().any(|word| sentence.contains(word)) {
                wrong.push(format!("{text:?}: {sentence}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
