//! The documents as people write them; their JSON Schema is made from these types.
//!
//! Wire format only: what the values mean is decided when they are lowered. What the schema
//! requires is `Option` here, because a document with faults is read as far as it goes.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::documents::schema_lb::{AddressPoolDocument, ServiceAssignmentDocument};
use crate::documents::schema_pool::IpPoolDocument;
use ipam_desired::CustomKind;

/// `apiVersion` of all our kinds.
pub const API_VERSION: &str = "cilium-ipam.io/v1alpha1";

/// A kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DocumentKind {
    /// A pool.
    IpPool,
    /// A pin.
    NodeAssignment,
    /// The policy.
    Policy,
    /// A pool of LoadBalancer addresses, Cilium's own kind.
    AddressPool,
    /// A pin for a Service.
    ServiceAssignment,
}

impl From<CustomKind> for DocumentKind {
    fn from(kind: CustomKind) -> DocumentKind {
        match kind {
            CustomKind::IpPool => DocumentKind::IpPool,
            CustomKind::NodeAssignment => DocumentKind::NodeAssignment,
            CustomKind::ServiceAssignment => DocumentKind::ServiceAssignment,
            CustomKind::Policy => DocumentKind::Policy,
        }
    }
}

impl DocumentKind {
    /// All kinds.
    pub const ALL: [DocumentKind; 5] = [
        DocumentKind::IpPool,
        DocumentKind::NodeAssignment,
        DocumentKind::Policy,
        DocumentKind::AddressPool,
        DocumentKind::ServiceAssignment,
    ];

    /// As written after `kind:`.
    pub fn as_str(self) -> &'static str {
        match self {
            DocumentKind::IpPool => "IPPool",
            DocumentKind::NodeAssignment => "NodeAssignment",
            DocumentKind::Policy => "Policy",
            DocumentKind::AddressPool => "CiliumLoadBalancerIPPool",
            DocumentKind::ServiceAssignment => "ServiceAssignment",
        }
    }

    /// What may stand after `apiVersion:`.
    pub fn api_versions(self) -> &'static [&'static str] {
        match self {
            DocumentKind::AddressPool => &["cilium.io/v2", "cilium.io/v2alpha1"],
            _ => &[API_VERSION],
        }
    }

    /// Whether the API server reads the document as it stands. It drops fields that are null
    /// (`PruneNonNullableNullsWithoutDefaults`, k8s.io/apiextensions-apiserver @ 1.36).
    pub(super) fn is_ciliums(self) -> bool {
        self == DocumentKind::AddressPool
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<DocumentKind> {
        DocumentKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// JSON Schema (2020-12) of one kind, or of a document of any kind.
pub fn json_schema(kind: Option<DocumentKind>) -> Value {
    match kind {
        Some(DocumentKind::IpPool) => schema_of::<IpPoolDocument>(DocumentKind::IpPool),
        Some(DocumentKind::NodeAssignment) => {
            schema_of::<NodeAssignmentDocument>(DocumentKind::NodeAssignment)
        }
        Some(DocumentKind::Policy) => schema_of::<PolicyDocument>(DocumentKind::Policy),
        Some(DocumentKind::AddressPool) => {
            schema_of::<AddressPoolDocument>(DocumentKind::AddressPool)
        }
        Some(DocumentKind::ServiceAssignment) => {
            schema_of::<ServiceAssignmentDocument>(DocumentKind::ServiceAssignment)
        }
        None => json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "cilium-ipam document",
            "oneOf": DocumentKind::ALL.map(|kind| {
                let mut schema = json_schema(Some(kind));
                if let Some(object) = schema.as_object_mut() {
                    object.remove("$schema");
                }
                schema
            }),
        }),
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

/// Without `$ref`, and with each paragraph of a description on one line: where a doc comment wraps
/// means nothing to readers of the schema.
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

/// Takes null away from what a field may be: a field without a value is far more often a blank
/// template than a wish for the default.
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

/// A list in which an item that is not readable is `None`, so that the others keep their places.
pub(super) type TextList = Vec<Option<String>>;

/// As `metav1.LabelSelector`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct LabelSelector {
    /// Label and value, all of them.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements, all of them.
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

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(super) enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl SelectorOperator {
    /// As written.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            SelectorOperator::In => "In",
            SelectorOperator::NotIn => "NotIn",
            SelectorOperator::Exists => "Exists",
            SelectorOperator::DoesNotExist => "DoesNotExist",
        }
    }
}

