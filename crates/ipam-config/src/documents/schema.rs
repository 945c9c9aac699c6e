//! The documents as people write them. These types also generate the JSON Schema for editors, and
//! their doc comments are its descriptions.
//!
//! Wire format only: lowering gives the values their meaning. Required fields are `Option`, because
//! a document with faults is still read. Fields that the API server sets are removed from
//! documents and permitted in schemas, so that the output of `kubectl get -o yaml` is a document.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::recognition::LIST;
use super::schema_lb::IpPoolDocument;
use crate::documents::schema_lb::{AddressPoolDocument, ServiceAssignmentDocument};
use crate::documents::schema_policy::PolicyDocument;
use crate::documents::schema_policy_test::PolicyTestDocument;
use ipam_core::model::OWNER_LABEL;
use ipam_desired::CustomKind;

/// `apiVersion` of all our kinds.
pub const API_VERSION: &str = "cilium-ipam.io/v1alpha1";

ipam_core::text_enum! {
    /// A kind of document, as written after `kind:`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DocumentKind {
        /// A pool.
        IpPool = "IPPool",
        /// A pin of a node.
        NodeAssignment = "NodeAssignment",
        /// Settings for the whole directory.
        IpamPolicy = "IPAMPolicy",
        /// Cilium's own kind: a pool of LoadBalancer addresses.
        AddressPool = "CiliumLoadBalancerIPPool",
        /// A pin of a Service.
        ServiceAssignment = "ServiceAssignment",
        /// Examples for the rules of the Policy.
        PolicyTest = "PolicyTest",
    }
}

impl From<CustomKind> for DocumentKind {
    fn from(kind: CustomKind) -> DocumentKind {
        match kind {
            CustomKind::IpPool => DocumentKind::IpPool,
            CustomKind::NodeAssignment => DocumentKind::NodeAssignment,
            CustomKind::ServiceAssignment => DocumentKind::ServiceAssignment,
            CustomKind::IpamPolicy => DocumentKind::IpamPolicy,
        }
    }
}

impl DocumentKind {
    /// Accepted values of `apiVersion`.
    pub fn api_versions(self) -> &'static [&'static str] {
        match self {
            DocumentKind::AddressPool => &["cilium.io/v2", "cilium.io/v2alpha1"],
            _ => &[API_VERSION],
        }
    }

    /// Whether the API server reads the document unchanged. It drops fields that are null
    /// (`PruneNonNullableNullsWithoutDefaults`, k8s.io/apiextensions-apiserver @ 1.36).
    pub(super) fn is_ciliums(self) -> bool {
        self == DocumentKind::AddressPool
    }
}

/// JSON Schema (2020-12) of one kind, without the fields that the API server sets.
pub fn json_schema(kind: DocumentKind) -> Value {
    match kind {
        DocumentKind::IpPool => schema_of::<IpPoolDocument>(kind),
        DocumentKind::NodeAssignment => schema_of::<NodeAssignmentDocument>(kind),
        DocumentKind::IpamPolicy => schema_of::<PolicyDocument>(kind),
        DocumentKind::AddressPool => schema_of::<AddressPoolDocument>(kind),
        DocumentKind::ServiceAssignment => schema_of::<ServiceAssignmentDocument>(kind),
        DocumentKind::PolicyTest => schema_of::<PolicyTestDocument>(kind),
    }
}

fn schema_of<T: JsonSchema>(kind: DocumentKind) -> Value {
    let mut schema = inline_settings(SchemaSettings::draft2020_12())
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    without_null(&mut schema);
    schema["title"] = json!(kind.as_str());
    schema["properties"]["kind"] = json!({"const": kind.as_str()});
    schema["properties"]["apiVersion"] = match kind.api_versions() {
        [only] => json!({"const": only}),
        several => json!({"enum": several}),
    };
    schema
}

/// Settings without `$ref`, and with each paragraph of a description on one line.
pub(crate) fn inline_settings(settings: SchemaSettings) -> SchemaSettings {
    settings
        .with(|settings| settings.inline_subschemas = true)
        .with_transform(RecursiveTransform(one_line_for_each_paragraph))
}

fn one_line_for_each_paragraph(schema: &mut Schema) {
    let Some(Value::String(description)) = schema.get_mut("description") else {
        return;
    };
    let paragraphs: Vec<String> = description
        .split("\n\n")
        .map(|paragraph| paragraph.replace('\n', " "))
        .collect();
    *description = paragraphs.join("\n\n");
}

