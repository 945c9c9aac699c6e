//! Faults of structure in words: what is wrong, where, and the way out.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use crate::documents::tree::{Document, Step};
use ipam_core::model::{Finding, Origin, Rule, Severity};

fn finding(rule: &'static str, message: String) -> Finding {
    Finding::new(Severity::Error, Rule(rule), message)
}

/// What an error of the validator means; one finding for each unknown field.
pub(super) fn findings(
    document: &Document,
    schema: &Value,
    path: &[Step],
    error: &ValidationError<'_>,
) -> Vec<Finding> {
    let field = field_name(path);
    let here = document.origin(path);
    let one = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            return unknown_fields(document, schema, path, error, unexpected);
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            finding("missing-field", format!("{field} has no `{name}`"))
                .at(&here, format!("`{name}` is missing"))
                .help(format!("add `{name}`"))
        }
        ValidationErrorKind::Type { kind } => wrong_type(schema, path, error, kind, &here),
        ValidationErrorKind::Enum { options } => {
            let help = match error.instance().as_ref() {
                Value::String(given) => suggestion(given, &texts(options)),
                _ => list_of(&texts(options)),
            };
            unknown_value(&field, error.instance())
                .at(&here, "unknown value")
                .help(help)
        }
        ValidationErrorKind::Constant { expected_value } => {
            let wanted = expected_value.as_str().unwrap_or_default();
            finding("unknown-value", format!("{field} is not `{wanted}`"))
                .at(&here, "unknown value")
                .help(format!("write `{wanted}`"))
        }
        _ => {
            let (message, help) = out_of_range(schema, &field, error);
            finding("out-of-range", message)
                .at(&here, "not allowed")
                .help(help)
        }
    };
    vec![one]
}

fn unknown_fields(
    document: &Document,
    schema: &Value,
    path: &[Step],
    error: &ValidationError<'_>,
    unexpected: &[String],
) -> Vec<Finding> {
    let known = properties_beside(schema, error);
    let unknown = |key: &String| {
        finding(
            "unknown-field",
            format!("`{key}` is no field of {}", field_name(path)),
        )
        .at(&document.key_origin(path, key), "unknown field")
        .help(suggestion(key, &known))
    };
    unexpected.iter().map(unknown).collect()
}

/// What was found in the place of what is expected.
fn wrong_type(
    schema: &Value,
    path: &[Step],
    error: &ValidationError<'_>,
    kind: &TypeKind,
    here: &Origin,
) -> Finding {
    let options = parent_of(schema, error)
        .and_then(|parent| parent.get("enum"))
        .map(texts)
        .filter(|options| !options.is_empty());
    let wanted = match path.last() {
        Some(Step::Key(key)) if key == "quarantine" => "a duration such as `10m`".to_owned(),
        _ => type_names(kind),
    };
    let help = match (error.instance().as_ref(), options) {
        (_, Some(options)) => list_of(&options),
        (Value::Null, None) => empty_help(path, is_required(schema, path, error), &wanted),
        (value, None) => type_help(value, &wanted),
    };
    let message = format!(
        "{} is {}, expected {wanted}",
        field_name(path),
        found(error.instance())
    );
    finding("wrong-type", message)
        .at(here, format!("expected {wanted}"))
        .help(help)
}

