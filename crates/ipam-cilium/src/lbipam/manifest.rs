//! A `CiliumLoadBalancerIPPool` as it is written: the fields of its spec, what they mean, and what
//! of them an operator reads.
//!
//! Source: `pkg/k8s/apis/cilium.io/v2/lbipam_types.go` @ 1.19, `v2alpha1/lbipam_types.go` @ 1.15.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};

use super::pool::{AddressPool, AddressRange, FirstLast, Marking, RangeForm, ServingState};
use super::rules::LbRules;
use ipam_core::model::{Labels, Operator, Requirement, RequirementError, Selector, is_ours};
use ipam_core::net::{Address, Block, BlockError, Range, is_written_as_mapped};

/// What of an address pool people and we write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressPoolManifest {
    /// `metadata.labels`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Labels,
    /// `metadata.annotations`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// `spec`.
    pub spec: AddressPoolSpec,
}

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressPoolSpec {
    /// Ranges; read up to 1.15.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub cidrs: Vec<AddressBlock>,
    /// Ranges; read from 1.15 on.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub blocks: Vec<AddressBlock>,
    /// The Services that it is for; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_selector: Option<WrittenSelector>,
    /// `Yes` or `No`.
    #[serde(
        default,
        rename = "allowFirstLastIPs",
        skip_serializing_if = "Option::is_none"
    )]
    pub allow_first_last: Option<String>,
    /// Whether it gives nothing new.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_false"
    )]
    pub disabled: bool,
}

/// One range: a CIDR, or a first address with or without a last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressBlock {
    /// CIDR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// First address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Last address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

/// `serviceSelector`, as `metav1.LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenSelector {
    /// Label and value, all of them.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub match_labels: Labels,
    /// Further requirements, all of them.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub match_expressions: Vec<WrittenRequirement>,
}

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenRequirement {
    /// Label key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "BTreeSet::is_empty"
    )]
    pub values: BTreeSet<String>,
}

fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

// As serde wants it.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !*value
}

/// A version of the API in which address pools are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressPoolApi {
    /// From 1.18 on.
    V2,
    /// From 1.13 on, deprecated from 1.19 on.
    V2Alpha1,
}

impl AddressPoolApi {
    /// As in `apiVersion`.
    pub fn as_str(self) -> &'static str {
        match self {
            AddressPoolApi::V2 => "cilium.io/v2",
            AddressPoolApi::V2Alpha1 => "cilium.io/v2alpha1",
        }
    }

    /// The version that is written so, if it is one of these.
    pub fn from_text(text: &str) -> Option<AddressPoolApi> {
        [AddressPoolApi::V2, AddressPoolApi::V2Alpha1]
            .into_iter()
            .find(|api| api.as_str() == text)
    }
}

/// A spec that a version cannot be given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum NotRead {
    /// Up to 1.14 a range is a CIDR.
    #[error("this Cilium reads CIDRs only, and `{0}` is a first and a last address")]
    StartStop(String),
    /// Up to 1.14 the first and the last address are always kept back.
    #[error(
        "this Cilium does not know `allowFirstLastIPs`, and keeps the first and the last address of each CIDR back"
    )]
    FirstLast,
}

/// Whether a spec had to be written otherwise for the running version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Translation {
    /// It is as it was.
    None,
    /// `spec.cidrs` is written as `spec.blocks`.
    CidrsToBlocks,
    /// `spec.blocks` is written as `spec.cidrs`.
    BlocksToCidrs,
}

/// The addresses of a CIDR as netip reads it: no leading zeros, any prefix length, any bits behind
/// the prefix.
fn cidr_range(cidr: &str) -> Option<Range> {
    match cidr.parse::<Block>() {
        Ok(block) | Err(BlockError::HostBits { aligned: block, .. }) => Some(block.range()),
        Err(BlockError::Everything { family, .. }) => Some(Range::whole(family)),
        Err(BlockError::MappedIpv4 { literal, .. }) => Some(literal),
        Err(BlockError::NotACidr { .. }) => None,
    }
}

impl AddressPoolManifest {
    /// Whether it carries our label.
    pub fn is_ours(&self) -> bool {
        is_ours(&self.labels)
    }
}

impl AddressBlock {
    /// Its addresses; `None` where an operator stops with an error. An IPv4-mapped address counts
    /// as IPv4, which is what packets have, although LB-IPAM keeps it apart (`netip.ParseAddr`).
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

    /// Whether LB-IPAM takes it for IPv6 addresses and everything else for IPv4.
    pub fn is_written_as_mapped(&self) -> bool {
        is_written_as_mapped(&self.text())
    }

