//! `CiliumPodIPPool`s: the pools of Pod addresses in ipam `multi-pool`
//! (`pkg/k8s/apis/cilium.io/v2alpha1/ippool_types.go` @ 1.14 to 1.20; `reservedRanges` and v2 are
//! those of the coming 1.21).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::view::nullable;
use super::{CiliumKind, CiliumNode, Node, NodeConfig, Observed, is_true, setting_key};
use crate::behaviours;
use ipam_core::model::{Labels, NodeName, ObjectVersion, PerFamily, is_ours};
use ipam_core::net::{Block, BlockSize, Family, Range};

/// Setting that names the pool of Pods without a pool annotation, from 1.15 on.
pub const DEFAULT_POOL_SETTING: &str = super::setting_key::DEFAULT_POOL;

ipam_core::text_enum! {
    /// A version of the API that serves `CiliumPodIPPool`s, as written in `apiVersion`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PodPoolApi {
        /// Served up to Cilium 1.20.
        V2Alpha1 = "cilium.io/v2alpha1",
        /// Served by Cilium 1.21 and later.
        V2 = "cilium.io/v2",
    }
}

/// An observed `CiliumPodIPPool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPodPool {
    pub version: ObjectVersion,
    pub labels: Labels,
    pub ranges: PerFamily<PodRanges>,
    /// Entries that are not CIDRs or sizes.
    pub unreadable: Vec<String>,
    /// Fields of the spec other than the ranges.
    pub other_fields: Vec<String>,
    /// `reservedRanges` of both families: addresses inside the CIDRs that no Pod gets.
    pub reserved: Vec<Range>,
}

/// CIDRs and block size of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRanges {
    /// In the order of the spec.
    pub cidrs: Vec<Block>,
    /// Size of the blocks of nodes.
    pub size: BlockSize,
}

impl SeenPodPool {
    /// Whether the pool has the label of `cilium-ipam`.
    pub fn is_ours(&self) -> bool {
        is_ours(&self.labels)
    }

