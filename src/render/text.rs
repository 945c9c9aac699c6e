//! Small parts of text: colour, counts, and names that may come from anywhere.

use std::borrow::Cow;

use super::log_command::json_without_commands;
pub use ipam_core::model::{count, grouped_digits};
pub(super) use ipam_core::text::is_harmful;
pub use ipam_core::text::printable;

/// Colours of the terminal; the program that prints strips them where they do not belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Something comes.
    Green,
    /// Something changes.
    Yellow,
    /// Something must wait or is wrong.
    Red,
    /// Headings.
    Bold,
    /// Beside the point.
    Dim,
}

impl Paint {
    /// The text in this colour.
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

/// `\u0041`, as JSON has it.
pub(super) fn unicode_escape(c: char) -> String {
    c.encode_utf16(&mut [0; 2])
        .iter()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect()
}

/// JSON text with what is harmful spelled out, which means the same: outside of its strings there
/// is none of it. No part of it is a command of a CI system.
pub fn harmless_json(json: &str) -> Cow<'_, str> {
    let json = json_without_commands(json);
    if !json.contains(is_harmful) {
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

/// The same, byte for byte as long, so that places in the text stay right.
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
        assert!(!harmless_json(&json).contains(is_harmful));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&harmless_json(&json)).unwrap(),
            value
        );
    }
}
