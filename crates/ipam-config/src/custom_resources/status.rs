//! The shape of the status of each kind, from which its definition is made.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Status of an IPPool.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// The generation that this is about.
    pub observed_generation: i64,
    /// Nodes that have a block of it.
    pub nodes: i64,
    /// Its blocks, for each family that it has.
    pub blocks: Vec<FamilyBlocks>,
    /// What is the case.
    pub conditions: Vec<Condition>,
}

/// Blocks of one family.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FamilyBlocks {
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// In all its ranges, at most the largest number of 63 bits.
    pub total: i64,
    /// Held by nodes or pinned.
    pub used: i64,
    /// Kept free of nodes: reserved, excluded, claimed, resting, or used by something else.
    pub reserved: i64,
    /// To be given, at most the largest number of 63 bits.
    pub free: i64,
}

/// Status of a NodeAssignment or ServiceAssignment.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssignmentStatus {
    /// The generation that this is about.
    pub observed_generation: i64,
    /// What is the case.
    pub conditions: Vec<Condition>,
}

/// Status of the Policy.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// The generation that this is about.
    pub observed_generation: i64,
    /// Changes that wait for a person.
    pub waiting: i64,
    /// Wanted changes that must wait for something else.
    pub blocked: i64,
    /// Nodes with a block that the files would not give them today. An older operator does not
    /// write it.
    #[serde(default)]
    pub misplaced: i64,
    /// What is the case.
    pub conditions: Vec<Condition>,
}

/// As `metav1.Condition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub about: String,
    /// Whether it is so.
    pub status: ConditionStatus,
    /// The generation that this is about.
    pub observed_generation: i64,
    /// Since when it is so.
    pub last_transition_time: String,
    /// One word for machines.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}
