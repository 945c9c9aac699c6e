//! `IPAMPolicy` as people write it. The doc comments are the descriptions in the JSON Schema.
//!
//! Wire format only: lowering decides what the values mean.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::documents::schema::{Metadata, TextList};

/// Settings for the whole directory; at most one.
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
    /// Other allocators of pod CIDRs that no longer assign any, such as `kube-controller-manager` or
    /// `k3s`. They do not block changes.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub acknowledged_allocators: TextList,
    /// CIDRs, `first-last` ranges or addresses that no node may get, not even by a pin.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub excluded: TextList,
    /// Public address space that belongs to us.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub own_address_space: TextList,
    /// How long the block of a deleted node, or a block that was freed, stays unavailable to other
    /// nodes, such as `10m` or `1h 30m`. `0s` disables it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<String>,
    /// Limits of one apply.
    #[serde(default)]
    pub limits: WrittenLimits,
    /// Nodes and pools that are protected from changes.
    #[serde(default)]
    pub protected: WrittenProtected,
    /// The most severe changes that `watch` and the operator apply. Others wait for approval.
    #[serde(default)]
    pub auto_apply: WrittenAutoApply,
    /// Changes at OpenStack Neutron.
    #[serde(default)]
    pub neutron: WrittenNeutron,
    /// When `migrate` changes nodes, and how many at a time.
    #[serde(default)]
    pub migration: WrittenMigration,
    /// Rules over the changes of a plan. A plan that breaks a rule of severity `error` is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<WrittenRule>", length(max = 100))]
    pub rules: Option<Vec<Option<WrittenRule>>>,
    /// `watch` and the operator write nothing, not even the block of a new node. `apply` still
    /// writes.
    #[serde(default)]
    pub paused: bool,
}

/// Limits by kind of change.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenLimits {
    /// Key of the label whose value is the failure domain of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// Nodes that get a block.
    #[serde(default)]
    pub assign: WrittenLimit,
    /// Nodes whose agent must be restarted.
    #[serde(default)]
    pub disruptive: WrittenLimit,
    /// Nodes that lose a block.
    #[serde(default)]
    pub release: WrittenLimit,
}

/// Limit of one kind of change.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenLimit {
    /// Maximum number of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = u32::MAX))]
    pub count: Option<u32>,
    /// Maximum share of all nodes. One node is always allowed, unless it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percent: Option<u32>,
    /// Maximum number of nodes in one failure domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = u32::MAX))]
    pub domain_count: Option<u32>,
    /// Maximum share of the nodes in one failure domain. One node is always allowed, unless it is
    /// 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub domain_percent: Option<u32>,
}

/// Nodes and pools that lose no block and whose agents are never restarted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenProtected {
    /// Names of Nodes.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub nodes: TextList,
    /// Names of IPPools. They cannot be removed from the directory either.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub pools: TextList,
}

/// When `migrate` changes nodes, and how many at a time.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenMigration {
    /// Maintenance windows. `migrate` starts no node outside them. Default: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<WrittenWindow>", length(min = 1))]
    pub windows: Option<Vec<Option<WrittenWindow>>>,
    /// Maximum number of nodes that `migrate` changes at a time. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = u32::MAX))]
    pub max_unavailable: Option<NonZeroU32>,
}

/// A maintenance window, which opens again and again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenWindow {
    /// When the window opens, as a cron schedule such as `0 22 * * 1-5`: minute, hour, day of the
    /// month, month, day of the week. Six fields start with the second; a seventh one is the year.
    #[schemars(with = "String")]
    pub schedule: Option<String>,
    /// How long the window stays open, such as `4h` or `1h 30m`.
    #[schemars(with = "String")]
    pub duration: Option<String>,
    /// IANA name of the time zone of `schedule`, such as `Europe/Berlin`. Default: `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// A rule over the changes of a plan.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenRule {
    /// Name, unique in the Policy.
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// What must be true, in the Common Expression Language (CEL), over `plan`, `pools` and `nodes`.
    #[schemars(with = "String")]
    pub expression: Option<String>,
    /// What a broken rule says. Default: its expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// An expression whose text a broken rule says. Excludes `message`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_expression: Option<String>,
    /// `error` refuses a plan that breaks the rule; the others only report it.
    #[serde(default)]
    pub severity: WrittenSeverity,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WrittenSeverity {
    #[default]
    Error,
    Warning,
    Info,
}

/// Changes at OpenStack Neutron.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenNeutron {
    /// `PodCIDRs`: `apply` allows the pod CIDRs of each node on the ports of its VM, which
    /// `spec.providerID` names.
    #[serde(default)]
    pub allowed_address_pairs: WrittenAddressPairs,
}

/// What `apply` does with the allowed address pairs of VMs' ports.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
pub(super) enum WrittenAddressPairs {
    #[default]
    Ignored,
    #[serde(rename = "PodCIDRs")]
    PodCidrs,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WrittenAutoApply {
    #[default]
    Safe,
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
