//! The page about the fields of the files, from their JSON Schemas.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::generated::{NOTE, printed};

const HEAD: &str = "# All fields

Every field of every kind. [The files](files.md) shows an example and explains the main fields.
`cilium-ipam schema KIND` prints this as JSON Schema for an editor. Fields are optional unless they are
marked as required.
";

/// The kinds of the files, most used first.
const KINDS: [&str; 6] = [
    "IPPool",
    "NodeAssignment",
    "IPAMPolicy",
    "ServiceAssignment",
    "CiliumLoadBalancerIPPool",
    "PolicyTest",
];

pub fn page() -> String {
    let mut page = format!("{NOTE}\n\n{HEAD}");
    for kind in KINDS {
        let schema: Value = serde_json::from_str(&printed(&["schema", kind])).unwrap();
        let about = schema["description"].as_str().unwrap_or("");
        write!(page, "\n## {kind}\n\n{about}\n").unwrap();
        Fields::default().add(&mut page, "", &schema["properties"]["spec"]);
    }
    page
}

/// The fields of one kind. Objects with the same fields are written once.
#[derive(Default)]
struct Fields {
    /// Where the fields of an object are, by these fields.
    places: BTreeMap<String, String>,
}

impl Fields {
    fn add(&mut self, page: &mut String, place: &str, schema: &Value) {
        let empty = serde_json::Map::new();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, field) in schema["properties"].as_object().unwrap_or(&empty) {
            let path = format!("{place}{name}");
            let is_required = required.contains(&Value::from(name.as_str()));
            let (inside, path_inside) = match &field["items"] {
                Value::Null => (field, path.clone()),
                items => (items, format!("{path}[]")),
            };
            let known = self.known(&path_inside, inside);
            let same = known.map(|place| format!("Fields as in `{place}`."));
            let about = field["description"].as_str().unwrap_or("");
            let about = about.replace('\n', " ");
            let default = match is_required {
                true => "Required.".to_owned(),
                false => default(field, &about),
            };
            let kind = format!("*{}*.", kind(field));
            let parts = [kind, about, same.clone().unwrap_or_default(), default];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let text = parts.join(" ");
            writeln!(page, "\n`{path}`\n: {text}").unwrap();
            if same.is_none() {
                self.add(page, &format!("{path_inside}."), inside);
            }
        }
    }

    /// Where the fields of this object are already.
    fn known(&mut self, place: &str, object: &Value) -> Option<String> {
        let fields = object["properties"].as_object()?;
        let fields = serde_json::to_string(fields).unwrap();
        match self.places.get(&fields) {
            Some(known) => Some(known.clone()),
            None => {
                self.places.insert(fields, place.to_owned());
                None
            }
        }
    }
}

/// The default as a sentence, unless the description has it.
fn default(field: &Value, about: &str) -> String {
    let text = match &field["default"] {
        _ if about.contains("Default:") => return String::new(),
        Value::Null => return String::new(),
        Value::Array(list) if list.is_empty() => return String::new(),
        Value::Object(map) if map.is_empty() => return String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!("Default: `{text}`.")
}

/// The type of a field, in the words of a person.
fn kind(field: &Value) -> String {
    if let Some(values) = field["enum"].as_array() {
        let values: Vec<String> = values
            .iter()
            .filter_map(Value::as_str)
            .map(|value| format!("`{value}`"))
            .collect();
        return values.join(", ");
    }
    let one = |name: &str| match name {
        "array" => format!(
            "list of {}",
            kind(&field["items"]).replace("object", "objects")
        ),
        "object" if field["additionalProperties"].is_object() => {
            format!("map of {}", kind(&field["additionalProperties"]))
        }
        "integer" => "number".to_owned(),
        "string" => "text".to_owned(),
        other => other.to_owned(),
    };
    match &field["type"] {
        Value::String(name) => one(name),
        Value::Array(names) => {
            let names: Vec<String> = names.iter().filter_map(Value::as_str).map(one).collect();
            names.join(" or ")
        }
        _ => "any".to_owned(),
    }
}
