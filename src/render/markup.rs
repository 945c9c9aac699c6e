//! Untrusted text as Markdown of Git hosts: shown verbatim, and never a link, a mention, a
//! reference or markup.
//!
//! GitHub, GitLab and Gitea look for mentions and references in the text of the rendered page, so
//! escapes do not stop them. All of them leave code alone. So plain words stay text, and everything
//! else goes into code spans. Addresses and names can be copied from there verbatim.

use std::fmt;
use std::mem::take;

use super::text::{inner_commands, printable};

/// Markdown, for a table cell or within a line, but not at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Markup(String);

impl Markup {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name or a value.
pub(super) fn code(text: &str) -> Markup {
    let mut pieces = Pieces::default();
    pieces.code(&printable(text));
    pieces.markdown()
}

/// Sentences. Backticks in pairs mark code.
pub(super) fn prose(text: &str) -> Markup {
    Pieces::of(text).markdown()
}

enum Piece {
    Words(String),
    Code(String),
}

/// Two pieces of code never stand side by side: their backticks would run together.
#[derive(Default)]
pub(super) struct Pieces(Vec<Piece>);

impl Pieces {
    pub(super) fn of(text: &str) -> Pieces {
        let text = printable(text);
        let mut pieces = Pieces::default();
        let mut rest: &str = &text;
        while let Some(at) = rest.find('`') {
            let (before, marked) = rest.split_at(at);
            pieces.prose(before);
            let opens = before.chars().next_back().is_none_or(is_before_code);
            let end = if opens { end_of_code(marked) } else { None };
            let inside = end.map_or("`", |end| &marked[1..end]);
            // Two backticks with nothing between them are text that separates words.
            pieces.code(if inside.trim().is_empty() {
                "``"
            } else {
                inside
            });
            rest = &marked[end.map_or(1, |end| end + 1)..];
        }
        pieces.prose(rest);
        pieces
    }

    pub(super) fn words(&mut self, words: &str) {
        match self.0.last_mut() {
            _ if words.is_empty() => {}
            Some(Piece::Words(before)) => before.push_str(words),
            _ => self.0.push(Piece::Words(words.to_owned())),
        }
    }

    pub(super) fn append(&mut self, other: Pieces) {
        for piece in other.0 {
            match piece {
                Piece::Words(words) => self.words(&words),
                Piece::Code(code) => self.code(&code),
            }
        }
    }

    /// White space becomes a single space, as a page shows it. It is removed at the ends, where a
    /// page does not show it.
    pub(super) fn code(&mut self, code: &str) {
        let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
        match self.0.last_mut() {
            _ if code.is_empty() => {}
            Some(Piece::Code(before)) => before.push_str(&code),
            _ => self.0.push(Piece::Code(code)),
        }
    }

    fn prose(&mut self, text: &str) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let end = rest
                .find(|d: char| d.is_whitespace() != c.is_whitespace())
                .unwrap_or(rest.len());
            let (token, tail) = rest.split_at(end);
            if c.is_whitespace() {
                self.words(" ")
            } else {
                self.token(token)
            }
            rest = tail;
        }
    }

    /// A token between white space: punctuation around a word that may be plain.
    fn token(&mut self, token: &str) {
        if is_sign(token) {
            return self.words(token);
        }
        let core = token.trim_start_matches(['(', '"', '\'']);
        let (before, core) = token.split_at(token.len() - core.len());
        let signs = ['.', ',', ';', ')', '"', '\'', '?', '…'];
        let end = core.trim_end_matches(signs);
        // The colon of a sentence; two are the end of an address.
        let end = match end.strip_suffix(':') {
            Some(before) if !before.ends_with(':') => before.trim_end_matches(signs),
            _ => end,
        };
        let (core, after) = core.split_at(end.len());
        self.words(before);
        if is_plain(core) {
            self.words(core)
        } else {
            self.code(core)
        }
        self.words(after);
    }

    pub(super) fn markdown(&self) -> Markup {
        let text = |piece: &Piece| match piece {
            Piece::Words(words) => words.replace('>', "&gt;"),
            Piece::Code(code) => code_with(code, |code| format!("`{code}`")),
        };
        Markup(self.0.iter().map(text).collect())
    }

    pub(super) fn html(&self) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Words(words) => escaped(words),
            Piece::Code(code) => code_with(code, |code| format!("<code>{}</code>", escaped(code))),
        };
        self.0.iter().map(text).collect()
    }
}

