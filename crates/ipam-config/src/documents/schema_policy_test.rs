//! `PolicyTest` as people write it. The doc comments are the descriptions in the JSON Schema.
//!
//! Wire format only. The parts of a plan have the names that expressions see, those of the plan's
//! JSON; a part that is not written stays absent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::documents::schema::Metadata;
use crate::documents::schema_lb::WrittenWhenFull;

/// Examples of plans that show what the rules of the Policy say. Only `policy test` reads them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PolicyTestDocument {
    #[serde(rename = "apiVersion")]
    #[schemars(with = "String")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    #[schemars(with = "String")]
    _kind: Option<String>,
    #[serde(rename = "metadata")]
    #[schemars(with = "Metadata")]
    _metadata: Option<Metadata>,
    #[schemars(with = "PolicyTestSpec")]
    pub spec: Option<PolicyTestSpec>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PolicyTestSpec {
    /// The examples.
    #[schemars(with = "Vec<WrittenCase>", length(min = 1, max = 1000))]
    pub cases: Option<Vec<Option<WrittenCase>>>,
}

/// An example of a plan.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenCase {
    /// Name of the rule in the Policy.
    #[schemars(with = "String")]
    pub rule: Option<String>,
    /// What the case shows, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the rule must say of the plan.
    #[schemars(with = "WrittenExpectation")]
    pub expect: Option<WrittenExpectation>,
    /// Text that the message of the broken rule must contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The plan. Default: one without changes.
    #[serde(default)]
    pub plan: WrittenPlan,
    /// The pools. Default: those of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pools: Option<Vec<WrittenPool>>,
    /// The nodes, by name. The nodes of the changes are added.
    #[serde(default)]
    pub nodes: BTreeMap<String, WrittenNode>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WrittenExpectation {
    Holds,
    Broken,
    NoResult,
}

/// Parts of a plan.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenPlan {
    /// The changes. A field that is not written is as in a plan that gives a node its first block.
    #[serde(default)]
    pub changes: Vec<WrittenChange>,
    /// The effects on Services.
    #[serde(default)]
    pub services: Vec<WrittenService>,
}

/// A change, as in the plan's JSON, with the labels of its node.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenChange {
    /// Default: `assign`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    action: Option<WrittenAction>,
    /// Kind of the object. Default: `Node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<WrittenKind>,
    /// Its name. Default: `node-1` for the first change, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Default: `node-spec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    write_path: Option<String>,
    /// What the field shows now. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Vec<String>>,
    /// What it will show. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<Vec<String>>,
    /// The pool. Default: null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    /// The failure domain of the node. Default: absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure_domain: Option<String>,
    /// Why, for people. Default: empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Default: `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hazard: Option<WrittenHazard>,
    /// The field that is set, and its value. Default: `spec.podCIDRs` with `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edit: Option<WrittenEdit>,
    /// The field that an undo would set, and its value. Default: null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    undo: Option<WrittenEdit>,
    /// The object that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    guard: Option<WrittenGuard>,
    /// The pin or the pool. Default: null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<WrittenOrigin>,
    /// Blocks that a person must approve. Default: absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    needs_approval: Option<Vec<Map<String, Value>>>,
    /// Labels of the node. Default: those of `nodes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WrittenAction {
    Adopt,
    Assign,
    Create,
    Delete,
    Pin,
    Release,
    Update,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
pub(super) enum WrittenKind {
    CiliumLoadBalancerIPPool,
    CiliumNodeConfig,
    CiliumPodIPPool,
    Node,
    Port,
    Service,
}

