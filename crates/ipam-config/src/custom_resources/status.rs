//! The status of each kind. The doc comments are the descriptions in the CustomResourceDefinition.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Status of an IPPool.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: i64,
    /// Nodes that have a block of it.
    pub nodes: i64,
    /// Numbers of blocks, per family.
    pub blocks: Vec<FamilyBlocks>,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// Blocks of one family.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FamilyBlocks {
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// Blocks in all ranges, capped at 2^63-1.
    pub total: i64,
    /// Blocks that nodes hold or pins name.
    pub used: i64,
    /// Blocks that no node can get: reserved, excluded, claimed, quarantined, or otherwise in use.
    pub reserved: i64,
    /// Free blocks, capped at 2^63-1.
    pub free: i64,
}

/// Status of a NodeAssignment or ServiceAssignment.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssignmentStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: i64,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// Status of the Policy.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: i64,
    /// Changes that wait for approval.
    pub waiting: i64,
    /// Changes that are blocked.
    pub blocked: i64,
    /// Nodes with a misplaced block. Older operators do not write this field.
    #[serde(default)]
    pub misplaced: i64,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// A `metav1.Condition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub about: String,
    /// `True`, `False` or `Unknown`.
    pub status: ConditionStatus,
    /// Generation of the spec that this status describes.
    pub observed_generation: i64,
    /// Time of the last change of `status`.
    pub last_transition_time: String,
    /// Reason as one word, for programs.
    pub reason: String,
    /// Message for people.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}
