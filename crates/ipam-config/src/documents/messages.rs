//! Messages about structural faults: what is wrong, where, and how to fix it.
//!
//! Knows nothing of the meaning of values.

use serde_json::Value;

use crate::documents::tree::{Document, Step};
use crate::documents::validator::{Fault, FaultKind};
use ipam_core::model::{Finding, Origin, Rule, Severity, first_of};
use ipam_core::text::{joined, one_line};

fn finding(rule: &'static str, message: String) -> Finding {
    Finding::new(Severity::Error, Rule(rule), message)
}

/// The findings of one fault: one for each unknown field, otherwise exactly one.
pub(super) fn findings(document: &Document, fault: &Fault<'_, '_>) -> Vec<Finding> {
    let field = field_name(&fault.path);
    let here = document.origin(&fault.path);
    let one = match &fault.kind {
        FaultKind::AdditionalProperties(unknown) => {
            return unknown_fields(document, fault, unknown);
        }
        FaultKind::Required(name) => finding("missing-field", format!("{field} has no `{name}`"))
            .at(&here, format!("`{name}` is missing"))
            .help(format!("add `{name}`")),
        FaultKind::Type(types) => wrong_type(fault, types, &here),
        FaultKind::Enum(allowed) => {
            let help = match fault.instance {
                Value::String(given) => suggestion(given, &texts(allowed)),
                _ => list_of(&texts(allowed)),
            };
            unknown_value(&field, fault.instance)
                .at(&here, "unknown value")
                .help(help)
        }
        FaultKind::Const(expected) => {
            let wanted = expected.as_str().unwrap_or_default();
            finding("unknown-value", format!("{field} is not `{wanted}`"))
                .at(&here, "unknown value")
                .help(format!("write `{wanted}`"))
        }
        FaultKind::Never => finding("unknown-field", format!("{field} is not allowed"))
            .at(&here, "not allowed")
            .help("remove it"),
        FaultKind::Minimum(_)
        | FaultKind::Maximum(_)
        | FaultKind::MinItems(_)
        | FaultKind::MaxItems(_)
        | FaultKind::MinProperties => {
            let (message, help) = out_of_range(&field, fault);
            finding("out-of-range", message)
                .at(&here, "not allowed")
                .help(help)
        }
    };
    vec![one]
}

fn unknown_fields(document: &Document, fault: &Fault<'_, '_>, unknown: &[&str]) -> Vec<Finding> {
    let known = properties_of(fault.schema);
    let finding_of = |key: &&str| {
        let field = [&fault.path[..], &[Step::Key((*key).to_owned())]].concat();
        finding(
            "unknown-field",
            format!("unknown field {}", field_name(&field)),
        )
        .at(&document.key_origin(&fault.path, key), "unknown field")
        .help(suggestion(key, &known))
    };
    unknown.iter().map(finding_of).collect()
}

fn wrong_type(fault: &Fault<'_, '_>, types: &[&str], here: &Origin) -> Finding {
    let Fault {
        path,
        kind: _,
        instance,
        schema,
        mapping: _,
    } = fault;
    let allowed = schema.get("enum").and_then(Value::as_array);
    let allowed = allowed
        .map(|allowed| texts(allowed))
        .filter(|allowed| !allowed.is_empty());
    let wanted = match path.last() {
        Some(Step::Key(key)) if key == "quarantine" || key == "duration" => {
            "a duration such as `10m`".to_owned()
        }
        _ => type_text(types),
    };
    let help = match (instance, allowed) {
        (_, Some(allowed)) => list_of(&allowed),
        (Value::Null, None) => empty_help(path, is_required(fault), &wanted),
        (value, None) => type_help(value, &wanted),
    };
    let message = format!(
        "{} is {}, expected {wanted}",
        field_name(path),
        value_text(instance)
    );
    finding("wrong-type", message)
        .at(here, format!("expected {wanted}"))
        .help(help)
}

/// Describes a value; long text is not quoted.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "empty".to_owned(),
        Value::Bool(value) => format!("`{value}`"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.chars().count() <= 40 => {
            format!("the text `{}`", one_line(text))
        }
        Value::String(_) => "a long text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    }
}

fn texts(values: &[Value]) -> Vec<&str> {
    values.iter().filter_map(Value::as_str).collect()
}

