//! The file's text: JSON as `kubectl -o json` indents it, or YAML.

use serde_json::Value;

pub(super) fn yaml_to_json(text: &str) -> Result<String, String> {
    let value: Value = serde_yaml::from_str_with_options(text, options(text.len()))
        .map_err(|error| no_yaml(&error))?;
    serde_json::to_string(&value).map_err(|error| error.to_string())
}

/// The documents of a YAML or JSON text.
pub(crate) fn yaml_documents(text: &str) -> Result<Vec<Value>, String> {
    serde_yaml::from_multiple_with_options(text, options(text.len()))
        .map_err(|error| no_yaml(&error))
}

/// Scalars, lists and objects that a text of any length may have.
const NODES: usize = 100_000;

/// Bytes of text for each further scalar, list or object. kubectl prints at least 12, people 8.
const BYTES_PER_NODE: usize = 6;

/// kubectl prints lists of any length. A list of tiny items needs a hundred times its own length in
/// memory, and kubectl prints none. Depth and aliases keep their strict limits.
fn options(length: usize) -> serde_yaml::Options {
    serde_yaml::options! {
        strict_booleans: true,
        budget: serde_yaml::budget! {
            max_events: usize::MAX,
            max_nodes: NODES + length / BYTES_PER_NODE,
            max_total_scalar_bytes: usize::MAX,
        },
    }
}

fn no_yaml(error: &serde_yaml::Error) -> String {
    format!("it is neither JSON nor YAML: {}", error.without_snippet())
}

pub(super) fn json_to_yaml(text: &str) -> Result<String, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    serde_yaml::to_string(&value).map_err(|error| error.to_string())
}

/// An item as `kubectl -o json` indents it inside its list.
pub(super) fn pretty(object: &Value) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    serde::Serialize::serialize(object, &mut serializer)?;
    Ok(String::from_utf8_lossy(&bytes).replace('\n', "\n        "))
}