/// A value in a few words.
fn found(value: &Value) -> String {
    match value {
        Value::Null => "empty".to_owned(),
        Value::Bool(value) => format!("`{value}`"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.chars().count() <= 40 => {
            format!("the text `{}`", text.escape_debug())
        }
        Value::String(_) => "a long text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    }
}

fn texts(options: &Value) -> Vec<&str> {
    options
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn unknown_value(field: &str, given: &Value) -> Finding {
    let given = given
        .as_str()
        .map_or_else(|| given.to_string(), str::to_owned);
    finding("unknown-value", format!("{field} cannot be `{given}`"))
}

fn out_of_range(schema: &Value, field: &str, error: &ValidationError<'_>) -> (String, String) {
    let beside = |name: &str| parent_of(schema, error).and_then(|parent| parent.get(name));
    let between = || match (beside("minimum"), beside("maximum")) {
        (Some(least), Some(most)) => format!("write a number from {least} to {most}"),
        _ => "see `cilium-ipam schema` for what is allowed".to_owned(),
    };
    match error.kind() {
        ValidationErrorKind::Minimum { limit } => (format!("{field} is below {limit}"), between()),
        ValidationErrorKind::Maximum { limit } => (format!("{field} is above {limit}"), between()),
        ValidationErrorKind::MinItems { limit: 1 } => {
            (format!("{field} is empty"), "list at least one".to_owned())
        }
        ValidationErrorKind::MinItems { limit } => (
            format!("{field} has fewer than {limit} items"),
            format!("list at least {limit}"),
        ),
        ValidationErrorKind::MaxItems { limit } => (
            format!("{field} has more than {limit} items"),
            format!("list at most {limit}"),
        ),
        ValidationErrorKind::MinProperties { .. } => {
            let known: Vec<String> = properties_beside(schema, error)
                .iter()
                .map(|name| format!("`{name}`"))
                .collect();
            (
                format!("{field} is empty"),
                format!("add at least one of {}", known.join(", ")),
            )
        }
        _ => (format!("{field} is not allowed like this"), between()),
    }
}

/// A number with a fraction or an exponent, where no field takes one.
pub(super) fn fraction(document: &Document, path: &[Step], value: &Value) -> Finding {
    let value = path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    });
    let number = value.and_then(Value::as_f64).unwrap_or_default();
    finding(
        "wrong-type",
        format!("{} is not a whole number", field_name(path)),
    )
    .at(&document.origin(path), "should be a whole number")
    .help(format!(
        "write {} without a fraction or an exponent",
        number.trunc()
    ))
}

/// Whether an unknown field is in all likelihood the missing one, misspelt: that it is missing says
/// nothing new then.
pub(super) fn is_misspelt(
    schema: &Value,
    error: &ValidationError<'_>,
    unknown: &str,
    missing: &str,
) -> bool {
    nearest(unknown, &properties_beside(schema, error)) == Some(missing)
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
    if name.is_empty() {
        "the document".to_owned()
    } else {
        format!("`{name}`")
    }
}

fn parent_of<'s>(schema: &'s Value, error: &ValidationError<'_>) -> Option<&'s Value> {
    let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
    // What is required in the absence of something else stands one deeper.
    schema.pointer(parent.strip_suffix("/else").unwrap_or(parent))
}

fn properties_beside<'s>(schema: &'s Value, error: &ValidationError<'_>) -> Vec<&'s str> {
    let properties = parent_of(schema, error)
        .and_then(|parent| parent.get("properties"))
        .and_then(Value::as_object);
    properties
        .into_iter()
        .flat_map(|object| object.keys())
        .map(String::as_str)
        .collect()
}

/// A field that the API server drops because it is null.
pub(super) fn dropped(document: &Document, path: &[Step]) -> Finding {
    let message = format!("{} is empty, so the API server drops it", field_name(path));
    let finding = Finding::new(Severity::Warning, Rule("empty-field"), message);
    let help = match path.last() {
        Some(Step::Key(key)) if key == "serviceSelector" => {
            "write a selector, or `{}` for every Service"
        }
        _ => "write a value, or remove the field",
    };
    finding.at(&document.origin(path), "dropped").help(help)
}

fn empty_help(path: &[Step], is_required: bool, wanted: &str) -> String {
    match path.last() {
        Some(Step::Key(key)) if key == "nodeSelector" => {
            "write a selector, or `{}` for every node".to_owned()
        }
        Some(Step::Key(_)) if !is_required => format!("write {wanted}, or remove the field"),
        Some(Step::Index(_)) => format!("write {wanted}, or remove the item"),
        _ => format!("write {wanted}"),
    }
}

/// Whether the mapping around the field must have it.
fn is_required(schema: &Value, path: &[Step], error: &ValidationError<'_>) -> bool {
    let (Some(Step::Key(key)), Some((around, _))) = (
        path.last(),
        error.schema_path().as_str().rsplit_once("/properties/"),
    ) else {
        return false;
    };
    let names = |part: &str| {
        schema
            .pointer(&format!("{around}{part}/required"))
            .and_then(Value::as_array)
    };
    [names(""), names("/else")]
        .into_iter()
        .flatten()
        .flatten()
        .any(|name| name == key)
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
        TypeKind::Multiple(names) => names
            .iter()
            .map(|name| article(&name.to_string()))
            .collect::<Vec<_>>()
            .join(" or "),
    }
}

fn type_help(value: &Value, wanted: &str) -> String {
    match value {
        Value::Number(_) | Value::Bool(_) if wanted == "text" => "put it in quotes".to_owned(),
        Value::String(text) if wanted == "a list" => format!("write `[{text}]`"),
        Value::String(text) if wanted == "a whole number" => {
            format!("write a number such as 24 instead of `{text}`")
        }
        _ => format!("write {wanted}"),
    }
}

/// "did you mean", when something is near; all that is possible otherwise.
pub(super) fn suggestion(given: &str, known: &[&str]) -> String {
    nearest(given, known).map_or_else(|| list_of(known), |name| format!("did you mean `{name}`?"))
}

fn nearest<'k>(given: &str, known: &[&'k str]) -> Option<&'k str> {
    let most = |name: &str| 2.max(name.len() / 3);
    let (given, length) = (given.to_lowercase(), given.chars().count());
    // The distance is no less than the difference in length, and costs the product of both.
    let near = known
        .iter()
        .filter(|name| name.len().abs_diff(length) <= most(name));
    let distance = |name: &str| strsim::damerau_levenshtein(&given, &name.to_lowercase());
    let (distance, name) = near.map(|name| (distance(name), *name)).min()?;
    (distance <= most(name)).then_some(name)
}

/// Names that are listed where none is near.
const LISTED: usize = 20;

fn list_of(known: &[&str]) -> String {
    if known.is_empty() {
        return "remove it; nothing can stand here".to_owned();
    }
    let names: Vec<String> = known
        .iter()
        .take(LISTED)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = match known.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("known here: {}{more}", names.join(", "))
}
