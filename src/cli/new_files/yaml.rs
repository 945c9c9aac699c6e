//! Parts of the YAML of new files. Every text of a cluster goes through the serializer, or is one
//! line of a comment.

use std::fmt::Display;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cli::failure::Failure;
use crate::render::sanitized_json;
use ipam_config::documents::API_VERSION;
use ipam_core::model::{Operator, PerFamily, Requirement, Selector};
use ipam_core::net::BlockSize;
use ipam_core::text::{is_harmful, joined, one_line};
use ipam_import::proposal::names_places;

/// Columns of a comment, unless a word is longer.
const WIDTH: usize = 96;

/// The text as lines of a comment.
pub(in crate::cli) fn comment(text: &str) -> String {
    let text = one_line(text);
    let mut lines = String::new();
    let mut line = "#".to_owned();
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line.len() > 1 {
            lines += &line;
            lines.push('\n');
            line = "#".to_owned();
        }
        line.push(' ');
        line += word;
    }
    lines + &line + "\n"
}

/// A value as YAML. Text that a terminal would interpret is escaped.
pub(in crate::cli) fn yaml(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_yaml::to_string(value)
        .map_err(|error| Failure::Failed(format!("the YAML cannot be written: {error}")))?;
    let text = text.trim_end().to_owned();
    if !text.contains(is_harmful) {
        return Ok(text);
    }
    let json = serde_json::to_string(value).map_err(std::io::Error::from)?;
    Ok(sanitized_json(&json).into_owned())
}

pub(in crate::cli) fn head(kind: &str, name: &str) -> Result<String, Failure> {
    Ok(format!(
        "apiVersion: {API_VERSION}\nkind: {kind}\nmetadata:\n  name: {}\nspec:\n",
        yaml(&name)?
    ))
}

/// YAML of a field of `spec` that is a list of these items.
pub(in crate::cli) fn list(
    field: &str,
    items: impl IntoIterator<Item = impl Display>,
) -> Result<String, Failure> {
    let mut text = format!("  {field}:\n");
    for item in items {
        text += &format!("  - {}\n", yaml(&item.to_string())?);
    }
    Ok(text)
}

pub(in crate::cli) fn block_size(sizes: &PerFamily<BlockSize>) -> String {
    let named = |name: &str, size: &Option<BlockSize>| {
        size.map(|size| format!("{name}: {}", size.prefix_len()))
    };
    let sizes = [named("ipv4", &sizes.ipv4), named("ipv6", &sizes.ipv6)];
    format!("{{{}}}", joined(sizes.into_iter().flatten(), ", "))
}

/// YAML of the field `whenFull`; empty for the default. Nodes that are selected by a value of these
/// labels wait if that value is a rack or a zone: what lies outside it needs other routes.
pub(in crate::cli) fn when_full<'k>(mut keys: impl Iterator<Item = &'k str>) -> &'static str {
    match keys.any(names_places) {
        true => "  whenFull: Wait\n",
        false => "",
    }
}

/// Label keys of which the selector names values.
pub(in crate::cli) fn named_keys(selector: &Selector) -> impl Iterator<Item = &str> {
    let is_named = |one: &&Requirement| matches!(one.operator(), Operator::In(_));
    let named = selector.requirements().filter(is_named);
    named.map(Requirement::key)
}

/// YAML of the field `nodeSelector`; empty if the selector selects every node.
pub(in crate::cli) fn node_selector(selector: &Selector) -> Result<String, Failure> {
    if *selector == Selector::default() {
        return Ok(String::new());
    }
    let text = yaml(&label_selector(selector))?;
    let lines = text.lines().map(|line| format!("    {line}\n"));
    Ok(format!("  nodeSelector:\n{}", lines.collect::<String>()))
}

/// The selector in the form of a `metav1.LabelSelector`.
fn label_selector(selector: &Selector) -> Value {
    let mut labels = Map::new();
    let mut expressions = Vec::new();
    for requirement in selector.requirements() {
        let key = requirement.key();
        let (operator, values) = match requirement.operator() {
            Operator::In(values) if values.len() == 1 && !labels.contains_key(key) => {
                labels.extend(values.iter().map(|value| (key.to_owned(), json!(value))));
                continue;
            }
            Operator::In(values) => ("In", Some(values)),
            Operator::NotIn(values) => ("NotIn", Some(values)),
            Operator::Exists => ("Exists", None),
            Operator::DoesNotExist => ("DoesNotExist", None),
        };
        let mut expression = json!({"key": key, "operator": operator});
        if let Some(values) = values {
            expression["values"] = json!(values);
        }
        expressions.push(expression);
    }
    let mut fields = Map::new();
    if !labels.is_empty() {
        fields.insert("matchLabels".to_owned(), Value::Object(labels));
    }
    if !expressions.is_empty() {
        fields.insert("matchExpressions".to_owned(), Value::Array(expressions));
    }
    Value::Object(fields)
}
