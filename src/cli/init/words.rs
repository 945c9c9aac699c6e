//! Reads the answers, from flags and from a terminal, and quotes words for shells.

use std::collections::BTreeSet;

use ipam_cilium::observed::Observed;
use ipam_core::model::{Operator, PerFamily, Requirement};
use ipam_core::net::{Block, BlockError, BlockSize, Family};
use ipam_core::text::joined;
use ipam_import::proposal::{Split, Suggestion};

/// Prefix lengths of blocks, of the families that were named.
pub(super) type Sizes = PerFamily<BlockSize>;

/// Limit of the labels that an error names.
const NAMED: usize = 5;

pub(super) fn cidr(text: &str) -> Result<Block, String> {
    text.trim()
        .parse()
        .map_err(|error: BlockError| match error {
            BlockError::HostBits { aligned, .. } => format!("{error}; did you mean `{aligned}`?"),
            BlockError::NotACidr { .. }
            | BlockError::MappedIpv4 { .. }
            | BlockError::Everything { .. } => format!("{error}; write a CIDR such as 10.0.0.0/16"),
        })
}

/// CIDRs separated by commas or spaces.
pub(super) fn cidrs(text: &str) -> Result<Vec<Block>, String> {
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    distinct(words.map(cidr).collect::<Result<_, _>>()?)
}

/// Refuses CIDRs that overlap.
pub(super) fn distinct(cidrs: Vec<Block>) -> Result<Vec<Block>, String> {
    for (place, cidr) in cidrs.iter().enumerate() {
        if let Some(other) = cidrs[..place].iter().find(|other| other.overlaps(*cidr)) {
            return Err(format!("{cidr} overlaps {other}: name each address once"));
        }
    }
    match cidrs.is_empty() {
        true => Err("name at least one CIDR, such as 10.0.0.0/16".to_owned()),
        false => Ok(cidrs),
    }
}

/// `none`, `LABEL` or `LABEL=VALUE,…`.
pub(super) fn split(text: &str) -> Result<Split, String> {
    let text = text.trim();
    if text == "none" {
        return Ok(Split::None);
    }
    let (key, values) = match text.split_once('=') {
        Some((key, values)) => (key, values.split(',').map(str::to_owned).collect()),
        None => (text, BTreeSet::new()),
    };
    let operator = match values.is_empty() {
        true => Operator::Exists,
        false => Operator::In(values.clone()),
    };
    Requirement::new(key, operator).map_err(|error| error.to_string())?;
    Ok(Split::ByLabel {
        key: key.to_owned(),
        values,
    })
}

/// Refuses a label that no node has, and, without a cluster, one without values.
pub(super) fn known_split(
    split: Split,
    suggestion: &Suggestion,
    observed: Option<&Observed>,
) -> Result<Split, String> {
    let Split::ByLabel { key, values } = split else {
        return Ok(split);
    };
    let Some(observed) = observed else {
        return match values.is_empty() {
            true => Err(format!(
                "no cluster was read, so the values of the label are unknown: name them, such as `{key}=a,b`"
            )),
            false => Ok(Split::ByLabel { key, values }),
        };
    };
    let is_on_nodes = observed
        .nodes
        .values()
        .any(|node| node.labels.contains_key(&key));
    if !is_on_nodes && values.is_empty() {
        let labels = joined(suggestion.labels.iter().take(NAMED), ", ");
        let others = match labels.is_empty() {
            true => "use `none`".to_owned(),
            false => format!("use `none`, or one that divides the nodes, such as {labels}"),
        };
        return Err(format!("no node has the label `{key}`: {others}"));
    }
    Ok(Split::ByLabel { key, values })
}

/// `24`, `/24`, `24,120`: over 32, a prefix length is of IPv6.
pub(super) fn sizes(text: &str) -> Result<Sizes, String> {
    let mut sizes = Sizes::NONE;
    for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
        let wrong = || {
            format!("`{word}` is not a prefix length: write `24`, or `24,120` for both families")
        };
        let length: u64 = word
            .strip_prefix('/')
            .unwrap_or(word)
            .parse()
            .map_err(|_| wrong())?;
        let family = match length > u64::from(Family::Ipv4.bits()) {
            true => Family::Ipv6,
            false => Family::Ipv4,
        };
        let size = BlockSize::new(family, length).map_err(|_| wrong())?;
        if sizes.get_mut(family).replace(size).is_some() {
            return Err(format!(
                "two prefix lengths for {family}: a pool gives blocks of one size"
            ));
        }
    }
    match sizes.is_empty() {
        true => Err("write a prefix length, such as `24`".to_owned()),
        false => Ok(sizes),
    }
}

/// The sizes for the families of these CIDRs. Other families get the suggested size.
pub(super) fn sizes_for(cidrs: &[Block], given: Sizes, suggested: &Sizes) -> Result<Sizes, String> {
    let mut sizes = Sizes::NONE;
    for family in Family::BOTH {
        let of_family = cidrs.iter().filter(|cidr| cidr.family() == family);
        let longest = of_family.max_by_key(|cidr| cidr.prefix_len());
        let Some(longest) = longest else {
            if let Some(size) = given.get(family) {
                return Err(format!(
                    "block size {size} for {family}, but no {family} CIDR: add one to --cidr"
                ));
            }
            continue;
        };
        let size = given.get(family).or(suggested.get(family)).copied();
        if let Some(size) = size.filter(|size| size.prefix_len() < longest.prefix_len()) {
            return Err(format!(
                "a {size} block is larger than {longest}: choose a longer prefix or a wider CIDR"
            ));
        }
        *sizes.get_mut(family) = size;
    }
    Ok(sizes)
}

/// The text as one word of a POSIX shell.
pub(in crate::cli) fn shell(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/+@%-".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_understood_or_refused() {
        assert_eq!(cidrs("10.0.0.0/16, fd00::/64").unwrap().len(), 2);
        for (text, part) in [
            ("10.0.0.0/16,10.0.1.0/24", "overlaps 10.0.0.0/16"),
            ("10.0.0.1/16", "did you mean `10.0.0.0/16`?"),
            ("ten", "is not a CIDR"),
            (" ", "name at least one CIDR"),
        ] {
            let error = cidrs(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert_eq!(split("none"), Ok(Split::None));
        assert!(split("rack=a,b").is_ok() && split("example.com/rack").is_ok());
        assert!(split("").is_err() && split("rack=a b").is_err() && split("a\nb").is_err());
        let both = sizes("/24,120").unwrap();
        assert_eq!(
            both.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["/24", "/120"]
        );
        assert!(sizes("24,25").is_err() && sizes("0").is_err() && sizes("129").is_err());
    }

    #[test]
    fn words_of_a_shell() {
        assert_eq!(shell("pools"), "pools");
        assert_eq!(shell("my pools"), "'my pools'");
        assert_eq!(shell("a'b"), r"'a'\''b'");
        assert_eq!(shell("-x"), "'-x'");
    }
}