    /// CIDRs of the pool, of both families.
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
#[serde(rename_all = "camelCase")]
struct PodPoolSpecView {
    #[serde(default)]
    ipv4: Option<FamilyView>,
    #[serde(default)]
    ipv6: Option<FamilyView>,
    pod_selector: Option<IgnoredAny>,
    namespace_selector: Option<IgnoredAny>,
    #[serde(rename = "allowFirstIP")]
    allow_first_ip: Option<IgnoredAny>,
    #[serde(rename = "allowLastIP")]
    allow_last_ip: Option<IgnoredAny>,
}

impl PodPoolSpecView {
    /// Fields of 1.19 and 1.20 that the spec sets in addition to the ranges.
    fn other_fields(&self) -> Vec<String> {
        let has_reserved = |family: &Option<FamilyView>| {
            family
                .as_ref()
                .is_some_and(|family| !family.reserved_ranges.is_empty())
        };
        let families = [("ipv4", &self.ipv4), ("ipv6", &self.ipv6)].into_iter();
        let reserved = families
            .filter(|(_, family)| has_reserved(family))
            .map(|(name, _)| format!("spec.{name}.reservedRanges"));
        let fields = [
            ("podSelector", &self.pod_selector),
            ("namespaceSelector", &self.namespace_selector),
            ("allowFirstIP", &self.allow_first_ip),
            ("allowLastIP", &self.allow_last_ip),
        ];
        let set = fields.into_iter().filter(|(_, value)| value.is_some());
        set.map(|(name, _)| format!("spec.{name}"))
            .chain(reserved)
            .collect()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FamilyView {
    #[serde(default, deserialize_with = "nullable")]
    cidrs: Vec<String>,
    #[serde(default)]
    mask_size: u64,
    #[serde(default, deserialize_with = "nullable")]
    reserved_ranges: Vec<ReservedView>,
}

#[derive(Deserialize)]
struct ReservedView {
    #[serde(default)]
    start: String,
    #[serde(default)]
    end: String,
}

impl ReservedView {
    /// An absent end means the start.
    fn read(&self) -> Result<Range, String> {
        let ReservedView { start, end } = self;
        let text = match end.is_empty() {
            true => start.clone(),
            false => format!("{start}-{end}"),
        };
        text.parse()
            .map_err(|_| format!("reservedRanges {}", text.escape_debug()))
    }
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
        if self.cidrs.is_empty() {
            unreadable.push(format!("an {family} part without `cidrs`"));
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
        let other_fields = spec.other_fields();
        let (mut unreadable, mut reserved) = (Vec::new(), Vec::new());
        let families = spec.ipv4.iter().chain(&spec.ipv6);
        for range in families.flat_map(|family| &family.reserved_ranges) {
            match range.read() {
                Ok(range) => reserved.push(range),
                Err(text) => unreadable.push(text),
            }
        }
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
                other_fields,
                reserved,
            },
        )
    }
}

impl NodeConfig {
    /// The default pool that the `CiliumNodeConfig` sets for its nodes.
    pub fn default_pool(&self) -> Option<&str> {
        self.defaults.get(DEFAULT_POOL_SETTING).map(String::as_str)
    }
}

impl Observed {
    /// API version for writing `CiliumPodIPPool`s: that of the stored objects. A write in another
    /// one drops the fields that only the stored version has.
    pub fn pod_pool_api(&self) -> PodPoolApi {
        let Some(kind) = self.definitions.of(CiliumKind::PodIpPool) else {
            return match self.surely_has(behaviours::POD_POOL_V2) {
                true => PodPoolApi::V2,
                false => PodPoolApi::V2Alpha1,
            };
        };
        let served = kind.storage().filter(|storage| kind.serves(storage));
        match served {
            Some("v2") => PodPoolApi::V2,
            Some(_) => PodPoolApi::V2Alpha1,
            None if kind.serves("v2") => PodPoolApi::V2,
            None => PodPoolApi::V2Alpha1,
        }
    }

    /// The default pool of an agent that starts on this node now.
    pub fn default_pool(&self, node: &Node) -> &str {
        self.setting(&node.labels, DEFAULT_POOL_SETTING)
            .map_or("default", |setting| setting.value)
    }

    /// Whether Cilium's operator moves the blocks of ipam `cluster-pool` into its default pool. Agents
    /// use their old block until they restart (`operator/pkg/ipam/allocator/multipool` @ 1.20).
    pub fn converts_to_multi_pool(&self) -> bool {
        let setting = (self.cilium).operator_setting(setting_key::CLUSTER_POOL_CONVERSION);
        self.is_multi_pool()
            && setting.is_some_and(is_true)
            && self.may_have(behaviours::CLUSTER_POOL_CONVERSION)
    }

    /// CiliumNodes that the conversion to ipam `multi-pool` has not reached.
    pub fn unconverted(&self) -> impl Iterator<Item = &Arc<CiliumNode>> {
        let converts = self.converts_to_multi_pool();
        let nodes = self.cilium_nodes.values();
        nodes.filter(move |node| converts && !node.pod_cidrs.is_empty())
    }

    /// Allocated blocks of each `CiliumPodIPPool`, by its name. Blocks that a conversion is about to
    /// move count as allocated.
    pub fn allocated_of_pools(&self) -> BTreeMap<&str, Vec<(&NodeName, Block)>> {
        let mut allocated: BTreeMap<&str, Vec<(&NodeName, Block)>> = BTreeMap::new();
        let default = (self.cilium).operator_setting(DEFAULT_POOL_SETTING);
        for node in self.unconverted() {
            let blocks = node.pod_cidrs.iter().map(|block| (&node.name, *block));
            let of_default = allocated.entry(default.unwrap_or("default"));
            of_default.or_default().extend(blocks);
        }
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
