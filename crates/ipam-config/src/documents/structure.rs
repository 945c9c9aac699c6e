//! The structure of a document against the JSON Schema of its kind: every fault at once, each at
//! its place, and what of the document can be read in spite of them.
//!
//! Knows field names and types only, not what values mean.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use crate::documents::schema::{API_VERSION, DocumentKind, json_schema};
use crate::documents::tree::{Document, Step};
use crate::documents::words::{self, suggestion};
use ipam_core::model::{Finding, Rule, Severity};

struct Kind {
    schema: Value,
    validator: Validator,
}

static KINDS: LazyLock<Vec<(DocumentKind, Option<Kind>)>> = LazyLock::new(|| {
    let compile = |kind| {
        let schema = json_schema(Some(kind));
        jsonschema::validator_for(&schema)
            .ok()
            .map(|validator| Kind { schema, validator })
    };
    DocumentKind::ALL.map(|kind| (kind, compile(kind))).into()
});

/// The kind of a document, when it has one of ours.
pub(super) fn kind_of(document: &Document) -> Result<DocumentKind, Box<Finding>> {
    let path = [Step::Key("kind".into())];
    let fault = |rule: &'static str, message: String, label: &str, help: String| {
        let finding = Finding::new(Severity::Error, Rule(rule), message);
        Box::new(finding.at(&document.origin(&path), label).help(help))
    };
    let Some(name) = document.text_at(&path) else {
        let kinds = "`IPPool`, `NodeAssignment`, `ServiceAssignment` or `Policy`";
        return Err(if document.has(&path) {
            fault(
                "wrong-type",
                "`kind` is not text".to_owned(),
                "should be text",
                format!("write {kinds}"),
            )
        } else {
            let help = format!("start it with `apiVersion: {API_VERSION}` and `kind:` {kinds}");
            fault(
                "missing-field",
                "the document has no `kind`".to_owned(),
                "this document",
                help,
            )
        });
    };
    DocumentKind::from_name(name).ok_or_else(|| {
        let help = suggestion(name, &DocumentKind::ALL.map(DocumentKind::as_str));
        fault(
            "unknown-kind",
            format!("`{name}` is no kind that is known here"),
            "unknown kind",
            help,
        )
    })
}

/// A document held against its schema.
pub(super) struct Checked {
    /// Every structural fault.
    pub findings: Vec<Finding>,
    /// The document without the faulty parts; a faulty item of a list is null, so that the others
    /// keep their places.
    pub readable: Value,
    /// The places of the faults.
    pub faulty: Vec<Vec<Step>>,
}

/// Holds a document against the schema of its kind.
pub(super) fn check(document: &Document, kind: DocumentKind) -> Checked {
    let mut value = document.to_json();
    let Some((_, Some(Kind { schema, validator }))) =
        KINDS.iter().find(|(known, _)| *known == kind)
    else {
        let message = format!("the JSON Schema of {} cannot be compiled", kind.as_str());
        let finding = Finding::new(Severity::Error, Rule("internal"), message);
        let findings = vec![
            finding
                .at(&document.start(), "here")
                .help("report it as a bug"),
        ];
        return Checked {
            findings,
            readable: value,
            faulty: Vec::new(),
        };
    };
    let dropped = if kind.is_ciliums() {
        drop_nulls(&mut value, schema, &mut Vec::new())
    } else {
        Vec::new()
    };
    let findings = dropped
        .iter()
        .map(|path| words::dropped(document, path))
        .collect();
    let mut checked = Checked {
        findings,
        readable: value.clone(),
        faulty: Vec::new(),
    };
    let errors: Vec<(Vec<Step>, ValidationError<'_>)> = validator
        .iter_errors(&value)
        .map(|error| (steps(&value, &error), error))
        .collect();
    let unknown = Unknown::of(&errors);
    let floats = floats_of(&value, &errors, &unknown);
    let is_told = |path: &Vec<Step>, error: &ValidationError<'_>| {
        is_bound(error) && floats.contains(path)
            || is_empty_choice(error) && has_wrong_type(&errors, path)
    };
    for (path, error) in errors.iter().filter(|(path, error)| !is_told(path, error)) {
        checked.note(document, schema, path, error, &unknown);
    }
    for path in floats {
        checked
            .findings
            .push(words::fraction(document, &path, &value));
        checked.remove(path);
    }
    checked
}

