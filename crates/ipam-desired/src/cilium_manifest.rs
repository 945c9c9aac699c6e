//! An object of one of Cilium's kinds in the files, as it is written.

use ipam_core::model::Origin;
use serde_json::Value;

/// An object of Cilium in the files. `cilium-ipam` need not read its kind otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct CiliumManifest {
    pub kind: String,
    /// As `namespace/name`, or the name alone.
    pub name: String,
    /// The version of `apiVersion`, such as `v2alpha1`.
    pub version: String,
    /// The place of `apiVersion`.
    pub origin: Origin,
    pub object: Value,
}

impl CiliumManifest {
    /// Whether the object has a field. `[]` in the path stands for any item of a list.
    pub fn has(&self, path: &str) -> bool {
        let keys: Vec<&str> = path.split('.').collect();
        has(&self.object, &keys)
    }
}

fn has(value: &Value, path: &[&str]) -> bool {
    let Some((key, rest)) = path.split_first() else {
        return true;
    };
    match key.strip_suffix("[]") {
        None => value.get(key).is_some_and(|value| has(value, rest)),
        Some(key) => {
            let items = value.get(key).and_then(Value::as_array);
            items.is_some_and(|items| items.iter().any(|item| has(item, rest)))
        }
    }
}