/// Whether code may begin after this character of a sentence.
fn is_before_code(c: char) -> bool {
    c.is_whitespace() || "(\"'[/".contains(c)
}

/// Place of the backtick that ends the code that the first one begins: the next one before the end
/// of a word. Others belong to the name or the value inside.
fn end_of_code(marked: &str) -> Option<usize> {
    let ends = |at: &usize| {
        let behind = marked[at + 1..].chars().next();
        behind.is_none_or(|c| c.is_whitespace() || ".,;:)]'\"?!/…".contains(c))
    };
    marked
        .match_indices('`')
        .map(|(at, _)| at)
        .skip(1)
        .find(ends)
}

/// Whether a token is a sign that stands alone in sentences.
fn is_sign(token: &str) -> bool {
    ["->", "→", "=", "/", "·", "–", "—", "…"].contains(&token)
}

/// A word or a small number: text that no Git host turns into anything else.
fn is_plain(core: &str) -> bool {
    // Seven or more hex digits may be the id of a commit.
    let is_id = |part: &str| part.len() >= 7 && part.chars().all(|c| c.is_ascii_hexdigit());
    let is_word =
        |part: &str| !part.is_empty() && part.chars().all(char::is_alphabetic) && !is_id(part);
    let is_short = |part: &str| part.len() <= 6 && part.chars().all(|c| c.is_ascii_alphanumeric());
    let is_number =
        |part: &str| (1..=3).contains(&part.len()) && part.chars().all(|c| c.is_ascii_digit());
    let is_lowercase = !core.contains(char::is_uppercase);
    is_short(core)
        || core.split(['\'', '’']).all(is_word)
        || core.split(',').all(is_number)
        || is_lowercase && core.split('-').all(is_word)
}

/// The text in code spans. A character that cannot stand in one becomes a character reference
/// between two: a backtick would end the span, a pipe the table's cell, and others would start a
/// command of a CI system.
fn code_with(text: &str, span: impl Fn(&str) -> String) -> String {
    let commands = inner_commands(text);
    let (mut markup, mut inside) = (String::new(), String::new());
    for (at, c) in text.char_indices() {
        if matches!(c, '`' | '|') || commands.contains(&at) {
            markup.push_str(&padded(&take(&mut inside), &span));
            markup.push_str(&format!("&#{};", u32::from(c)));
        } else {
            inside.push(c);
        }
    }
    markup + &padded(&inside, &span)
}

/// Hosts may remove spaces at the ends of a code span, so they go before and after it.
fn padded(text: &str, span: impl Fn(&str) -> String) -> String {
    let inner = text.trim();
    if inner.is_empty() {
        return text.to_owned();
    }
    let space = |is_there: bool| if is_there { " " } else { "" };
    format!(
        "{}{}{}",
        space(text.starts_with(' ')),
        span(inner),
        space(text.ends_with(' '))
    )
}

/// A text with its special characters escaped for HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_backticks_stays_whole_in_a_sentence() {
        for (text, markdown) in [
            ("pool `a` and `b`.", "pool `a` and `b`."),
            (
                "pool `a`b@c|d` is full",
                "pool `a`&#96;`b@c`&#124;`d` is full",
            ),
            (
                "written by `o`hara`, and (`x`)",
                "written by `o`&#96;`hara`, and (`x`)",
            ),
            ("a`b", "a&#96;b"),
            (
                "(rank 0, requirements: 1): only",
                "(rank 0, requirements: 1): only",
            ),
            ("`` alone", "&#96;&#96; alone"),
        ] {
            assert_eq!(prose(text).as_str(), markdown, "{text}");
        }
    }
}
