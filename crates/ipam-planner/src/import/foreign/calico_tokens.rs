//! The words of Calico's selector language.
//!
//! Source: `libcalico-go/lib/selector/tokenizer/tokenizer.go` of Calico 3.32.

use super::calico_selector::SelectorError;
use super::conjunction::PartOfValue;

/// A word of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Label(&'t str),
    Text(&'t str),
    Has(&'t str),
    All,
    Global,
    Equal,
    NotEqual,
    In,
    NotIn,
    Part(PartOfValue),
    Not,
    And,
    Or,
    Open,
    Close,
    OpenSet,
    CloseSet,
    Comma,
}

/// Reads a selector from left to right.
pub(super) struct Tokens<'t> {
    text: &'t str,
    /// Bytes that are read.
    at: usize,
    is_after_label: bool,
}

/// Signs that mean the same in every place. Longer ones come first.
const SIGNS: [(&str, Token<'static>); 10] = [
    ("==", Token::Equal),
    ("!=", Token::NotEqual),
    ("&&", Token::And),
    ("||", Token::Or),
    ("!", Token::Not),
    ("(", Token::Open),
    (")", Token::Close),
    ("{", Token::OpenSet),
    ("}", Token::CloseSet),
    (",", Token::Comma),
];

/// Operators after a label, as words with optional space between them.
const OPERATORS: [(&[&str], Token<'static>); 5] = [
    (&["contains"], Token::Part(PartOfValue::Contains)),
    (&["starts", "with"], Token::Part(PartOfValue::StartsWith)),
    (&["ends", "with"], Token::Part(PartOfValue::EndsWith)),
    (&["not", "in"], Token::NotIn),
    (&["in"], Token::In),
];

/// The longest label, in bytes.
const LONGEST_LABEL: usize = 512;

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str) -> Tokens<'t> {
        Tokens {
            text,
            at: 0,
            is_after_label: false,
        }
    }

    /// The next token; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Token<'t>>, SelectorError> {
        self.skip_space();
        if self.rest().is_empty() {
            return Ok(None);
        }
        let token = self.token()?;
        self.is_after_label = matches!(token, Token::Label(_));
        Ok(Some(token))
    }

    fn token(&mut self) -> Result<Token<'t>, SelectorError> {
        for (sign, token) in SIGNS {
            if self.cut(sign) {
                return Ok(token);
            }
        }
        for quote in ["\"", "'"] {
            if self.cut(quote) {
                let rest = self.rest();
                let end = rest
                    .find(quote)
                    .ok_or_else(|| self.expected("the closing quote"))?;
                self.at += end + 1;
                return Ok(Token::Text(&rest[..end]));
            }
        }
        if self.is_after_label {
            let operator = OPERATORS
                .into_iter()
                .find(|(words, _)| self.cut_words(words));
            return operator
                .map(|(_, token)| token)
                .ok_or_else(|| self.expected("an operator after the label"));
        }
        if self.cut("has(") {
            self.skip_space();
            let label = self.label()?;
            self.close()?;
            return Ok(Token::Has(label));
        }
        if self.cut("all(") {
            self.close()?;
            return Ok(Token::All);
        }
        if self.cut("global(") {
            self.close()?;
            return Ok(Token::Global);
        }
        self.label().map(Token::Label)
    }

    fn label(&mut self) -> Result<&'t str, SelectorError> {
        let rest = self.rest();
        let end = rest.find(|c| !is_of_label(c)).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.expected("a label, `has(…)`, `all()`, `!` or `(`"));
        }
        if end > LONGEST_LABEL {
            return Err(self.expected("a label of at most 512 characters"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn close(&mut self) -> Result<(), SelectorError> {
        self.skip_space();
        match self.cut(")") {
            true => Ok(()),
            false => Err(self.expected("`)`")),
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    fn cut(&mut self, prefix: &str) -> bool {
        let is_there = self.rest().starts_with(prefix);
        if is_there {
            self.at += prefix.len();
        }
        is_there
    }

    /// Cuts words, after which no character of a label follows.
    fn cut_words(&mut self, words: &[&str]) -> bool {
        let start = self.at;
        let are_there = words.iter().enumerate().all(|(place, word)| {
            if place > 0 {
                self.skip_space();
            }
            self.cut(word)
        });
        let is_end = || !self.rest().starts_with(is_of_label);
        let is_cut = are_there && is_end();
        if !is_cut {
            self.at = start;
        }
        is_cut
    }

    pub(super) fn expected(&self, expected: &'static str) -> SelectorError {
        SelectorError::Expected {
            at: self.at,
            expected,
        }
    }
}

fn is_of_label(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./-".contains(c)
}
