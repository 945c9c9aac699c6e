//! The spec of a `CiliumLoadBalancerIPPool`: its fields, their meaning, and the fields that an
//! operator reads.
//!
//! Source: `pkg/k8s/apis/cilium.io/v2/lbipam_types.go` @ 1.19, `v2alpha1/lbipam_types.go` @ 1.15.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};

use super::pool::{AddressPool, AddressRange, FirstLast, Marking, RangeForm, ServingState};
use super::pool_annotations::WrittenSelector;
use super::rules::LbRules;
use crate::behaviours;
use ipam_core::model::{Labels, Selector, is_ours};
use ipam_core::net::{Address, Block, BlockError, Range, is_written_as_mapped};

/// The parts of an address pool that users and this program write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressPoolManifest {
    /// `metadata.labels` of the pool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Labels,
    /// `metadata.annotations` of the pool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// `spec` of the pool.
    pub spec: AddressPoolSpec,
}

/// `spec` of a `CiliumLoadBalancerIPPool`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressPoolSpec {
    /// Ranges that Cilium reads up to 1.15.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub cidrs: Vec<AddressBlock>,
    /// Ranges that Cilium reads from 1.15 on.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub blocks: Vec<AddressBlock>,
    /// Services that may use the pool; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_selector: Option<WrittenSelector>,
    /// `Yes` or `No`: whether Services may get the first and last address of each CIDR.
    #[serde(
        default,
        rename = "allowFirstLastIPs",
        skip_serializing_if = "Option::is_none"
    )]
    pub allow_first_last: Option<String>,
    /// Whether the pool gives no new addresses.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_false"
    )]
    pub disabled: bool,
}

/// A range: a CIDR, or a first address with an optional last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressBlock {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

pub(super) fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

// `skip_serializing_if` passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !*value
}

ipam_core::text_enum! {
    /// A version of the API that serves address pools, as written in `apiVersion`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum AddressPoolApi {
        /// Served from Cilium 1.18 on.
        V2 = "cilium.io/v2",
        /// From 1.13 on, deprecated from 1.19 on.
        V2Alpha1 = "cilium.io/v2alpha1",
    }
}

/// Why a version cannot read a spec.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum NotRead {
    /// Up to 1.14, every range is a CIDR.
    #[error("this Cilium reads only CIDRs, and `{0}` is a range of addresses")]
    StartStop(String),
    /// Up to 1.14, the first and last address are always reserved.
    #[error(
        "this Cilium ignores `allowFirstLastIPs`, and always reserves the first and last address of each CIDR"
    )]
    FirstLast,
}

/// How a spec was changed for the running version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Translation {
    /// The spec is unchanged.
    None,
    /// `spec.cidrs` became `spec.blocks`.
    CidrsToBlocks,
    /// `spec.blocks` became `spec.cidrs`.
    BlocksToCidrs,
}

/// The addresses of a CIDR as netip reads it: no leading zeros, any prefix length, any host bits.
fn cidr_range(cidr: &str) -> Option<Range> {
    match cidr.parse::<Block>() {
        Ok(block) | Err(BlockError::HostBits { aligned: block, .. }) => Some(block.range()),
        Err(BlockError::Everything { family, .. }) => Some(Range::whole(family)),
        Err(BlockError::MappedIpv4 { literal, .. }) => Some(literal),
        Err(BlockError::NotACidr { .. }) => None,
    }
}

impl AddressPoolManifest {
    pub fn is_ours(&self) -> bool {
        is_ours(&self.labels)
    }
}

impl AddressBlock {
    /// Addresses of the block; `None` if the operator rejects the entry. An IPv4-mapped address
    /// counts as IPv4, as in packets, although LB-IPAM treats it as IPv6 (`netip.ParseAddr`).
    pub fn range(&self) -> Option<AddressRange> {
        let range = match (&self.cidr, &self.start, &self.stop) {
            (Some(cidr), _, _) if !cidr.is_empty() => {
                return Some(AddressRange {
                    range: cidr_range(cidr)?,
                    form: RangeForm::Cidr,
                });
            }
            (_, Some(start), Some(stop)) if !stop.is_empty() => {
                format!("{start}-{stop}").parse().ok()?
            }
            (_, Some(start), _) => start.parse::<Address>().ok()?.into(),
            _ => return None,
        };
        Some(AddressRange {
            range,
            form: RangeForm::StartStop,
        })
    }

    /// Whether the block is written as IPv4-mapped IPv6, so that only LB-IPAM treats it as IPv6.
    pub fn is_written_as_mapped(&self) -> bool {
        is_written_as_mapped(&self.text())
    }

    /// The entry as one line of text.
    pub fn text(&self) -> String {
        match (&self.cidr, &self.start, &self.stop) {
            (Some(cidr), ..) if !cidr.is_empty() => cidr.clone(),
            (_, Some(start), Some(stop)) if !stop.is_empty() => format!("{start}-{stop}"),
            (_, start, _) => start.clone().unwrap_or_default(),
        }
    }
}

