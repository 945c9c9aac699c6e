//! A token, which no text may show.

use std::fmt;

use crate::ForgeError;

/// A part of a token of this length counts as the token.
const PART: usize = 8;

/// Longest text of a server that is shown, in characters.
const SHOWN: usize = 300;

/// A token of a forge.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

impl Token {
    /// White space at the ends is removed.
    ///
    /// # Errors
    /// Fails if it is empty or has characters that no token has.
    pub fn new(text: &str) -> Result<Token, ForgeError> {
        let token = text.trim();
        let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
        match token.is_empty() || !is_visible {
            false => Ok(Token(token.to_owned())),
            true => Err(ForgeError::Misconfigured(
                "the token is empty, or has characters that no token has".to_owned(),
            )),
        }
    }

    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// A text of the server on one line, or a replacement if it repeats the token.
    pub(crate) fn hidden(&self, text: &str) -> String {
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        let token = self.0.as_bytes();
        let repeats = token
            .windows(PART.min(token.len()))
            .any(|part| text.as_bytes().windows(part.len()).any(|seen| seen == part));
        match repeats {
            true => "(its words are not shown: they repeat the token)".to_owned(),
            false => text.chars().take(SHOWN).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_shown() {
        let token = Token::new(" ghp_0123456789abcdef\n").unwrap();
        assert_eq!(token.header(), "Bearer ghp_0123456789abcdef");
        assert!(!format!("{token:?}").contains("ghp"));
        for text in [
            "bad ghp_0123456789abcdef",
            "bad …456789abcd…",
            "gh\u{0}p_0123456",
        ] {
            assert!(token.hidden(text).starts_with("(its words"), "{text}");
        }
        assert_eq!(token.hidden("no\nway"), "noway");
        assert_eq!(token.hidden(&"é".repeat(500)).chars().count(), 300);
    }

    #[test]
    fn a_token_has_only_visible_characters() {
        for bad in ["", " ", "a b", "a\r\nHost: x", "é"] {
            let error = Token::new(bad).unwrap_err().to_string();
            assert!(
                error.starts_with("the token is empty, or has"),
                "{bad}: {error}"
            );
        }
    }
}
