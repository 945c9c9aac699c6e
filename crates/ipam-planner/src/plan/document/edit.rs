//! The fields that a change sets, as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Intent;
use ipam_cilium::lbipam::AddressPoolManifest;

/// The fields that a change sets.
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
    /// All blocks of a CiliumNode that is created while Cilium's operator hands out blocks itself.
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
    /// Whether it sets nothing, so that every cluster would already show it. Only an undo leaves a
    /// CiliumNode without blocks.
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
            // Without a value, these delete the object.
            EditDocument::PodPool(_)
            | EditDocument::NoCiliumNode(())
            | EditDocument::AddressPool(_) => false,
        }
    }
}