impl AddressPoolSpec {
    /// Every valid range of the spec, even those that the running version ignores.
    pub fn ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.cidrs
            .iter()
            .chain(&self.blocks)
            .filter_map(|block| Some(block.range()?.range))
    }

    /// What `spec.allowFirstLastIPs` says.
    pub fn first_last(&self) -> FirstLast {
        match self.allow_first_last.as_deref() {
            Some("Yes") => FirstLast::Allowed,
            Some("No") => FirstLast::Reserved,
            _ => FirstLast::Unset,
        }
    }

    /// The pool as an operator with these rules sees it. An invalid selector selects nothing.
    pub fn as_read(
        &self,
        rules: &LbRules,
        name: &str,
        created: Option<&str>,
        marking: Marking,
    ) -> AddressPool {
        let cidrs = self
            .cidrs
            .iter()
            .filter(|_| rules.is_of(behaviours::POOL_CIDRS));
        let blocks = self
            .blocks
            .iter()
            .filter(|_| rules.is_of(behaviours::POOL_BLOCKS));
        let selector = self.service_selector.as_ref();
        AddressPool {
            name: name.to_owned(),
            created: created.map(str::to_owned),
            // The operator stops at the first invalid entry (`handleNewPool`).
            ranges: cidrs.chain(blocks).map_while(AddressBlock::range).collect(),
            selector: selector
                .map(|selector| selector.selector().unwrap_or_else(|_| Selector::nothing())),
            first_last: self.first_last(),
            state: if self.disabled {
                ServingState::Disabled
            } else {
                ServingState::Enabled
            },
            marking,
        }
    }

    /// The spec for an operator with these rules, in the newest field that it reads.
    ///
    /// # Errors
    /// Fails if this version cannot express the spec.
    pub fn translated(&self, rules: &LbRules) -> Result<(AddressPoolSpec, Translation), NotRead> {
        let mut spec = self.clone();
        if rules.is_of(behaviours::POOL_BLOCKS) {
            // In the order of 1.15.
            spec.blocks.splice(..0, spec.cidrs.drain(..));
            let is_same = self.cidrs.is_empty();
            return Ok((
                spec,
                if is_same {
                    Translation::None
                } else {
                    Translation::CidrsToBlocks
                },
            ));
        }
        let is_cidr =
            |block: &AddressBlock| block.cidr.as_ref().is_some_and(|cidr| !cidr.is_empty());
        if let Some(block) = spec
            .cidrs
            .iter()
            .chain(&spec.blocks)
            .find(|block| !is_cidr(block))
        {
            return Err(NotRead::StartStop(block.text()));
        }
        if spec.first_last() == FirstLast::Allowed {
            return Err(NotRead::FirstLast);
        }
        // `No` is the fixed behaviour, and the API server would drop the field.
        spec.allow_first_last = None;
        spec.cidrs.append(&mut spec.blocks);
        Ok((
            spec,
            if self.blocks.is_empty() {
                Translation::None
            } else {
                Translation::BlocksToCidrs
            },
        ))
    }

    /// The spec for an operator with these rules, unchanged if the operator reads both fields.
    ///
    /// # Errors
    /// Fails if this version cannot express the spec.
    pub fn readable(&self, rules: &LbRules) -> Result<(AddressPoolSpec, Translation), NotRead> {
        match rules.is_of(behaviours::POOL_CIDRS) && rules.is_of(behaviours::POOL_BLOCKS) {
            true => Ok((self.clone(), Translation::None)),
            false => self.translated(rules),
        }
    }

    /// Whether both specs mean the same to the API server and to an operator with these rules.
    pub fn means_the_same(&self, other: &AddressPoolSpec, rules: &LbRules) -> bool {
        let ranges = |blocks: &[AddressBlock]| -> Option<BTreeSet<AddressRange>> {
            // To LB-IPAM an IPv4-mapped range differs from the IPv4 range.
            blocks
                .iter()
                .map(|block| block.range().filter(|_| !block.is_written_as_mapped()))
                .collect()
        };
        let selector = |spec: &AddressPoolSpec| {
            spec.service_selector
                .as_ref()
                .map(WrittenSelector::selector)
                .transpose()
        };
        let meaning = |spec: &AddressPoolSpec| {
            let selector = selector(spec).ok()?.unwrap_or_default();
            Some((
                ranges(&spec.cidrs)?,
                ranges(&spec.blocks)?,
                selector,
                // An upgrade changes the effective value, so the written value counts if the field
                // exists.
                if rules.is_of(behaviours::POOL_BLOCKS) {
                    spec.first_last()
                } else {
                    FirstLast::Unset
                },
                spec.disabled,
            ))
        };
        self == other
            || meaning(self).is_some_and(|meaning_of_self| meaning(other) == Some(meaning_of_self))
    }
}