    /// As a person would write it in one line.
    pub fn text(&self) -> String {
        match (&self.cidr, &self.start, &self.stop) {
            (Some(cidr), ..) if !cidr.is_empty() => cidr.clone(),
            (_, Some(start), Some(stop)) if !stop.is_empty() => format!("{start}-{stop}"),
            (_, start, _) => start.clone().unwrap_or_default(),
        }
    }
}

impl WrittenSelector {
    /// What it means.
    ///
    /// # Errors
    /// A requirement that Kubernetes does not know.
    pub fn selector(&self) -> Result<Selector, String> {
        let text = |error: RequirementError| error.to_string();
        let mut requirements = Vec::new();
        for (key, value) in &self.match_labels {
            requirements
                .push(Requirement::new(key, Operator::In([value.clone()].into())).map_err(text)?);
        }
        for WrittenRequirement {
            key,
            operator,
            values,
        } in &self.match_expressions
        {
            let operator = match operator.as_str() {
                "In" => Operator::In(values.clone()),
                "NotIn" => Operator::NotIn(values.clone()),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("`{}` is no operator", other.escape_debug())),
            };
            requirements.push(Requirement::new(key, operator).map_err(text)?);
        }
        Ok(Selector::all_of(requirements))
    }
}

impl From<&Selector> for WrittenSelector {
    fn from(selector: &Selector) -> WrittenSelector {
        let written = |requirement: &Requirement| {
            let (operator, values) = match requirement.operator() {
                Operator::In(values) => ("In", values.clone()),
                Operator::NotIn(values) => ("NotIn", values.clone()),
                Operator::Exists => ("Exists", BTreeSet::new()),
                Operator::DoesNotExist => ("DoesNotExist", BTreeSet::new()),
            };
            WrittenRequirement {
                key: requirement.key().to_owned(),
                operator: operator.to_owned(),
                values,
            }
        };
        WrittenSelector {
            match_labels: Labels::new(),
            match_expressions: selector.requirements().map(written).collect(),
        }
    }
}

impl AddressPoolSpec {
    /// Every range that can be read, whichever version reads it.
    pub fn ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.cidrs
            .iter()
            .chain(&self.blocks)
            .filter_map(|block| Some(block.range()?.range))
    }

    /// `spec.allowFirstLastIPs`.
    pub fn first_last(&self) -> FirstLast {
        match self.allow_first_last.as_deref() {
            Some("Yes") => FirstLast::Allowed,
            Some("No") => FirstLast::Reserved,
            _ => FirstLast::Unset,
        }
    }

    /// The pool that an operator of these rules makes of it. A selector that cannot be read is
    /// taken to select nothing.
    pub fn as_read(
        &self,
        rules: &LbRules,
        name: &str,
        created: Option<&str>,
        marking: Marking,
    ) -> AddressPool {
        let cidrs = self.cidrs.iter().filter(|_| rules.reads_cidrs());
        let blocks = self.blocks.iter().filter(|_| rules.reads_blocks());
        let selector = self.service_selector.as_ref();
        AddressPool {
            name: name.to_owned(),
            created: created.map(str::to_owned),
            // The operator stops at the first entry that it cannot read (`handleNewPool`).
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

    /// The same for an operator of these rules, in the field that the newest version of those that
    /// read it keeps.
    ///
    /// # Errors
    /// What this version has no way to say.
    pub fn translated(&self, rules: &LbRules) -> Result<(AddressPoolSpec, Translation), NotRead> {
        let mut spec = self.clone();
        if rules.reads_blocks() {
            // In the order in which 1.15 reads them.
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
        // `No` is what it does anyway, and the API server would drop it.
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

    /// The same for an operator of these rules, left as it stands where such an operator reads
    /// every field of it.
    ///
    /// # Errors
    /// Something that this version cannot express.
    pub fn readable(&self, rules: &LbRules) -> Result<(AddressPoolSpec, Translation), NotRead> {
        match rules.reads_cidrs() && rules.reads_blocks() {
            true => Ok((self.clone(), Translation::None)),
            false => self.translated(rules),
        }
    }

    /// Whether both mean the same to the API server and an operator of these rules, however they
    /// are spelled.
    pub fn means_the_same(&self, other: &AddressPoolSpec, rules: &LbRules) -> bool {
        let ranges = |blocks: &[AddressBlock]| -> Option<BTreeSet<AddressRange>> {
            // One that is written as mapped means something else to LB-IPAM than the IPv4 range.
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
                // What it comes to changes with an upgrade, so where the field exists it counts as
                // it stands.
                if rules.reads_blocks() {
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
