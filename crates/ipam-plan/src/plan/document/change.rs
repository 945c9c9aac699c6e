//! A change as JSON.
//!
//! The fields that a change sets, as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Intent;
use crate::plan::change::{ChangeAction, TargetKind};
use ipam_cilium::lbipam::AddressPoolManifest;
use ipam_core::model::{Hazard, ObjectVersion, WritePath};
use ipam_core::net::{Range, covers, merge};

/// A place in the files: an [`Origin`](ipam_core::model::Origin) without its bytes, perhaps with
/// the line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginDocument {
    /// Path.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The line's text, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
}

/// A change of any kind as JSON: every kind has the same fields, with its values as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeDocument {
    /// `assign`, `update` or `release` for a node; `create`, `update`, `adopt` or
    /// `delete` for a pool; `pin` for a Service.
    pub action: ChangeAction,
    /// Kind of the object.
    pub kind: TargetKind,
    /// Its name.
    pub name: String,
    /// The write path.
    pub write_path: String,
    /// CIDRs, ranges or addresses that the written field shows now.
    pub before: Vec<String>,
    /// CIDRs that it will show.
    pub after: Vec<String>,
    /// The pool.
    pub pool: Option<String>,
    /// The failure domain of the node, by the Policy's label; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// Why, for people.
    pub reason: String,
    /// `none`, `disruptive` or `destructive`.
    pub hazard: Hazard,
    /// The fields that are set.
    pub edit: EditDocument,
    /// The fields as they are now; absent if the change cannot be undone.
    pub undo: Option<EditDocument>,
    /// The object that was seen.
    pub guard: ObjectVersion,
    /// The pin or the pool.
    pub origin: Option<OriginDocument>,
    /// Blocks of `after` that a person must approve before they are written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs_approval: Vec<UnapprovedBlockDocument>,
}

/// A block that only fields show which the node's own agent can write, and that no pool would give
/// the node, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnapprovedBlockDocument {
    /// The block.
    pub block: String,
    /// The field that shows it.
    pub source: String,
    /// Who wrote the field last, if the server kept it.
    pub writer: Option<WriterDocument>,
    /// Stable code of the reason why no pool would give it.
    pub code: String,
    /// The reason, for people.
    pub reason: String,
}

/// The last writer of a field, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterDocument {
    /// Its field manager.
    pub manager: String,
    /// Time of the write, RFC 3339.
    pub time: String,
}

impl ChangeDocument {
    pub fn is_of_node(&self) -> bool {
        self.kind == TargetKind::Node
    }