fn unknown_value(field: &str, given: &Value) -> Finding {
    let given = given
        .as_str()
        .map_or_else(|| given.to_string(), str::to_owned);
    finding("unknown-value", format!("{field} cannot be `{given}`"))
}

fn out_of_range(field: &str, fault: &Fault<'_, '_>) -> (String, String) {
    let beside = |name: &str| fault.schema.get(name);
    let between = || match (beside("minimum"), beside("maximum")) {
        (Some(least), Some(most)) => format!("write a number from {least} to {most}"),
        _ => "see `cilium-ipam schema` for the allowed values".to_owned(),
    };
    match &fault.kind {
        FaultKind::Minimum(limit) => (format!("{field} is below {limit}"), between()),
        FaultKind::Maximum(limit) => (format!("{field} is above {limit}"), between()),
        FaultKind::MinItems(1) => (format!("{field} is empty"), "list at least one".to_owned()),
        FaultKind::MinItems(limit) => (
            format!("{field} has fewer than {limit} items"),
            format!("list at least {limit}"),
        ),
        FaultKind::MaxItems(limit) => (
            format!("{field} has more than {limit} items"),
            format!("list at most {limit}"),
        ),
        FaultKind::MinProperties => {
            let known = properties_of(fault.schema);
            let known = joined(known.iter().map(|name| format!("`{name}`")), ", ");
            (
                format!("{field} is empty"),
                format!("add at least one of {known}"),
            )
        }
        FaultKind::Type(_)
        | FaultKind::Enum(_)
        | FaultKind::Const(_)
        | FaultKind::Required(_)
        | FaultKind::AdditionalProperties(_)
        | FaultKind::Never => (format!("{field} is not allowed like this"), between()),
    }
}

/// A number with a fraction or an exponent. No field takes one.
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

/// Whether an unknown field is probably the missing one, misspelt. Then the missing one is not
/// reported.
pub(super) fn is_misspelt(fault: &Fault<'_, '_>, unknown: &str, missing: &str) -> bool {
    nearest(unknown, &properties_of(fault.schema)) == Some(missing)
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

fn properties_of(schema: &Value) -> Vec<&str> {
    let properties = schema.get("properties").and_then(Value::as_object);
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

/// Whether the schema requires the faulty field.
fn is_required(fault: &Fault<'_, '_>) -> bool {
    let (Some(Step::Key(key)), Some(mapping)) = (fault.path.last(), fault.mapping) else {
        return false;
    };
    ["/required", "/else/required"]
        .into_iter()
        .filter_map(|part| mapping.pointer(part)?.as_array())
        .flatten()
        .any(|name| name == key)
}

fn type_text(types: &[&str]) -> String {
    let article = |name: &&str| match *name {
        "array" => "a list".to_owned(),
        "object" => "a mapping".to_owned(),
        "integer" => "a whole number".to_owned(),
        "string" => "text".to_owned(),
        "boolean" => "`true` or `false`".to_owned(),
        other => format!("a {other}"),
    };
    types.iter().map(article).collect::<Vec<_>>().join(" or ")
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

/// "did you mean", if a known name is near; otherwise a list of the known names.
pub(super) fn suggestion(given: &str, known: &[&str]) -> String {
    nearest(given, known).map_or_else(|| list_of(known), |name| format!("did you mean `{name}`?"))
}

pub(super) fn nearest<'k>(given: &str, known: &[&'k str]) -> Option<&'k str> {
    let most = |name: &str| 2.max(name.len() / 3);
    let (given, length) = (given.to_lowercase(), given.chars().count());
    // The distance is at least the difference in length. Computing it costs the product of both.
    let near = known
        .iter()
        .filter(|name| name.len().abs_diff(length) <= most(name));
    let distance = |name: &str| strsim::damerau_levenshtein(&given, &name.to_lowercase());
    let (distance, name) = near.map(|name| (distance(name), *name)).min()?;
    (distance <= most(name)).then_some(name)
}

/// Limit of the names that a message lists.
const LISTED: usize = 20;

fn list_of(known: &[&str]) -> String {
    if known.is_empty() {
        return "remove it; nothing can stand here".to_owned();
    }
    let names = known.iter().map(|name| format!("`{name}`"));
    format!("known here: {}", first_of(LISTED, names))
}
