//! The API server's rules for writes, for the cluster in a file and the simulator: guards, merge
//! patches (RFC 7386), write-once fields.
//!
//! Sources: `staging/src/k8s.io/apiserver/pkg/registry/rest/update.go` and
//! `pkg/apis/core/validation/validation.go` @ 1.36.

use serde_json::{Map, Value};

use super::WriteError;

/// The object after a patch, still at its old resourceVersion.
///
/// # Errors
/// Fails if a guard does not match, or the server would refuse the change.
pub fn patched(object: &Value, patch: &Value) -> Result<Value, WriteError> {
    for key in ["uid", "resourceVersion"] {
        let wanted = patch.pointer(&format!("/metadata/{key}"));
        if wanted.is_some() && wanted != object.pointer(&format!("/metadata/{key}")) {
            return Err(WriteError::Superseded(format!("its {key} has changed")));
        }
    }
    let before = pod_cidrs(object);
    let mut object = object.clone();
    merge(&mut object, patch);
    if !before.is_empty() && before != pod_cidrs(&object) {
        let why = "node updates may not change podCIDR except from \"\" to valid".to_owned();
        return Err(WriteError::Refused(why));
    }
    admitted(&object)?;
    Ok(object)
}

/// Largest sum of the values of a ConfigMap, in bytes (`MaxSecretSize`).
const LARGEST_CONFIG_MAP: usize = 1024 * 1024;

/// Whether the server admits an object, however it was written.
///
/// # Errors
/// Fails if a ConfigMap is too large.
pub(super) fn admitted(object: &Value) -> Result<(), WriteError> {
    if object["kind"] != "ConfigMap" {
        return Ok(());
    }
    let values = object["data"]
        .as_object()
        .into_iter()
        .flat_map(|data| data.values());
    let size: usize = values.filter_map(Value::as_str).map(str::len).sum();
    match size > LARGEST_CONFIG_MAP {
        true => Err(WriteError::Refused(format!(
            "[]: Too long: may not be more than {LARGEST_CONFIG_MAP} bytes"
        ))),
        false => Ok(()),
    }
}

fn pod_cidrs(node: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let listed: Vec<String> = node
        .pointer("/spec/podCIDRs")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(text)
        .collect();
    if listed.is_empty() {
        node.pointer("/spec/podCIDR")
            .and_then(text)
            .into_iter()
            .collect()
    } else {
        listed
    }
}

/// The version that an object carries.
pub fn version_of(object: &Value) -> ipam_cilium::observed::ObjectVersion {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    ipam_cilium::observed::ObjectVersion {
        uid: text("/metadata/uid"),
        resource_version: text("/metadata/resourceVersion"),
    }
}

/// Applies `patch` to `target`: `null` removes, objects merge, everything else replaces.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn as_in_the_rfc() {
        let mut target = json!({"a": "b", "c": {"d": "e", "f": "g"}, "l": [1, 2]});
        merge(
            &mut target,
            &json!({"a": "z", "c": {"f": null}, "l": [3], "n": {"x": null}}),
        );
        assert_eq!(
            target,
            json!({"a": "z", "c": {"d": "e"}, "l": [3], "n": {}})
        );
    }
}
