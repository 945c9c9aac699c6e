//! Escapes untrusted text before a terminal or a log shows it.

use std::borrow::Cow;

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

#[cfg(test)]
mod tests {
    use super::*;

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