/// One of these fields.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenEdit {
    /// CIDRs of a Node.
    #[serde(
        rename = "spec.podCIDRs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    node_spec: Option<Vec<String>>,
    /// CIDRs of a CiliumNode.
    #[serde(
        rename = "CiliumNode.spec.ipam.podCIDRs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    cilium_node: Option<Vec<String>>,
    /// CIDRs of a CiliumNode that is created while Cilium's operator assigns pod CIDRs itself.
    #[serde(
        rename = "CiliumNode.spec.ipam.podCIDRs, beside the operator",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    beside_operator: Option<Vec<String>>,
    /// The node has no CiliumNode. Write `{}`.
    #[serde(
        rename = "CiliumNode",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    no_cilium_node: Option<Map<String, Value>>,
    /// `spec` of a `CiliumPodIPPool` or of the `CiliumNodeConfig` that chooses it.
    #[serde(rename = "spec", default, skip_serializing_if = "Option::is_none")]
    pod_pool: Option<Map<String, Value>>,
    /// Settings of a `CiliumNodeConfig`.
    #[serde(
        rename = "CiliumNodeConfig.spec.defaults",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    node_config: Option<Map<String, Value>>,
    /// Annotations of a Node.
    #[serde(
        rename = "metadata.annotations",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    annotations: Option<Map<String, Value>>,
    /// Pairs of a VM's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allowed_address_pairs: Option<WrittenPairs>,
    /// A pool.
    #[serde(
        rename = "CiliumLoadBalancerIPPool",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    address_pool: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenPairs {
    /// Ranges to add.
    #[serde(default)]
    add: Vec<String>,
    /// Ranges to remove.
    #[serde(default)]
    remove: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WrittenHazard {
    None,
    Disruptive,
    Destructive,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenGuard {
    /// UID.
    #[serde(default)]
    uid: String,
    /// resourceVersion.
    #[serde(default)]
    resource_version: String,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenOrigin {
    /// Path.
    file: String,
    /// Line.
    #[serde(default = "first")]
    #[schemars(range(min = 1, max = u32::MAX))]
    line: u32,
    /// Column.
    #[serde(default = "first")]
    #[schemars(range(min = 1, max = u32::MAX))]
    column: u32,
}

fn first() -> u32 {
    1
}

/// The effects on one Service.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenService {
    /// Namespace. Default: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// Name. Default: `service-1` for the first, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Addresses that it loses, or may lose.
    #[serde(default)]
    loses: Vec<WrittenLoss>,
    /// Addresses that it gets, in words.
    #[serde(default)]
    gains: Vec<String>,
    /// Cilium's reasons why it then waits for an address.
    #[serde(default)]
    pending: Vec<String>,
    /// `certain`, or `possible` if another Service may get one of the addresses.
    #[serde(default = "certain")]
    certainty: WrittenCertainty,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenLoss {
    /// The address.
    address: String,
    /// `now`, `operator-restart` or `upgrade`.
    #[serde(default = "now")]
    when: WrittenTime,
    /// `certain` or `possible`.
    #[serde(default = "certain")]
    certainty: WrittenCertainty,
    /// Why, for people.
    #[serde(default)]
    reason: String,
    /// The object whose change takes it, such as `CiliumLoadBalancerIPPool/blue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WrittenTime {
    Now,
    OperatorRestart,
    Upgrade,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WrittenCertainty {
    Certain,
    Possible,
}

fn now() -> WrittenTime {
    WrittenTime::Now
}

fn certain() -> WrittenCertainty {
    WrittenCertainty::Certain
}

/// An IPPool, as expressions see it.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenPool {
    /// Name.
    name: String,
    /// Its CIDRs.
    #[serde(default)]
    cidrs: Vec<String>,
    /// Prefix lengths by family, `ipv4` and `ipv6`.
    #[serde(default)]
    #[schemars(with = "WrittenSizes")]
    block_size: WrittenSizes,
    /// Higher wins.
    #[serde(default)]
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    priority: i32,
    /// It gives no new blocks.
    #[serde(default)]
    disabled: bool,
    /// What happens to its nodes if it is full.
    #[serde(default)]
    when_full: WrittenWhenFull,
    /// CIDRs, ranges or addresses that only a pin gets.
    #[serde(default)]
    reserved: Vec<String>,
    /// CIDRs that give no new blocks.
    #[serde(default)]
    retiring: Vec<String>,
    /// The selector as text.
    #[serde(default = "every_node")]
    selector: String,
}

fn every_node() -> String {
    "every node".to_owned()
}

#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenSizes {
    /// IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32))]
    ipv4: Option<u8>,
    /// IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    ipv6: Option<u8>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenNode {
    /// Its labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}
