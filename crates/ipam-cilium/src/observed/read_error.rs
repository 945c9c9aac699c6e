//! Errors for objects that cannot be read, in words for users.

use super::kind::{CLAIMS_NAME, ObservedKind};

/// An object that its kind's view rejects.
#[derive(Debug, thiserror::Error)]
#[error("{resource} `{name}` cannot be read: {why}")]
pub struct ReadError {
    resource: &'static str,
    name: String,
    why: String,
}

impl ReadError {
    /// An error for an object of a known kind.
    pub fn new(kind: ObservedKind, json: &str, why: &dyn std::error::Error) -> ReadError {
        ReadError::of(kind.resource(), json, why)
    }

    /// An error for an object of any resource.
    pub fn of(resource: &'static str, json: &str, why: &dyn std::error::Error) -> ReadError {
        ReadError {
            resource,
            name: name_of(json),
            why: without_type_names(&why.to_string()),
        }
    }

    /// An error for an object whose name is known, or that has none.
    pub(super) fn of_name(kind: ObservedKind, name: Option<&str>, why: &str) -> ReadError {
        ReadError {
            resource: kind.resource(),
            name: shown(name),
            why: without_type_names(why),
        }
    }

    /// Whether the object is the ConfigMap of claims.
    pub fn is_of_claims(&self) -> bool {
        self.resource == ObservedKind::Claims.resource() && self.name == CLAIMS_NAME
    }
}

/// Serde's message without type names of this program: `expected struct Spec` means nothing to
/// users.
pub fn without_type_names(why: &str) -> String {
    let mut text = String::new();
    let mut rest = why;
    while let Some((before, after)) = rest.split_once("expected struct ") {
        text.push_str(before);
        text.push_str("expected a mapping");
        rest = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    }
    text + rest
}

/// The name of an unreadable object, if it has one.
fn name_of(json: &str) -> String {
    let object: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let name = object
        .pointer("/metadata/name")
        .and_then(serde_json::Value::as_str);
    shown(name)
}

fn shown(name: Option<&str>) -> String {
    name.unwrap_or("without a name").escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_type_reaches_a_person() {
        let why = "invalid type: string \"x\", expected struct ItemMetadata at line 1 column 63";
        let message = "invalid type: string \"x\", expected a mapping at line 1 column 63";
        assert_eq!(without_type_names(why), message);
        assert_eq!(
            without_type_names("expected a sequence"),
            "expected a sequence"
        );
    }
}
