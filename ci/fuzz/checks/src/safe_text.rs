//! Characters that text for people must not contain, for any input.

/// Bidi_Control of Unicode 16 (`PropList.txt`), and invisible characters that change the text.
fn is_hidden(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks_lines = matches!(c, '\u{2028}' | '\u{2029}');
    turns
        || breaks_lines
        || matches!(
            c,
            '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{e0001}'
        )
}

/// Fails on hidden characters, and on control characters except tab and newline.
pub(crate) fn assert_harmless(what: &str, text: &str) {
    let harmful = |c: char| is_hidden(c) || (c.is_control() && c != '\n' && c != '\t');
    if let Some((at, c)) = text.char_indices().find(|(_, c)| harmful(*c)) {
        let before = text[..at].rsplit('\n').next().unwrap_or_default();
        panic!("{what} holds {} behind {before:?}", c.escape_unicode());
    }
}

/// The same for text with colours of its own: `ESC [ digits m` and nothing else.
pub(crate) fn assert_harmless_but_colours(what: &str, text: &str) {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        match rest.strip_prefix('m') {
            Some(rest) => plain.push_str(rest),
            None => panic!(
                "{what} holds an escape sequence that is no colour: {:?}",
                part.get(..10)
            ),
        }
    }
    assert_harmless(what, &plain);
}
