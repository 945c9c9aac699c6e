//! The annotations of `cilium-ipam` on a `CiliumLoadBalancerIPPool`. The kind is Cilium's, so its
//! spec has no field for them. Cilium ignores these annotations.
//!
//! A `metav1.LabelSelector` as written in an object, and its meaning. Knows nothing about the kinds
//! that have selectors.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::manifest::{AddressBlock, AddressPoolManifest, AddressPoolSpec, nullable};
use super::pool::RangeForm;
use super::rules::LbRules;
use ipam_core::model::{Labels, Operator, Requirement, RequirementError, Selector};
use ipam_core::net::{Range, RangeError, gaps, merge, touching};

/// A number. A Service gets its address from the pool with the highest number that selects it.
pub const PRIORITY: &str = "cilium-ipam.io/priority";
/// Addresses of the pool that no Service gets, separated by commas: CIDRs, `first-last`, addresses.
pub const RESERVED: &str = "cilium-ipam.io/reserved";

/// Prefix of the keys of annotations of `cilium-ipam`.
pub const OUR_PREFIX: &str = "cilium-ipam.io/";
/// Annotations of `cilium-ipam` that a pool may have.
pub const POOL_ANNOTATIONS: [&str; 2] = [PRIORITY, RESERVED];

impl AddressPoolManifest {
    /// The priority, by default 0. `None` if the annotation is not a number.
    pub fn priority(&self) -> Option<i32> {
        match self.annotations.get(PRIORITY) {
            Some(text) => text.trim().parse().ok(),
            None => Some(0),
        }
    }

    /// The reserved ranges, merged.
    ///
    /// # Errors
    /// Fails at the first entry that is not a range.
    pub fn reserved(&self) -> Result<Vec<Range>, RangeError> {
        let text = self.annotations.get(RESERVED).map_or("", String::as_str);
        let entries = text.split(',').map(str::trim);
        let ranges: Vec<Range> = entries
            .filter(|entry| !entry.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(merge(ranges))
    }
}

impl AddressPoolSpec {
    /// The spec without these ranges, which must come from [`merge`]. What is left of a block
    /// becomes `start` and `stop`, without the first and last address of a CIDR that an operator
    /// with these rules keeps back.
    #[must_use]
    pub fn without(&self, reserved: &[Range], rules: &LbRules) -> AddressPoolSpec {
        let left = |blocks: &[AddressBlock]| {
            blocks
                .iter()
                .flat_map(|block| self.left_of(block, reserved, rules))
                .collect()
        };
        AddressPoolSpec {
            cidrs: left(&self.cidrs),
            blocks: left(&self.blocks),
            ..self.clone()
        }
    }

    fn left_of(
        &self,
        block: &AddressBlock,
        reserved: &[Range],
        rules: &LbRules,
    ) -> Vec<AddressBlock> {
        let range = match block.range() {
            Some(range) if !touching(reserved, &range.range).is_empty() => range,
            _ => return vec![block.clone()],
        };
        let whole = range.range;
        let mut cut = touching(reserved, &whole).to_vec();
        if range.form == RangeForm::Cidr && rules.reserves_first_and_last(self.first_last(), &range)
        {
            cut.extend([Range::from(whole.first()), Range::from(whole.last())]);
        }
        gaps(&whole, &merge(cut)).map(as_start_and_stop).collect()
    }
}

fn as_start_and_stop(range: Range) -> AddressBlock {
    let (first, last) = (range.first(), range.last());
    AddressBlock {
        cidr: None,
        start: Some(first.to_string()),
        stop: (first != last).then(|| last.to_string()),
    }
}

/// Whether an annotation has the prefix of `cilium-ipam`, and pools have no such annotation.
pub fn is_unknown(annotations: &BTreeMap<String, String>, key: &str) -> bool {
    annotations.contains_key(key) && key.starts_with(OUR_PREFIX) && !POOL_ANNOTATIONS.contains(&key)
}

/// A `metav1.LabelSelector`. All of its requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenSelector {
    /// Required value of each label.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub match_labels: Labels,
    /// Requirements beside `matchLabels`; all must hold.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub match_expressions: Vec<WrittenRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenRequirement {
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "BTreeSet::is_empty"
    )]
    pub values: BTreeSet<String>,
}

impl WrittenSelector {
    /// The parsed selector.
    ///
    /// # Errors
    /// Fails if Kubernetes rejects a requirement.
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
                other => return Err(format!("unknown operator `{}`", other.escape_debug())),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn left(version: &str, cidr: &str, first_last: Option<&str>, reserved: &str) -> Vec<String> {
        let manifest = AddressPoolManifest {
            annotations: [(RESERVED.to_owned(), reserved.to_owned())].into(),
            ..AddressPoolManifest::default()
        };
        let spec = AddressPoolSpec {
            blocks: vec![AddressBlock {
                cidr: Some(cidr.to_owned()),
                ..AddressBlock::default()
            }],
            allow_first_last: first_last.map(str::to_owned),
            ..AddressPoolSpec::default()
        };
        let rules = LbRules::new(version.parse().ok(), &BTreeMap::new());
        let left = spec.without(&manifest.reserved().unwrap(), &rules);
        left.blocks.iter().map(AddressBlock::text).collect()
    }

    #[test]
    fn what_is_left_of_a_block_keeps_the_meaning_of_the_cidr() {
        let cidr = "20.0.10.0/29";
        for (version, first_last, reserved, expected) in [
            ("1.19.3", None, "", vec!["20.0.10.0/29"]),
            ("1.19.3", None, "30.0.0.0/8", vec!["20.0.10.0/29"]),
            ("1.19.3", None, "20.0.10.0", vec!["20.0.10.1-20.0.10.7"]),
            (
                "1.19.3",
                None,
                "20.0.10.2-20.0.10.3, 20.0.10.6",
                vec!["20.0.10.0-20.0.10.1", "20.0.10.4-20.0.10.5", "20.0.10.7"],
            ),
            // The first and last address stay kept back.
            (
                "1.15.19",
                None,
                "20.0.10.2",
                vec!["20.0.10.1", "20.0.10.3-20.0.10.6"],
            ),
            (
                "1.19.3",
                Some("No"),
                "20.0.10.2",
                vec!["20.0.10.1", "20.0.10.3-20.0.10.6"],
            ),
            ("1.19.3", None, "20.0.0.0/16", vec![]),
        ] {
            assert_eq!(
                left(version, cidr, first_last, reserved),
                expected,
                "{reserved}"
            );
        }
    }
}
