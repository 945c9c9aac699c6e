//! `CiliumPodIPPool`s: what ipam `multi-pool` gives Pods addresses of
//! (`pkg/k8s/apis/cilium.io/v2alpha1/ippool_types.go` @ 1.14 to 1.20).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::view::nullable;
use super::{Node, NodeConfig, Observed};
use ipam_core::model::{Labels, NodeName, ObjectVersion, PerFamily, is_ours};
use ipam_core::net::{Block, BlockSize, Family};

/// Names the pool that an agent takes addresses of for Pods which ask for none, from 1.15 on.
pub const DEFAULT_POOL_SETTING: &str = "ipam-default-ip-pool";

/// A `CiliumPodIPPool` as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPodPool {
    /// Version of the object.
    pub version: ObjectVersion,
    /// Labels.
    pub labels: Labels,
    /// What it gives.
    pub ranges: PerFamily<PodRanges>,
    /// Entries that are no CIDR, or no size.
    pub unreadable: Vec<String>,
}

/// What a pool gives of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRanges {
    /// CIDRs, in the order in which they stand.
    pub cidrs: Vec<Block>,
    /// The size of the blocks that a node gets.
    pub size: BlockSize,
}

impl SeenPodPool {
    /// Whether we made it.
    pub fn is_ours(&self) -> bool {
        is_ours(&self.labels)
    }

    /// Its CIDRs of both families.
    pub fn cidrs(&self) -> impl Iterator<Item = Block> + '_ {
        self.ranges
            .iter()
            .flat_map(|ranges| ranges.cidrs.iter().copied())
    }
}

#[derive(Deserialize)]
pub(super) struct PodPoolView {
    metadata: PodPoolMetadata,
    #[serde(default, deserialize_with = "nullable")]
    spec: PodPoolSpecView,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodPoolMetadata {
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default, deserialize_with = "nullable")]
    labels: Labels,
}

#[derive(Default, Deserialize)]
struct PodPoolSpecView {
    #[serde(default)]
    ipv4: Option<FamilyView>,
    #[serde(default)]
    ipv6: Option<FamilyView>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FamilyView {
    #[serde(default, deserialize_with = "nullable")]
    cidrs: Vec<String>,
    #[serde(default)]
    mask_size: u64,
}

impl FamilyView {
    fn read(&self, family: Family, unreadable: &mut Vec<String>) -> Option<PodRanges> {
        let mut cidrs = Vec::new();
        for text in &self.cidrs {
            match Block::lenient(text) {
                Ok(block) if block.family() == family => cidrs.push(block),
                _ => unreadable.push(text.escape_debug().to_string()),
            }
        }
        let size = BlockSize::new(family, self.mask_size);
        if size.is_err() {
            unreadable.push(format!("maskSize {}", self.mask_size));
        }
        Some(PodRanges {
            cidrs,
            size: size.ok()?,
        })
    }
}

impl From<PodPoolView> for (String, SeenPodPool) {
    fn from(view: PodPoolView) -> (String, SeenPodPool) {
        let PodPoolView {
            metadata:
                PodPoolMetadata {
                    name,
                    uid,
                    resource_version,
                    labels,
                },
            spec,
        } = view;
        let mut unreadable = Vec::new();
        let mut ranges = PerFamily::NONE;
        *ranges.get_mut(Family::Ipv4) = spec
            .ipv4
            .and_then(|view| view.read(Family::Ipv4, &mut unreadable));
        *ranges.get_mut(Family::Ipv6) = spec
            .ipv6
            .and_then(|view| view.read(Family::Ipv6, &mut unreadable));
        (
            name,
            SeenPodPool {
                version: ObjectVersion {
                    uid,
                    resource_version,
                },
                labels,
                ranges,
                unreadable,
            },
        )
    }
}

impl NodeConfig {
    /// The pool that it makes the default of its nodes.
    pub fn default_pool(&self) -> Option<&str> {
        self.defaults.get(DEFAULT_POOL_SETTING).map(String::as_str)
    }
}

impl Observed {
    /// The pool that an agent which starts on a node now takes addresses of for Pods that ask for
    /// none.
    pub fn default_pool(&self, node: &Node) -> &str {
        self.setting(&node.labels, DEFAULT_POOL_SETTING)
            .map_or("default", |setting| setting.value)
    }

    /// Blocks that nodes have of each `CiliumPodIPPool`, by its name.
    pub fn allocated_of_pools(&self) -> BTreeMap<&str, Vec<(&NodeName, Block)>> {
        let mut allocated: BTreeMap<&str, Vec<(&NodeName, Block)>> = BTreeMap::new();
        for node in self.cilium_nodes.values() {
            for (pool, blocks) in &node.allocated {
                allocated
                    .entry(pool)
                    .or_default()
                    .extend(blocks.iter().map(|block| (&node.name, *block)));
            }
        }
        allocated
    }
}
