//! The events of `watch` and the operator, read from the source files that make their objects.

use std::collections::BTreeMap;

use crate::support::repository;

/// The file that makes the objects of events.
const EVENTS: &str = "src/cli/event.rs";

/// The event of invalid files: `EVENTS` adds these two fields to an object of another file.
const INVALID: &str = "(object[\"event\"], object[\"revision\"]) = (\"invalid\"";
const FINDINGS: &str = "src/render/finding_formats.rs";

/// A line for each event.
pub fn rows() -> String {
    let mut rows = BTreeMap::new();
    let source = product_source(EVENTS);
    for object in objects(&source) {
        for name in names(&source, object) {
            rows.insert(name.clone(), row(&name, &keys(object)[1..]));
        }
    }
    if source.contains(INVALID) {
        let source = product_source(FINDINGS);
        let of_findings = |object: &&str| object.starts_with("\"rules\"");
        let object = objects(&source).find(of_findings).unwrap();
        let fields = [vec!["revision"], keys(object)].concat();
        rows.insert("invalid".to_owned(), row("invalid", &fields));
    }
    assert!(rows.len() >= 12, "{rows:?}");
    rows.into_values().collect()
}

fn product_source(file: &str) -> String {
    let source = std::fs::read_to_string(repository().join(file)).unwrap();
    source.split("#[cfg(test)]").next().unwrap().to_owned()
}

/// The insides of `json!({…})`.
fn objects(source: &str) -> impl Iterator<Item = &str> {
    let objects = source.split("json!({").skip(1);
    objects.map(|object| object.split("})").next().unwrap().trim_start())
}

/// The names of an event: its own text, or those of the variable before it.
fn names(source: &str, object: &str) -> Vec<String> {
    let Some(event) = object.strip_prefix("\"event\": ") else {
        return Vec::new();
    };
    let choice = if event.starts_with('"') {
        event.split(',').next()
    } else {
        let choice = source.split("let event = if ").nth(1);
        choice.and_then(|choice| choice.split(';').next())
    };
    let texts = choice.unwrap().split('"').skip(1).step_by(2);
    texts.map(str::to_owned).collect()
}

fn keys(object: &str) -> Vec<&str> {
    let texts = object.split('"').skip(1).step_by(2);
    texts
        .filter(|text| object.contains(&format!("\"{text}\": ")))
        .collect()
}

fn row(name: &str, fields: &[&str]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
    match fields.is_empty() {
        true => format!("- `{name}`\n"),
        false => format!("- `{name}`: {}\n", fields.join(", ")),
    }
}
