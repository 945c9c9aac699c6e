//! Fields that the API server sets: removed from documents and permitted in schemas, so that the
//! output of `kubectl get -o yaml` is a document.
//!
//! Knows fields of every Kubernetes object, none of our kinds.

use serde_json::{Value, json};

use ipam_core::model::OWNER_LABEL;

/// Fields of `metadata` that the API server or controllers set (`ObjectMeta`,
/// k8s.io/apimachinery @ 1.36). `namespace` is ignored for kinds without one.
const SET_BY_SERVER: [&str; 11] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// `kubectl apply` keeps the whole last document in it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Adds the fields to the schema of a kind. Their values can be anything, because [`remove`] reads
/// none.
pub(super) fn permit(schema: &mut Value) {
    let ignored = || json!({"description": "Set by the API server. Ignored."});
    let properties = &mut schema["properties"];
    properties["status"] = ignored();
    for name in SET_BY_SERVER {
        properties["metadata"]["properties"][name] = ignored();
    }
}

pub(super) fn remove(document: &mut Value) {
    let Some(fields) = document.as_object_mut() else {
        return;
    };
    fields.remove("status");
    let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let has_text = |name: &str| {
        let text = metadata.get(name).and_then(Value::as_str);
        text.is_some_and(|text| !text.is_empty())
    };
    let was_read_from_server = has_text("uid") || has_text("resourceVersion");
    SET_BY_SERVER.iter().for_each(|name| {
        metadata.remove(*name);
    });
    let mut drop = |texts: &str, key: &str| {
        if let Some(texts) = metadata.get_mut(texts).and_then(Value::as_object_mut) {
            texts.remove(key);
        }
    };
    drop("annotations", LAST_APPLIED);
    // A person must not set it; the server's object has it from `apply`.
    if was_read_from_server {
        drop("labels", OWNER_LABEL.0);
    }
}
