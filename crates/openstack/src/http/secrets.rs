//! Hides secrets in text of servers. All such text enters errors through this module.

use std::fmt;

use crate::Access;

/// Longest part of a server's text that is searched, in characters.
const READ: usize = 4096;

/// Longest part that is shown, in characters.
const SHOWN: usize = 300;

/// A part of a secret of this length counts as the secret: servers shorten what they repeat.
const PART: usize = 16;

/// Replaces text with a secret in it.
const HIDDEN: &str = "(its words are not shown: they repeat a password or a token)";

/// Secrets that must not be shown.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    pub(super) fn of(access: &Access) -> Secrets {
        let mut secrets = Secrets::default();
        secrets.add(match access {
            Access::Password { password, .. } => password,
            Access::ApplicationCredential { secret, .. } => secret,
        });
        secrets
    }

    /// Adds a secret in its plain form and as escaped in JSON, in a URL and by Rust.
    pub(super) fn add(&mut self, secret: &str) {
        let in_url = |byte: u8| {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        };
        let in_json = serde_json::Value::from(secret).to_string();
        let forms = [
            secret.to_owned(),
            in_json[1..in_json.len() - 1].to_owned(),
            secret.bytes().map(in_url).collect(),
            secret.escape_debug().to_string(),
        ];
        for form in forms.into_iter().filter(|form| !form.is_empty()) {
            if !self.0.contains(&form) {
                self.0.push(form);
            }
        }
    }

    /// Whether the text contains a secret, or a part of one.
    pub(super) fn are_in(&self, words: &str) -> bool {
        self.0
            .iter()
            .any(|secret| has(words.as_bytes(), secret.as_bytes()))
    }

    /// The text, or a replacement if it contains a secret.
    pub(super) fn shown(&self, words: &str) -> String {
        let words: String = words
            .chars()
            .filter(|c| !c.is_control())
            .take(READ)
            .collect();
        if self.are_in(&words) {
            return HIDDEN.to_owned();
        }
        words.chars().take(SHOWN).collect()
    }
}

fn has(words: &[u8], secret: &[u8]) -> bool {
    let part = secret.len().min(PART);
    words
        .windows(part)
        .any(|window| secret.windows(part).any(|wanted| window == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_a_secret_is_hidden() {
        let token = "gAAAAABm0123456789abcdefghijklmnopqrstuvwxyz";
        let mut secrets = Secrets::default();
        secrets.add(token);
        secrets.add("pass\"word/ü");
        for words in [
            format!("token {token} is bad"),
            format!("token {}… is bad", &token[..20]),
            format!("{}{token}", "x".repeat(290)),
            format!("to\u{0}ken {}\u{1b}{}", &token[..9], &token[9..]),
            r#"{"password": "pass\"word/ü"}"#.to_owned(),
            "password=pass%22word%2F%C3%BC".to_owned(),
            r#"invalid type: string "pass\"word/ü", expected u64"#.to_owned(),
        ] {
            assert_eq!(secrets.shown(&words), HIDDEN, "{words:?}");
        }
        assert_eq!(
            secrets.shown("the quota is used up"),
            "the quota is used up"
        );
        assert_eq!(secrets.shown(&"x".repeat(500)).len(), 300);
        assert_eq!(Secrets::default().shown("words"), "words");
        assert!(!format!("{secrets:?}").contains("gAAAA"));
    }
}
