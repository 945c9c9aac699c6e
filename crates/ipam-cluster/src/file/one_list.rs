//! One List of all objects of a text: kubectl prints several documents, single objects, lists of one
//! kind, and people put Lists into Lists. Knows no kind but lists.

use serde_json::{Value, json};

/// The objects of all documents as one `List`, in their order. Items are not checked.
///
/// # Errors
/// Fails if a document is no object of Kubernetes. The message fits after the file's name.
pub(super) fn one_list(documents: Vec<Value>) -> Result<String, String> {
    let mut items = Vec::new();
    let written = documents.into_iter().filter(|document| !document.is_null());
    for (index, document) in written.enumerate() {
        if !document["kind"].is_string() {
            return Err(format!(
                "it is not a List as `kubectl get nodes,ciliumnodes -o yaml` prints it: document {} is no object of Kubernetes",
                index + 1
            ));
        }
        add(document, &mut items);
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
}

/// Adds an object, or the items of a list.
fn add(mut document: Value, items: &mut Vec<Value>) {
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    let of = kind.strip_suffix("List");
    let list = document.get_mut("items").and_then(Value::as_array_mut);
    let (Some(of), Some(list)) = (of, list.map(std::mem::take)) else {
        return items.push(document);
    };
    for mut item in list {
        // The API server writes no kind into the items of a list of one kind.
        if let Some(fields) = item.as_object_mut()
            && !of.is_empty()
        {
            let api_version = &document["apiVersion"];
            fields.entry("kind").or_insert_with(|| json!(of));
            fields
                .entry("apiVersion")
                .or_insert_with(|| api_version.clone());
        }
        add(item, items);
    }
}
