//! The structure of a document against the JSON Schema of its kind: every fault at once, each at its place.
//!
//! Knows field names and types only, not what values mean.

use std::sync::LazyLock;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::schema::{API_VERSION, DocumentKind, json_schema};
use super::tree::{Document, Step};
use crate::model::{Finding, Rule, Severity};

struct Kind {
    schema: Value,
    validator: Validator,
}

static KINDS: LazyLock<Vec<(DocumentKind, Option<Kind>)>> = LazyLock::new(|| {
    let compile = |kind| {
        let schema = json_schema(Some(kind));
        jsonschema::validator_for(&schema).ok().map(|validator| Kind { schema, validator })
    };
    DocumentKind::ALL.map(|kind| (kind, compile(kind))).into()
});

/// The kind of a document, when it has one of ours.
pub(super) fn kind_of(document: &Document) -> Result<DocumentKind, Box<Finding>> {
    let path = [Step::Key("kind".into())];
    let Some(name) = document.text_at(&path) else {
        let message = "the document has no `kind`";
        return Err(Box::new(
            Finding::new(Severity::Error, Rule("missing-field"), message)
                .at(&document.origin(&path), "this document")
                .help(format!(
                    "start it with `apiVersion: {API_VERSION}` and `kind: IPPool`, `NodeAssignment` or `Policy`"
                )),
        ));
    };
    DocumentKind::from_name(name).ok_or_else(|| {
        let known = DocumentKind::ALL.map(DocumentKind::as_str);
        Box::new(
            Finding::new(Severity::Error, Rule("unknown-kind"), format!("`{name}` is no kind that is known here"))
                .at(&document.origin(&path), "unknown kind")
                .help(suggestion(name, &known)),
        )
    })
}

/// Every structural fault of a document of that kind.
pub(super) fn faults(document: &Document, kind: DocumentKind, value: &Value) -> Vec<Finding> {
    let Some((_, Some(Kind { schema, validator }))) = KINDS.iter().find(|(known, _)| *known == kind) else {
        let message = format!("the JSON Schema of {} cannot be compiled", kind.as_str());
        return vec![Finding::new(Severity::Error, Rule("internal"), message).at(&document.start(), "here")];
    };
    validator.iter_errors(value).flat_map(|error| findings(document, schema, &error)).collect()
}

fn steps(error: &ValidationError<'_>, value_path: &str) -> Vec<Step> {
    debug_assert_eq!(error.instance_path().as_str(), value_path, "the path is the error's own");
    let unescape = |part: &str| part.replace("~1", "/").replace("~0", "~");
    let step = |part: &str| part.parse().map_or_else(|_| Step::Key(unescape(part)), Step::Index);
    value_path.split('/').skip(1).map(step).collect()
}

fn findings(document: &Document, schema: &Value, error: &ValidationError<'_>) -> Vec<Finding> {
    let path = steps(error, error.instance_path().as_str());
    let field = field_name(&path);
    let finding = |rule: &'static str, message: String| Finding::new(Severity::Error, Rule(rule), message);
    let here = document.origin(&path);
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = properties_beside(schema, error.schema_path().as_str());
            let unknown = |key: &String| {
                finding("unknown-field", format!("`{key}` is no field of {field}"))
                    .at(&document.key_origin(&path, key), "unknown field")
                    .help(suggestion(key, &known))
            };
            unexpected.iter().map(unknown).collect()
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![
                finding("missing-field", format!("{field} has no `{name}`"))
                    .at(&here, format!("`{name}` is missing"))
                    .help(format!("add `{name}`")),
            ]
        }
        ValidationErrorKind::Type { kind } => {
            let wanted = type_names(kind);
            vec![
                finding("wrong-type", format!("{field} is not {wanted}"))
                    .at(&here, format!("should be {wanted}"))
                    .help(type_help(error.instance(), &wanted)),
            ]
        }
        ValidationErrorKind::Enum { options } => {
            let known: Vec<&str> = options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let given = error.instance().as_str().unwrap_or_default();
            vec![
                finding("unknown-value", format!("{field} cannot be `{given}`"))
                    .at(&here, "unknown value")
                    .help(suggestion(given, &known)),
            ]
        }
        ValidationErrorKind::Constant { expected_value } => {
            let wanted = expected_value.as_str().unwrap_or_default();
            vec![
                finding("unknown-value", format!("{field} is not `{wanted}`"))
                    .at(&here, "unknown value")
                    .help(format!("write `{wanted}`")),
            ]
        }
        _ => vec![
            finding("out-of-range", format!("{field}: {error}"))
                .at(&here, "not allowed")
                .help("see `cilium-ipam schema` for what is allowed"),
        ],
    }
}

fn field_name(path: &[Step]) -> String {
    let mut name = String::new();
    for step in path {
        match step {
            Step::Key(key) if name.is_empty() => name.push_str(key),
            Step::Key(key) => {
                name.push('.');
                name.push_str(key);
            }
            Step::Index(index) => name.push_str(&format!("[{index}]")),
        }
    }
    if name.is_empty() { "the document".to_owned() } else { format!("`{name}`") }
}

fn properties_beside<'s>(schema: &'s Value, schema_path: &str) -> Vec<&'s str> {
    let parent = schema_path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let properties = schema.pointer(&format!("{parent}/properties")).and_then(Value::as_object);
    properties.into_iter().flat_map(|object| object.keys()).map(String::as_str).collect()
}

fn type_names(kind: &TypeKind) -> String {
    let article = |name: &str| match name {
        "array" => "a list".to_owned(),
        "object" => "a mapping".to_owned(),
        "integer" => "a whole number".to_owned(),
        "string" => "text".to_owned(),
        "boolean" => "`true` or `false`".to_owned(),
        other => format!("a {other}"),
    };
    match kind {
        TypeKind::Single(name) => article(&name.to_string()),
        TypeKind::Multiple(names) => {
            names.iter().map(|name| article(&name.to_string())).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn type_help(value: &Value, wanted: &str) -> String {
    match value {
        Value::Number(_) | Value::Bool(_) if wanted == "text" => "put it in quotes".to_owned(),
        Value::String(text) if wanted == "a list" => format!("write `[{text}]`"),
        Value::String(text) if wanted == "a whole number" => format!("write a number such as 24 instead of `{text}`"),
        _ => format!("write {wanted}"),
    }
}

/// "did you mean", when something is near; all that is possible otherwise.
pub(super) fn suggestion(given: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&given.to_lowercase(), &name.to_lowercase()), *name))
        .min();
    match near {
        Some((distance, name)) if distance <= 2.max(name.len() / 3) => format!("did you mean `{name}`?"),
        _ => format!("known here: {}", known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
    }
}
