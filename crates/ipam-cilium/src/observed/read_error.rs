//! Why an object could not be read, in words for people.

use super::kind::{CLAIMS_NAME, ObservedKind};

/// An object that is not what its kind says.
#[derive(Debug, thiserror::Error)]
#[error("{resource} `{name}` cannot be read: {why}")]
pub struct ReadError {
    resource: &'static str,
    name: String,
    why: String,
}

impl ReadError {
    /// An object of that kind could not be read from this text.
    pub fn new(kind: ObservedKind, json: &str, why: &dyn std::error::Error) -> ReadError {
        ReadError::of(kind.resource(), json, why)
    }

    /// The same for a kind that no plan reads.
    pub fn of(resource: &'static str, json: &str, why: &dyn std::error::Error) -> ReadError {
        ReadError {
            resource,
            name: name_of(json),
            why: without_type_names(&why.to_string()),
        }
    }

    /// Whether the object is the one that keeps the claims.
    pub fn is_of_claims(&self) -> bool {
        self.resource == ObservedKind::Claims.resource() && self.name == CLAIMS_NAME
    }
}

/// What serde says of a value, in words of JSON and not of this program: `expected struct Spec`
/// says nothing to a person.
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

/// The name of an object that cannot be read as what it should be.
fn name_of(json: &str) -> String {
    let object: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let name = object
        .pointer("/metadata/name")
        .and_then(serde_json::Value::as_str);
    name.unwrap_or("without a name").escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_type_reaches_a_person() {
        let why = "invalid type: string \"x\", expected struct ItemMetadata at line 1 column 63";
        let told = "invalid type: string \"x\", expected a mapping at line 1 column 63";
        assert_eq!(without_type_names(why), told);
        assert_eq!(
            without_type_names("expected a sequence"),
            "expected a sequence"
        );
    }
}
