//! The documents as people write them. These types also generate the JSON Schema, and their doc
//! comments are its descriptions.
//!
//! Wire format only: lowering decides what the values mean. Required fields are `Option`, because a
//! document with faults is still read.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::documents::schema_lb::{AddressPoolDocument, ServiceAssignmentDocument};
use crate::documents::schema_policy::PolicyDocument;
use crate::documents::schema_policy_test::PolicyTestDocument;
use crate::documents::schema_pool::IpPoolDocument;
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
