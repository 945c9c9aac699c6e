//! The JSON Schema for editors. It also accepts what `kubectl get -o yaml` prints: fields of the
//! API server, and lists. It knows no field of a spec.

use serde_json::{Value, json};

use crate::documents::recognition::LIST;
use crate::documents::schema::{DocumentKind, json_schema};
use crate::documents::server_fields;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// JSON Schema (2020-12) of one kind, or of a document of any kind if `kind` is `None`.
pub fn editor_schema(kind: Option<DocumentKind>) -> Value {
    let Some(kind) = kind else {
        return any_document();
    };
    let mut schema = json_schema(kind);
    server_fields::permit(&mut schema);
    schema
}

fn any_document() -> Value {
    let definition = |kind: DocumentKind| {
        let mut schema = editor_schema(Some(kind));
        if let Some(object) = schema.as_object_mut() {
            object.remove("$schema");
        }
        (kind.as_str().to_owned(), schema)
    };
    let definitions: serde_json::Map<String, Value> =
        DocumentKind::ALL.map(definition).into_iter().collect();
    let documents = DocumentKind::ALL
        .map(|kind| json!({"$ref": format!("#/$defs/{kind}", kind = kind.as_str())}));
    let lists = DocumentKind::ALL.map(|kind| format!("{}List", kind.as_str()));
    let kinds: Vec<&str> = [LIST]
        .into_iter()
        .chain(lists.iter().map(String::as_str))
        .collect();
    let list = json!({
        "title": LIST,
        "description": "Several documents, as `kubectl get -o yaml` prints them.",
        "type": "object",
        "properties": {
            "kind": {"enum": kinds},
            "items": {"type": "array", "items": {"oneOf": documents}},
        },
        "required": ["kind", "items"],
    });
    let any: Vec<Value> = documents.into_iter().chain([list]).collect();
    json!({
        "$schema": DIALECT,
        "title": "cilium-ipam document",
        "oneOf": any,
        "$defs": definitions,
    })
}