impl Checked {
    fn note(
        &mut self,
        document: &Document,
        schema: &Value,
        path: &[Step],
        error: &ValidationError<'_>,
        unknown: &Unknown<'_>,
    ) {
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { .. } => {
                self.findings
                    .extend(words::findings(document, schema, path, error));
                unknown_fields(path, error)
                    .into_iter()
                    .for_each(|path| self.remove(path));
            }
            ValidationErrorKind::Required { property } => {
                let missing = [
                    path,
                    &[Step::Key(property.as_str().unwrap_or_default().to_owned())],
                ]
                .concat();
                let name = property.as_str().unwrap_or_default();
                if !unknown
                    .beside(path)
                    .any(|unknown| words::is_misspelt(schema, error, unknown, name))
                {
                    self.findings
                        .extend(words::findings(document, schema, path, error));
                }
                self.remove(missing);
            }
            kind => {
                self.findings
                    .extend(words::findings(document, schema, path, error));
                if is_count(kind) {
                    self.faulty.push(path.to_vec());
                } else {
                    self.remove(path.to_vec());
                }
            }
        }
    }

    fn remove(&mut self, path: Vec<Step>) {
        remove(&mut self.readable, &path);
        self.faulty.push(path);
    }
}

/// Takes away the fields that are null, and says where they were. A field that the schema does not
/// know stays, and is told as unknown.
fn drop_nulls(value: &mut Value, schema: &Value, path: &mut Vec<Step>) -> Vec<Vec<Step>> {
    let mut dropped = Vec::new();
    let mut child = |step: Step, value: &mut Value, schema: &Value| {
        path.push(step);
        let is_dropped = value.is_null() && matches!(path.last(), Some(Step::Key(_)));
        if is_dropped {
            dropped.push(path.clone());
        } else {
            dropped.extend(drop_nulls(value, schema, path));
        }
        path.pop();
        !is_dropped
    };
    match value {
        Value::Object(fields) => fields.retain(|key, value| {
            let of_others =
                Some(&schema["additionalProperties"]).filter(|schema| schema.is_object());
            let of_field = schema["properties"].get(key).or(of_others);
            of_field.is_none_or(|schema| child(Step::Key(key.clone()), value, schema))
        }),
        // An item of a list stays, and the API server refuses it.
        Value::Array(items) => items.iter_mut().enumerate().for_each(|(index, item)| {
            child(Step::Index(index), item, &schema["items"]);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    dropped
}

/// Too few or too many of something that can be read.
fn is_count(kind: &ValidationErrorKind) -> bool {
    use ValidationErrorKind::{MaxItems, MinItems, MinProperties};
    matches!(
        kind,
        MinItems { .. } | MaxItems { .. } | MinProperties { .. }
    )
}

/// A field without a value where one of a few texts must stand: that it is no text says all.
fn is_empty_choice(error: &ValidationError<'_>) -> bool {
    matches!(error.kind(), ValidationErrorKind::Enum { .. }) && error.instance().is_null()
}

fn has_wrong_type(errors: &[(Vec<Step>, ValidationError<'_>)], path: &[Step]) -> bool {
    errors
        .iter()
        .any(|(at, error)| at == path && matches!(error.kind(), ValidationErrorKind::Type { .. }))
}

fn is_bound(error: &ValidationError<'_>) -> bool {
    matches!(
        error.kind(),
        ValidationErrorKind::Minimum { .. } | ValidationErrorKind::Maximum { .. }
    )
}

fn remove(value: &mut Value, path: &[Step]) {
    match (value, path) {
        (Value::Array(items), [Step::Index(index), ..]) => {
            if let Some(item) = items.get_mut(*index) {
                *item = Value::Null;
            }
        }
        (Value::Object(fields), [Step::Key(key)]) => {
            fields.remove(key);
        }
        (Value::Object(fields), [Step::Key(key), rest @ ..]) => {
            if let Some(child) = fields.get_mut(key) {
                remove(child, rest);
            }
        }
        _ => {}
    }
}

/// The fields that no schema knows, by the mapping that has them.
struct Unknown<'e>(BTreeMap<&'e [Step], BTreeSet<&'e str>>);

impl<'e> Unknown<'e> {
    fn of(errors: &'e [(Vec<Step>, ValidationError<'_>)]) -> Unknown<'e> {
        let mut unknown: BTreeMap<&[Step], BTreeSet<&str>> = BTreeMap::new();
        for (path, error) in errors {
            if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
                unknown
                    .entry(path)
                    .or_default()
                    .extend(unexpected.iter().map(String::as_str));
            }
        }
        Unknown(unknown)
    }

    fn beside(&self, path: &[Step]) -> impl Iterator<Item = &'e str> {
        self.0.get(path).into_iter().flatten().copied()
    }

    /// Whether a place is one of them, or lies in one.
    fn has(&self, path: &[Step]) -> bool {
        path.iter().enumerate().any(|(depth, step)| match step {
            Step::Key(key) => self
                .0
                .get(&path[..depth])
                .is_some_and(|fields| fields.contains(key.as_str())),
            Step::Index(_) => false,
        })
    }
}