    /// The change's [`Target`](crate::plan::Target) as text: `KIND/NAME`.
    pub fn target(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    pub fn is_destructive(&self) -> bool {
        self.hazard == Hazard::Destructive
    }

    pub fn is_disruptive(&self) -> bool {
        self.hazard == Hazard::Disruptive
    }

    /// The value afterwards, in one line; for pairs, the added and removed ranges. Empty without a
    /// value.
    pub fn comes(&self) -> String {
        match &self.edit {
            EditDocument::AddressPairs { add, remove } => {
                let signed = |sign, ranges: &[String]| {
                    ranges
                        .iter()
                        .map(move |range| format!("{sign}{range}"))
                        .collect::<Vec<_>>()
                };
                [signed('+', add), signed('-', remove)].concat().join(" ")
            }
            _ => self.after.join(" "),
        }
    }

    /// The field that the change writes, as users find it in the object; the write path of an
    /// object other than a node.
    pub fn field(&self) -> &str {
        match self.write_path.parse() {
            Ok(path) => WritePath::field(path),
            Err(()) => &self.write_path,
        }
    }

    /// Whether a block that the node shows is replaced by another one.
    pub fn moves_a_block(&self) -> bool {
        let goes = |block: &String| !self.after.contains(block);
        self.is_of_node() && !self.after.is_empty() && self.before.iter().any(goes)
    }

    /// Whether an address that the object shows is not among those that it will show. A text that
    /// is no range counts as lost if it goes.
    pub fn loses_addresses(&self) -> bool {
        let range = |text: &String| text.parse::<Range>().ok();
        let after = merge(self.after.iter().filter_map(range));
        let stays = |text: &String| match range(text) {
            Some(before) => covers(&after, &before),
            None => self.after.contains(text),
        };
        !self.before.iter().all(stays)
    }

    /// Text that is equal for equal changes: all fields except values that may differ harmlessly
    /// between two plans.
    pub fn identity(&self) -> String {
        let ChangeDocument {
            action,
            kind,
            name,
            write_path,
            before,
            after,
            pool,
            failure_domain: _,
            reason: _,
            hazard,
            edit,
            undo,
            guard,
            origin: _,
            // The blocks are in `after`.
            needs_approval: _,
        } = self;
        // A pool that was re-created with the same spec is equivalent.
        let uid = match edit {
            EditDocument::AddressPool(_) | EditDocument::PodPool(_) => "",
            _ => &guard.uid,
        };
        // Effects on Services are compared Service by Service.
        let hazard = match kind {
            TargetKind::AddressPool | TargetKind::Service => "",
            _ => hazard.as_str(),
        };
        // An agent that creates its CiliumNode in between changes only what an undo would do.
        let undo = match edit {
            EditDocument::CiliumNode(_) | EditDocument::CiliumNodeBesideOperator(_) => {
                &Some(EditDocument::CiliumNode(undo_blocks(undo)))
            }
            _ => undo,
        };
        format!(
            "{:?}",
            (
                action.as_str(),
                kind.as_str(),
                name,
                write_path,
                before,
                after,
                pool,
                hazard,
                edit,
                undo,
                uid
            )
        )
    }
}

/// The blocks that a CiliumNode showed before a change. A missing one showed none.
fn undo_blocks(undo: &Option<EditDocument>) -> Vec<String> {
    match undo {
        Some(EditDocument::CiliumNode(blocks)) => blocks.clone(),
        _ => Vec::new(),
    }
}

/// The fields that a change sets: a write without what guards it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EditDocument {
    /// `spec.podCIDR` is the first, `spec.podCIDRs` all.
    #[serde(rename = "spec.podCIDRs")]
    NodeSpec(Vec<String>),
    /// All blocks of the CiliumNode.
    #[serde(rename = "CiliumNode.spec.ipam.podCIDRs")]
    CiliumNode(Vec<String>),
    /// `spec` of a `CiliumPodIPPool` or of the `CiliumNodeConfig` that chooses it; `null` if it
    /// does not exist.
    #[serde(rename = "spec")]
    PodPool(Option<serde_json::Value>),
    /// All blocks of a CiliumNode that is created while Cilium's operator assigns pod CIDRs itself.
    #[serde(rename = "CiliumNode.spec.ipam.podCIDRs, beside the operator")]
    CiliumNodeBesideOperator(Vec<String>),
    /// The node has no CiliumNode.
    #[serde(rename = "CiliumNode")]
    NoCiliumNode(()),
    /// Settings of the node's `CiliumNodeConfig` by key; `null` removes one. The object is deleted
    /// with its last setting.
    #[serde(rename = "CiliumNodeConfig.spec.defaults")]
    NodeConfig(BTreeMap<String, Option<String>>),
    /// Annotations by key; `null` removes one.
    #[serde(rename = "metadata.annotations")]
    Annotations(BTreeMap<String, Option<String>>),
    /// Pairs of a VM's port with its own hardware address, without foreign pairs.
    #[serde(rename = "allowed_address_pairs")]
    AddressPairs {
        /// Ranges to add.
        add: Vec<String>,
        /// Ranges to remove.
        remove: Vec<String>,
    },
    /// A pool; `null` if it does not exist.
    #[serde(rename = "CiliumLoadBalancerIPPool")]
    AddressPool(Option<AddressPoolManifest>),
}

impl EditDocument {
    /// Whether the edit sets nothing, so that every cluster would already show it. Only an undo
    /// leaves a CiliumNode without blocks.
    pub(super) fn is_empty(&self, intent: Intent) -> bool {
        match self {
            EditDocument::NodeSpec(blocks) => blocks.is_empty(),
            EditDocument::CiliumNode(blocks) | EditDocument::CiliumNodeBesideOperator(blocks) => {
                blocks.is_empty() && intent == Intent::Files
            }
            EditDocument::NodeConfig(values) | EditDocument::Annotations(values) => {
                values.is_empty()
            }
            EditDocument::AddressPairs { add, remove } => add.is_empty() && remove.is_empty(),
            // Without a value, these edits delete the object.
            EditDocument::PodPool(_)
            | EditDocument::NoCiliumNode(())
            | EditDocument::AddressPool(_) => false,
        }
    }
}
