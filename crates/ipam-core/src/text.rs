//! Escapes untrusted text before a terminal or a log shows it.
//!
//! The order in which people read names: `rack-2` before `rack-10`.
//!
//! Finds the name that a misspelt one probably means.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Display;

/// Control characters, and invisible characters that change the direction or look of the text after
/// them. They include Unicode's Default_Ignorable_Code_Point, which some programs skip when they
/// compare.
pub fn is_harmful(c: char) -> bool {
    let invisible = matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    );
    invisible || (c.is_control() && c != '\n' && c != '\t')
}

/// Whether any character of the text [`is_harmful`].
pub fn has_harmful(text: &str) -> bool {
    // Most texts are plain. Without an early end in each part, the processor looks at many bytes at
    // a time.
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    let all_plain = |part: &[u8]| part.iter().fold(true, |all, byte| all & is_plain(*byte));
    !text.as_bytes().chunks(256).all(all_plain) && text.contains(is_harmful)
}

/// The text with each harmful character escaped.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !has_harmful(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars()
            .map(|c| {
                if is_harmful(c) {
                    c.escape_unicode().to_string()
                } else {
                    c.to_string()
                }
            })
            .collect(),
    )
}

/// The text on one line: harmful characters, line breaks and tabs are escaped. Quotes and
/// backslashes stay as they are, so that people can copy the text.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_harmful(c) || c == '\n' || c == '\t';
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let spell = |c: char| match is_escaped(c) {
        true => c.escape_debug().to_string(),
        false => c.to_string(),
    };
    Cow::Owned(text.chars().map(spell).collect())
}

/// Compares texts part by part; parts that are numbers are compared by value.
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    while !left.is_empty() && !right.is_empty() {
        let (one, other) = (part(left), part(right));
        let order = match is_number(one) && is_number(other) {
            true => by_value(one, other),
            false => one.cmp(other),
        };
        if order != Ordering::Equal {
            return order;
        }
        (left, right) = (&left[one.len()..], &right[other.len()..]);
    }
    // `a01` and `a1` are equal by value.
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// The items as one text, with `between` between them.
pub fn joined<T: Display>(items: impl IntoIterator<Item = T>, between: &str) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    texts.join(between)
}

/// The items in the natural order of their names. Items with equal names keep their order.
pub fn by_name<'i, T>(
    items: impl IntoIterator<Item = &'i T>,
    name: impl Fn(&T) -> &str,
) -> Vec<&'i T> {
    let mut items: Vec<&T> = items.into_iter().collect();
    items.sort_by(|a, b| natural_order(name(a), name(b)));
    items
}

/// The digits, or the text without digits, at the start.
fn part(text: &str) -> &str {
    let digits = is_number(text);
    let end = text.find(|c: char| c.is_ascii_digit() != digits);
    &text[..end.unwrap_or(text.len())]
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Compares numbers of any length.
fn by_value(one: &str, other: &str) -> Ordering {
    let (one, other) = (one.trim_start_matches('0'), other.trim_start_matches('0'));
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

/// Below this similarity, from 0 to 1, a name is another one and not a slip.
const SIMILAR: f64 = 0.75;

/// The most similar name, if one is similar enough.
pub fn most_similar<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let given = given.to_lowercase();
    let scored = names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&given, name), name));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(similarity, _)| *similarity >= SIMILAR)
        .map(|(_, name)| name)
}

/// The name of which the given word is a slip: one or two letters differ, and at most a third of
/// them. Stricter than [`most_similar`], for words that a person knows well.
pub fn slip_of<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let most = (given.chars().count() / 3).min(2);
    let scored = names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(given, name), name));
    let best = scored.min_by_key(|(edits, _)| *edits);
    best.filter(|(edits, _)| *edits <= most)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_a_letter_or_two() {
        let names = ["plan", "apply", "explain", "map"];
        for (given, name) in [
            ("aply", Some("apply")),
            ("exlpain", Some("explain")),
            ("foo", None),
            ("pl", None),
        ] {
            assert_eq!(slip_of(given, names), name, "{given}");
        }
    }

    #[test]
    fn a_text_has_what_one_of_its_characters_is() {
        for c in '\0'..=char::MAX {
            assert_eq!(has_harmful(&format!("a{c}b")), is_harmful(c), "{c:?}");
        }
    }

    #[test]
    fn a_quoted_text_is_on_one_line_and_can_be_copied() {
        assert_eq!(one_line("it's \"a\\b\""), "it's \"a\\b\"");
        assert_eq!(
            one_line("a\nb\tc\u{1b}d\u{202e}"),
            "a\\nb\\tc\\u{1b}d\\u{202e}"
        );
    }

    #[test]
    fn hostile_text_is_spelled_out() {
        assert_eq!(printable("a\u{1b}[31m\u{202e}b"), "a\\u{1b}[31m\\u{202e}b");
        assert!(matches!(printable("rack-ä"), Cow::Borrowed(_)));
    }
}

#[cfg(test)]
mod natural_tests {
    use super::*;

    #[test]
    fn numbers_in_names_count() {
        let sorted = [
            "",
            "2",
            "10",
            "a",
            "a01",
            "a1",
            "a1b",
            "a2",
            "a10",
            "rack-2",
            "rack-2-b1",
            "rack-10",
            "rack-10-b1",
            "rack-a",
            "ä1",
        ];
        let mut names = sorted;
        names.reverse();
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, sorted);
        let huge = format!("n{}", "9".repeat(60));
        assert_eq!(natural_order("n1", &huge), Ordering::Less);
        assert_eq!(natural_order(&huge, &huge), Ordering::Equal);
    }
}