fn unknown_fields(path: &[Step], error: &ValidationError<'_>) -> Vec<Vec<Step>> {
    let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() else {
        return Vec::new();
    };
    unexpected
        .iter()
        .map(|key| [path, &[Step::Key(key.clone())]].concat())
        .collect()
}

/// The path of an error; only the value tells whether `0` is an index or a key.
fn steps(value: &Value, error: &ValidationError<'_>) -> Vec<Step> {
    let mut here = Some(value);
    let mut steps = Vec::new();
    for part in error.instance_path().as_str().split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        match (here, part.parse::<usize>()) {
            (Some(Value::Array(items)), Ok(index)) => {
                here = items.get(index);
                steps.push(Step::Index(index));
            }
            _ => {
                here = here.and_then(|value| value.get(&part));
                steps.push(Step::Key(part));
            }
        }
    }
    steps
}

/// Numbers written with a fraction or an exponent. JSON Schema takes 24.0 for an integer, people
/// and Kubernetes do not.
fn floats_of(
    value: &Value,
    errors: &[(Vec<Step>, ValidationError<'_>)],
    unknown: &Unknown<'_>,
) -> BTreeSet<Vec<Step>> {
    let mut floats = Vec::new();
    collect_floats(value, &mut Vec::new(), &mut floats);
    let others = errors.iter().filter(|(_, error)| !is_bound(error));
    let told: BTreeSet<&[Step]> = others.map(|(path, _)| path.as_slice()).collect();
    floats
        .into_iter()
        .filter(|path| !told.contains(path.as_slice()) && !unknown.has(path))
        .collect()
}

fn collect_floats(value: &Value, path: &mut Vec<Step>, floats: &mut Vec<Vec<Step>>) {
    let mut child = |step: Step, value: &Value| {
        path.push(step);
        collect_floats(value, path, floats);
        path.pop();
    };
    match value {
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| child(Step::Index(index), item));
        }
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, value)| child(Step::Key(key.clone()), value)),
        // Beyond this the parser gives a float for a whole number too, and the bounds of the schema
        // refuse it.
        Value::Number(number)
            if number.is_f64() && number.as_f64().is_some_and(|number| number.abs() < 9e15) =>
        {
            floats.push(path.clone());
        }
        _ => {}
    }
}
