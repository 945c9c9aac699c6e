//! Checks the structure of a document against the JSON Schema of its kind. Reports every fault at
//! its place, and keeps the parts of the document that can be read.
//!
//! Knows field names and types, not the meaning of values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;

use super::schema;
use crate::documents::messages;
use crate::documents::schema::{DocumentKind, json_schema};
use crate::documents::tree::{Document, Step};
use crate::documents::validator::{Fault, FaultKind, faults};
use ipam_core::model::Finding;

static SCHEMAS: LazyLock<BTreeMap<DocumentKind, Value>> = LazyLock::new(|| {
    DocumentKind::ALL
        .map(|kind| (kind, json_schema(kind)))
        .into()
});

/// The result of a check.
pub(super) struct Checked {
    /// Every fault in the structure of the document.
    pub findings: Vec<Finding>,
    /// The document without the faulty parts. A faulty item of a list becomes null, so that the
    /// other items keep their indexes.
    pub readable: Value,
    /// Paths of the faults.
    pub faulty: Vec<Vec<Step>>,
}

/// Checks a document against the schema of its kind. Ignores fields that the API server sets.
pub(super) fn check(document: &Document, kind: DocumentKind) -> Checked {
    let mut value = document.to_json();
    schema::remove(&mut value);
    let schema = &SCHEMAS[&kind];
    let dropped = if kind.is_ciliums() {
        drop_nulls(&mut value, schema, &mut Vec::new())
    } else {
        Vec::new()
    };
    let findings = dropped
        .iter()
        .map(|path| messages::dropped(document, path))
        .collect();
    let mut checked = Checked {
        findings,
        readable: value.clone(),
        faulty: Vec::new(),
    };
    let faults = faults(schema, &value);
    let unknown = Unknown::new(&faults);
    let floats = floats_in(&value, &faults, &unknown);
    let is_repeated = |fault: &Fault<'_, '_>| {
        is_bound(fault) && floats.contains(&fault.path)
            || is_empty_choice(fault) && has_wrong_type(&faults, &fault.path)
    };
    for fault in faults.iter().filter(|fault| !is_repeated(fault)) {
        checked.add(document, fault, &unknown);
    }
    for path in floats {
        checked
            .findings
            .push(messages::fraction(document, &path, &value));
        checked.remove(path);
    }
    checked
}

impl Checked {
    fn add(&mut self, document: &Document, fault: &Fault<'_, '_>, unknown: &Unknown<'_>) {
        let child = |name: &str| [&fault.path[..], &[Step::Key(name.to_owned())]].concat();
        let is_misspelt = |missing: &str| {
            unknown
                .beside(&fault.path)
                .any(|unknown| messages::is_misspelt(fault, unknown, missing))
        };
        match &fault.kind {
            FaultKind::AdditionalProperties(names) => {
                self.findings.extend(messages::findings(document, fault));
                names.iter().for_each(|name| self.remove(child(name)));
            }
            FaultKind::Required(name) => {
                if !is_misspelt(name) {
                    self.findings.extend(messages::findings(document, fault));
                }
                self.remove(child(name));
            }
            // Too few or too many items can still be read.
            FaultKind::MinItems(_) | FaultKind::MaxItems(_) | FaultKind::MinProperties => {
                self.findings.extend(messages::findings(document, fault));
                self.faulty.push(fault.path.clone());
            }
            FaultKind::Type(_)
            | FaultKind::Enum(_)
            | FaultKind::Const(_)
            | FaultKind::Minimum(_)
            | FaultKind::Maximum(_)
            | FaultKind::Never => {
                self.findings.extend(messages::findings(document, fault));
                self.remove(fault.path.clone());
            }
        }
    }

    fn remove(&mut self, path: Vec<Step>) {
        remove(&mut self.readable, &path);
        self.faulty.push(path);
    }
}

/// Removes the fields that are null and returns their paths. Keeps fields that the schema does not
/// know: they are reported as unknown.
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
        // The API server keeps null items of lists, and then refuses them.
        Value::Array(items) => items.iter_mut().enumerate().for_each(|(index, item)| {
            child(Step::Index(index), item, &schema["items"]);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    dropped
}

/// An empty field that takes one of a few texts. The fault of its type suffices.
fn is_empty_choice(fault: &Fault<'_, '_>) -> bool {
    matches!(fault.kind, FaultKind::Enum(_)) && fault.instance.is_null()
}

fn has_wrong_type(faults: &[Fault<'_, '_>], path: &[Step]) -> bool {
    faults
        .iter()
        .any(|fault| fault.path == path && matches!(fault.kind, FaultKind::Type(_)))
}

fn is_bound(fault: &Fault<'_, '_>) -> bool {
    matches!(fault.kind, FaultKind::Minimum(_) | FaultKind::Maximum(_))
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

/// Unknown fields, by the path of the mapping that has them.
struct Unknown<'f>(BTreeMap<&'f [Step], BTreeSet<&'f str>>);

impl<'f> Unknown<'f> {
    fn new(faults: &'f [Fault<'_, 'f>]) -> Unknown<'f> {
        let mut unknown: BTreeMap<&[Step], BTreeSet<&str>> = BTreeMap::new();
        for fault in faults {
            if let FaultKind::AdditionalProperties(names) = &fault.kind {
                unknown.entry(&fault.path).or_default().extend(names);
            }
        }
        Unknown(unknown)
    }

    fn beside(&self, path: &[Step]) -> impl Iterator<Item = &'f str> {
        self.0.get(path).into_iter().flatten().copied()
    }

    /// Whether a path is that of an unknown field, or lies below one.
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

/// Numbers with a fraction or an exponent. JSON Schema accepts 24.0 as an integer, Kubernetes does
/// not.
fn floats_in(
    value: &Value,
    faults: &[Fault<'_, '_>],
    unknown: &Unknown<'_>,
) -> BTreeSet<Vec<Step>> {
    let mut floats = Vec::new();
    collect_floats(value, &mut Vec::new(), &mut floats);
    let others = faults.iter().filter(|fault| !is_bound(fault));
    let reported: BTreeSet<&[Step]> = others.map(|fault| fault.path.as_slice()).collect();
    floats
        .into_iter()
        .filter(|path| !reported.contains(path.as_slice()) && !unknown.has(path))
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
        // Above this, the parser returns a float for a whole number too. The bounds of the schema
        // refuse it.
        Value::Number(number)
            if number.is_f64() && number.as_f64().is_some_and(|number| number.abs() < 9e15) =>
        {
            floats.push(path.clone());
        }
        _ => {}
    }
}
