//! Small parts of text: colour, counts and untrusted names.

use std::borrow::Cow;

use super::log_command::json_without_commands;
pub use ipam_core::model::{count, grouped_digits};
pub use ipam_core::text::printable;
pub(super) use ipam_core::text::{has_harmful, is_harmful};

/// Colours of the terminal. The printing code strips them if the stream is no terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// An addition.
    Green,
    /// A change.
    Yellow,
    /// Something blocked, removed or wrong.
    Red,
    /// Headings.
    Bold,
    /// A side note.
    Dim,
}

impl Paint {
    pub fn on(self, text: &str) -> String {
        let code = match self {
            Paint::Green => "32",
            Paint::Yellow => "33",
            Paint::Red => "31",
            Paint::Bold => "1",
            Paint::Dim => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// `\u0041`, as in JSON.
pub(super) fn unicode_escape(c: char) -> String {
    c.encode_utf16(&mut [0; 2])
        .iter()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect()
}

/// JSON text with harmful characters as escapes. It means the same, because JSON has such
/// characters in strings only. No part of it is a command of a CI system.
pub fn sanitized_json(json: &str) -> Cow<'_, str> {
    let json = json_without_commands(json);
    if !has_harmful(&json) {
        return json;
    }
    let spell = |c: char| {
        if is_harmful(c) {
            unicode_escape(c)
        } else {
            c.to_string()
        }
    };
    Cow::Owned(json.chars().map(spell).collect())
}

/// Text with harmful characters masked. Its bytes keep their places.
pub(super) fn masked(text: &str) -> String {
    text.chars()
        .map(|c| {
            if is_harmful(c) {
                "?".repeat(c.len_utf8())
            } else {
                c.to_string()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({"a": "x\u{202e}y\u{e0041}\u{1b}ä"});
        let json = value.to_string();
        assert!(!sanitized_json(&json).contains(is_harmful));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&sanitized_json(&json)).unwrap(),
            value
        );
    }
}