/// A pin: this node gets these blocks. The document's name is the node's name.
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
    /// The pool that the blocks belong to; looked up when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// One block for each family.
    #[serde(rename = "podCIDRs")]
    #[schemars(with = "Vec<String>", length(min = 1, max = 2))]
    pub pod_cidrs: Option<TextList>,
}

/// What holds for the whole directory; at most one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PolicyDocument {
    #[serde(rename = "apiVersion")]
    #[schemars(with = "String")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    #[schemars(with = "String")]
    _kind: Option<String>,
    #[serde(rename = "metadata")]
    #[schemars(with = "Metadata")]
    _metadata: Option<Metadata>,
    #[schemars(with = "PolicySpec")]
    pub spec: Option<PolicySpec>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PolicySpec {
    /// Where blocks are written; `auto` decides from the running Cilium.
    #[serde(default)]
    pub write_path: WrittenWritePath,
    /// CIDRs, `first-last` ranges or addresses that no node may get, not even by a pin.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub excluded: TextList,
    /// Address space that is not private, but ours.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub own_address_space: TextList,
    /// How long a freed block is not given to another node, such as `10m` or `1h 30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<String>,
    /// How much one apply may change.
    #[serde(default)]
    pub limits: WrittenLimits,
    /// What is kept from changes.
    #[serde(default)]
    pub protected: WrittenProtected,
    /// The worst that `watch` and the operator do while nobody looks; what is worse waits for a
    /// person.
    #[serde(default)]
    pub unattended: WrittenUnattended,
    /// What is done at OpenStack Neutron.
    #[serde(default)]
    pub neutron: WrittenNeutron,
    /// `watch` and the operator write nothing, not even the block of a new node; `apply` does.
    #[serde(default)]
    pub paused: bool,
}

/// Limits by kind of change.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenLimits {
    /// Label key whose values tell failure domains apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// Nodes that get a block.
    #[serde(default)]
    pub assign: WrittenLimit,
    /// Nodes whose agent must be restarted.
    #[serde(default)]
    pub disruptive: WrittenLimit,
    /// Nodes from which a block is taken.
    #[serde(default)]
    pub release: WrittenLimit,
}

/// One kind of change.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenLimit {
    /// At most so many nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = u32::MAX))]
    pub count: Option<u32>,
    /// At most this share of all nodes; one node is always allowed, unless it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percent: Option<u32>,
    /// At most so many nodes of one failure domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = u32::MAX))]
    pub domain_count: Option<u32>,
    /// At most this share of the nodes of one failure domain; one node is always allowed, unless it
    /// is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub domain_percent: Option<u32>,
}

/// Nodes and pools from which nothing is taken, and whose agents need no restart because of us.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenProtected {
    /// Names of Nodes.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub nodes: TextList,
    /// Names of IPPools; they may not vanish from the directory either.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub pools: TextList,
}

/// What is done at OpenStack Neutron.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenNeutron {
    /// `PodCIDRs`: `apply` lets the pod CIDRs of each node out of the ports of its VM, which
    /// `spec.providerID` names.
    #[serde(default)]
    pub allowed_address_pairs: WrittenAddressPairs,
}

/// What is done with the pairs of VMs' ports.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
pub(super) enum WrittenAddressPairs {
    #[default]
    Ignored,
    #[serde(rename = "PodCIDRs")]
    PodCidrs,
}

/// Hazards.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WrittenUnattended {
    #[default]
    None,
    Disruptive,
    Destructive,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WrittenWritePath {
    #[default]
    Auto,
    NodeSpec,
    NodeAnnotation,
    CiliumNode,
    NodeConfig,
    PodIpPool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Metadata {
    /// Name, unique among its kind.
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// Labels; kept for people and other tools, not read.
    #[serde(default, rename = "labels")]
    _labels: BTreeMap<String, String>,
    /// Annotations; kept for people and other tools, not read.
    #[serde(default, rename = "annotations")]
    _annotations: BTreeMap<String, String>,
}
