//! What our own annotations on a `CiliumLoadBalancerIPPool` ask for. The kind is Cilium's, so its
//! spec has no field for them; Cilium does not read them.

use std::collections::BTreeMap;

use super::manifest::{AddressBlock, AddressPoolManifest, AddressPoolSpec};
use super::pool::RangeForm;
use super::rules::LbRules;
use ipam_core::net::{Range, RangeError, gaps, merge, touching};

/// A number. Of the pools that select a Service, the highest gives it its address.
pub const PRIORITY: &str = "cilium-ipam.io/priority";
/// Addresses of the pool that no Service gets, separated by commas: CIDRs, `first-last`, addresses.
pub const RESERVED: &str = "cilium-ipam.io/reserved";

/// Start of the keys of our annotations.
pub const OUR_PREFIX: &str = "cilium-ipam.io/";
/// Our annotations of a pool.
pub const POOL_ANNOTATIONS: [&str; 2] = [PRIORITY, RESERVED];

impl AddressPoolManifest {
    /// The priority; 0 if there is none. `None` if it is not a number.
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

/// Whether this is an annotation of ours that a pool cannot have.
pub fn is_unknown(annotations: &BTreeMap<String, String>, key: &str) -> bool {
    annotations.contains_key(key) && key.starts_with(OUR_PREFIX) && !POOL_ANNOTATIONS.contains(&key)
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
