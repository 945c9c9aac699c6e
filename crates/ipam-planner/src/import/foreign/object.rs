//! Parsed objects of a cluster: their kind and name, out of Lists. Any field may have any type.

use serde_json::Value;

use super::remark::{Remark, RemarkName};
use ipam_cilium::lbipam::WrittenSelector;
use ipam_core::model::Selector;

/// An object, with the kind that a List gives to it.
#[derive(Clone, Debug)]
pub(super) struct Object<'v> {
    pub(super) kind: &'v str,
    pub(super) group: &'v str,
    pub(super) value: &'v Value,
}

impl<'v> Object<'v> {
    pub(super) fn name(&self) -> &'v str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &'v str {
        self.value["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
    }

    pub(super) fn spec(&self, field: &str) -> &'v Value {
        &self.value["spec"][field]
    }

    pub(super) fn spec_text(&self, field: &str) -> &'v str {
        self.spec(field).as_str().unwrap_or_default()
    }

    /// Whether a field of `spec` is true. Some versions of Calico write the text `true`.
    pub(super) fn is_set(&self, field: &str) -> bool {
        let value = self.spec(field);
        value.as_bool() == Some(true) || value.as_str() == Some("true")
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&'v str> {
        self.value["metadata"]["annotations"][key].as_str()
    }

    /// Kind and name, for remarks.
    pub(super) fn about(&self) -> String {
        format!("{} {}", self.kind, self.name())
    }

    /// A remark that a field cannot be read.
    pub(super) fn unreadable(&self, problem: &str) -> Remark {
        Remark::left_out(
            RemarkName::ObjectUnreadable,
            self.about(),
            format!("{problem}: it is not imported"),
        )
    }
}

/// The objects, out of any Lists. Items of a typed List need no kind.
pub(super) fn flattened(values: &[Value]) -> Vec<Object<'_>> {
    let mut objects = Vec::new();
    let mut rest: Vec<(&Value, &str, &str)> =
        values.iter().rev().map(|value| (value, "", "")).collect();
    while let Some((value, kind_of_list, group_of_list)) = rest.pop() {
        if let Some(values) = value.as_array() {
            rest.extend(values.iter().rev().map(|value| (value, "", "")));
            continue;
        }
        let kind = value["kind"].as_str().unwrap_or(kind_of_list);
        let group = value["apiVersion"].as_str().map_or(group_of_list, |text| {
            text.split_once('/').map_or("", |(group, _)| group)
        });
        match (kind.strip_suffix("List"), value["items"].as_array()) {
            (Some(kind), Some(items)) => {
                rest.extend(items.iter().rev().map(|item| (item, kind, group)));
            }
            _ => objects.push(Object { kind, group, value }),
        }
    }
    objects
}

/// The texts of a list. Other items are dropped.
pub(super) fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// LabelSelectors of a list.
///
/// # Errors
/// Fails if Kubernetes rejects one of them.
pub(super) fn selectors(list: &Value) -> Result<Vec<Selector>, String> {
    let selector = |value: &Value| {
        let written: WrittenSelector =
            serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
        written.selector()
    };
    list.as_array()
        .into_iter()
        .flatten()
        .map(selector)
        .collect()
}
