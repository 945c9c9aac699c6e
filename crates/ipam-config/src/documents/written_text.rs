//! Where the characters of a text stand in the YAML that writes it. Knows no document.

use std::ops::Range;

/// The bytes of `written`, which begins with a scalar, that stand for bytes of its text. Spaces and
/// line ends do not count: folding changes them. `None` if an escape stands for a character.
pub(super) fn written_part(written: &str, text: &str, part: Range<usize>) -> Option<Range<usize>> {
    let start = match written.chars().next()? {
        '>' | '|' => written.find('\n')? + 1,
        '"' | '\'' => 1,
        _ => 0,
    };
    let mut rest = written.get(start..)?.char_indices().peekable();
    let mut found: Option<Range<usize>> = None;
    for (at, wanted) in text.char_indices() {
        if at >= part.end {
            break;
        }
        if wanted.is_whitespace() {
            continue;
        }
        let is_passed = |one: char| one != wanted && (one.is_whitespace() || escapes(one));
        while rest.next_if(|(_, one)| is_passed(*one)).is_some() {}
        let (byte, _) = rest.next_if(|(_, one)| *one == wanted)?;
        if at >= part.start {
            let from = found.map_or(start + byte, |found| found.start);
            found = Some(from..start + byte + wanted.len_utf8());
        }
    }
    // After the last character: a text that ends too early.
    found.or_else(|| {
        let (byte, one) = rest.next()?;
        Some(start + byte..start + byte + one.len_utf8())
    })
}

/// A backslash, or the first of two quotation marks.
fn escapes(one: char) -> bool {
    matches!(one, '\\' | '\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, text: &str) {
        let start = text.rfind("there").unwrap();
        let part = written_part(written, text, start..start + "there".len());
        assert_eq!(
            part,
            written.rfind("there").map(|at| at..at + 5),
            "{written}"
        );
    }

    #[test]
    fn a_part_is_found_in_every_style() {
        check("a + there\n", "a + there");
        check("a +\n    there", "a + there");
        check(">-\n    a +\n    \"b\" + there\n", "a + \"b\" + there");
        check("|2- # there it is\n      a\n    there", "  a\nthere");
        check("'it''s ''there'''", "it's 'there'");
        check("\"a \\\"b\\\" \\\\ there\"", "a \"b\" \\ there");
        check("\"ä\\\n     there\"", "äthere");
    }

    #[test]
    fn an_escaped_character_hides_a_part() {
        assert_eq!(written_part("\"\\u00e4 there\"", "ä there", 3..8), None);
        assert_eq!(written_part("", "x", 0..1), None);
        assert_eq!(written_part(">", "x", 0..1), None);
    }
}
