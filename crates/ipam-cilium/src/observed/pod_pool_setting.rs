//! `auto-create-cilium-pod-ip-pools`: the pools that Cilium's operator creates when it starts, unless
//! they exist (`operator/pkg/ipam/allocator/multipool` @ 1.18).
//!
//! `a=ipv4-cidrs:10.0.0.0/16,10.1.0.0/16;ipv4-mask-size:24,b=ipv6-cidrs:fd00::/48;ipv6-mask-size:64`

use std::collections::BTreeMap;

use super::{Observed, PodRanges, setting_key};
use ipam_core::model::PerFamily;
use ipam_core::net::{Block, BlockSize, Family};

/// Keys of CIDRs and mask size in the setting, for each family.
const KEYS: [(Family, &str, &str); 2] = [
    (Family::Ipv4, "ipv4-cidrs", "ipv4-mask-size"),
    (Family::Ipv6, "ipv6-cidrs", "ipv6-mask-size"),
];

impl Observed {
    /// The pools of the setting, by name. Those that cannot be read are left out.
    pub fn auto_created_pools(&self) -> BTreeMap<String, PerFamily<PodRanges>> {
        let setting = self
            .cilium
            .operator_setting(setting_key::AUTO_CREATE_POD_POOLS);
        let texts = texts_of_pools(setting.unwrap_or_default()).into_iter();
        let pools = texts.filter_map(|(name, text)| Some((name.to_owned(), ranges(&text)?)));
        pools.collect()
    }
}

/// A comma separates pools, and CIDRs of a pool.
fn texts_of_pools(setting: &str) -> Vec<(&str, String)> {
    let mut texts: Vec<(&str, String)> = Vec::new();
    for part in setting.split(',') {
        match (part.split_once('='), texts.last_mut()) {
            (Some((name, text)), _) => texts.push((name.trim(), text.to_owned())),
            (None, Some((_, text))) => {
                text.push(',');
                text.push_str(part);
            }
            (None, None) => {}
        }
    }
    texts
}

fn ranges(text: &str) -> Option<PerFamily<PodRanges>> {
    let text = text.replace(char::is_whitespace, "");
    let fields = text.split(';').filter(|field| !field.is_empty());
    let fields: Option<BTreeMap<&str, &str>> = fields.map(|field| field.split_once(':')).collect();
    let fields = fields?;
    let mut ranges = PerFamily::NONE;
    for (family, cidrs, size) in KEYS {
        let Some(cidrs) = fields.get(cidrs) else {
            continue;
        };
        let cidrs: Option<Vec<Block>> = cidrs
            .split(',')
            .map(|cidr| Block::lenient(cidr).ok())
            .collect();
        let size = fields.get(size)?.parse().ok()?;
        *ranges.get_mut(family) = Some(PodRanges {
            cidrs: cidrs?,
            size: BlockSize::new(family, size).ok()?,
        });
    }
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_of_a_setting() {
        let read = |setting: &str| {
            let texts = texts_of_pools(setting).into_iter();
            let pools = texts.filter_map(|(name, text)| {
                let shown: Vec<String> = ranges(&text)?
                    .iter()
                    .map(|ranges| {
                        format!(
                            "{}{}",
                            ipam_core::text::joined(&ranges.cidrs, "+"),
                            ranges.size
                        )
                    })
                    .collect();
                Some(format!("{name} {}", shown.join(" ")))
            });
            pools.collect::<Vec<_>>()
        };
        assert_eq!(
            read(
                "a=ipv4-cidrs:10.0.0.0/16,10.1.0.0/16;ipv4-mask-size:24,b=ipv6-cidrs:fd00::/48;ipv6-mask-size:64;"
            ),
            ["a 10.0.0.0/16+10.1.0.0/16/24", "b fd00::/48/64"]
        );
        assert_eq!(
            read(
                "a=ipv4-cidrs: 10.0.0.0/16; ipv4-mask-size: 24; ipv6-cidrs:fd00::/48;ipv6-mask-size:64"
            ),
            ["a 10.0.0.0/16/24 fd00::/48/64"]
        );
        for unreadable in [
            "",
            "a",
            "a=ipv4-cidrs:10.0.0.0/16",
            "a=ipv4-cidrs:x;ipv4-mask-size:24",
            "a=b",
        ] {
            assert_eq!(read(unreadable), Vec::<String>::new(), "{unreadable}");
        }
    }
}