/// Removes null from the types and values of every field. An empty field is more often an
/// unfinished template than a request for the default.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match (name.as_str(), value) {
                    ("type", Value::Array(types)) => types.retain(|one| one != "null"),
                    ("enum", Value::Array(values)) => values.retain(|one| !one.is_null()),
                    ("properties", Value::Object(properties)) => {
                        properties.values_mut().for_each(without_null)
                    }
                    (_, value) => without_null(value),
                }
            }
            if let Some(Value::Array(types)) = fields.get_mut("type")
                && let [only] = types.as_slice()
            {
                let only = only.clone();
                fields.insert("type".to_owned(), only);
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(without_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A list in which an unreadable item is `None`, so that the other items keep their indexes.
pub(super) type TextList = Vec<Option<String>>;

/// A `metav1.LabelSelector`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct LabelSelector {
    /// Labels with their values. All must match.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements. All must match.
    #[serde(default)]
    #[schemars(with = "Vec<LabelSelectorRequirement>")]
    pub match_expressions: Vec<Option<LabelSelectorRequirement>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct LabelSelectorRequirement {
    /// Label key.
    pub key: String,
    /// How to compare.
    pub operator: SelectorOperator,
    /// Values, for `In` and `NotIn`.
    #[serde(default)]
    pub values: Vec<String>,
}

ipam_core::text_enum! {
    #[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
    pub(super) enum SelectorOperator {
        In = "In",
        NotIn = "NotIn",
        Exists = "Exists",
        DoesNotExist = "DoesNotExist",
    }
}

/// A pin: this node gets these blocks. The name of the document is the name of the node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct NodeAssignmentDocument {
    #[serde(rename = "apiVersion")]
    #[schemars(with = "String")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    #[schemars(with = "String")]
    _kind: Option<String>,
    #[schemars(with = "Metadata")]
    pub metadata: Option<Metadata>,
    #[schemars(with = "NodeAssignmentSpec")]
    pub spec: Option<NodeAssignmentSpec>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct NodeAssignmentSpec {
    /// The pool of the blocks. Default: the pool that contains them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// One block for each family.
    #[serde(rename = "podCIDRs")]
    #[schemars(with = "Vec<String>", length(min = 1, max = 2))]
    pub pod_cidrs: Option<TextList>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Metadata {
    /// Name, unique among its kind.
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// Labels, for people and other tools. Not read.
    #[serde(default, rename = "labels")]
    _labels: BTreeMap<String, String>,
    /// Annotations, for people and other tools. Not read.
    #[serde(default, rename = "annotations")]
    _annotations: BTreeMap<String, String>,
}

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// JSON Schema (2020-12) of one kind, or of a document of any kind if `kind` is `None`.
pub fn editor_schema(kind: Option<DocumentKind>) -> Value {
    let Some(kind) = kind else {
        return any_document();
    };
    let mut schema = json_schema(kind);
    permit(&mut schema);
    schema
}

fn any_document() -> Value {
    let definition = |kind: DocumentKind| {
        let mut schema = editor_schema(Some(kind));
        if let Some(object) = schema.as_object_mut() {
            object.remove("$schema");
        }
        (kind.as_str().to_owned(), schema)
    };
    let definitions: serde_json::Map<String, Value> =
        DocumentKind::ALL.map(definition).into_iter().collect();
    let documents = DocumentKind::ALL
        .map(|kind| json!({"$ref": format!("#/$defs/{kind}", kind = kind.as_str())}));
    let lists = DocumentKind::ALL.map(|kind| format!("{}List", kind.as_str()));
    let kinds: Vec<&str> = [LIST]
        .into_iter()
        .chain(lists.iter().map(String::as_str))
        .collect();
    let list = json!({
        "title": LIST,
        "description": "Several documents, as `kubectl get -o yaml` prints them.",
        "type": "object",
        "properties": {
            "kind": {"enum": kinds},
            "items": {"type": "array", "items": {"oneOf": documents}},
        },
        "required": ["kind", "items"],
    });
    let any: Vec<Value> = documents.into_iter().chain([list]).collect();
    json!({
        "$schema": DIALECT,
        "title": "cilium-ipam document",
        "oneOf": any,
        "$defs": definitions,
    })
}

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

/// Annotation in which `kubectl apply` keeps the whole last document.
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
