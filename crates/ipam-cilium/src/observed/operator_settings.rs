//! The settings of ipam `cluster-pool` as Cilium's operator reads them when it starts, and those with
//! which it does not start. Must never know objects or files.
//!
//! Rules: `validateConfigMap` in `pkg/option/config.go`, `Init` in `clusterpool.go`, `NewCIDRSets` in
//! `cidralloc.go` and `NewCIDRSet` in `cidr_set.go` @ 1.15.19, 1.18.4, 1.19.3 and 1.20.2.
//! `recorded.json` has what the real operators did.

mod rules;
#[cfg(test)]
mod tests;

use ipnet::IpNet;

use super::setting_key;
use ipam_core::net::Family;

pub use rules::read;

/// Most bits between the prefix length of an IPv6 range and that of its blocks: the operator keeps a
/// bitmap of all blocks of a range (`clusterSubnetMaxDiff`).
pub const MOST_BITS_OF_IPV6: i64 = 16;

/// Where a setting is written. An argument overrides `cilium-config`, whose text must be valid all the
/// same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written<'s> {
    pub config: Option<&'s str>,
    /// An environment variable. It overrides `cilium-config`.
    pub variable: Option<&'s str>,
    pub argument: Option<&'s str>,
}

impl<'s> Written<'s> {
    pub fn effective(self) -> Option<&'s str> {
        self.argument.or(self.plain())
    }

    /// The text without the flag. Cilium reads a variable as it reads a file.
    fn plain(self) -> Option<&'s str> {
        self.variable.or(self.config())
    }

    /// The operator reads a folder of files, and trims each.
    fn config(self) -> Option<&'s str> {
        self.config.map(str::trim)
    }

    /// Whether an argument has a variable, which Kubernetes replaces, or the environment decides:
    /// what operators do with a faulty variable is not recorded.
    pub(super) fn is_unknown(self) -> bool {
        match self.argument {
            Some(text) => setting_key::is_reference(text),
            None => self.variable.is_some(),
        }
    }
}

/// The settings of a family as written.
#[derive(Clone, Copy, Debug)]
pub struct WrittenPool<'s> {
    pub family: Family,
    /// `enable-ipv4` or its twin.
    pub switch: Written<'s>,
    pub ranges: Written<'s>,
    pub mask: Written<'s>,
}

/// What the operator gives to nodes, of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorPool {
    /// In the operator's order.
    pub ranges: Vec<OperatorRange>,
    /// Prefix length of the blocks. It may be any number.
    pub mask: i64,
}

/// A range of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorRange {
    pub text: String,
    /// An IPv4-mapped range as IPv4.
    pub net: IpNet,
    /// As the operator counts it: an IPv4-mapped range has that of IPv6.
    length: u8,
}

impl OperatorRange {
    /// Whether it has no block of this size: the mask is shorter than the range.
    pub fn is_without_blocks(&self, mask: i64) -> bool {
        i64::from(self.length) > mask
    }
}

/// What an operator makes of the settings.
#[derive(Clone, Debug, Default)]
pub struct OperatorSettings {
    /// The pools of the families that are on and without fault.
    pub pools: Vec<(Family, OperatorPool)>,
    /// Why it does not start, in its order: the first one is in its log.
    pub rejections: Vec<Rejection>,
}

/// Why an operator does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub family: Family,
    pub fault: SettingFault,
    /// What it logs.
    pub words: String,
}

/// What is wrong with a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingFault {
    /// The switch of the family is not a boolean.
    Switch(String),
    /// The mask is not a number.
    Mask(String),
    /// The mask is longer than an address.
    MaskTooLong(i64),
    /// The family is on, and has no range.
    NoRange,
    /// The family is off, and has a range.
    RangeWithoutFamily,
    /// A range is not a CIDR.
    Range(String),
    /// A range is of the other family.
    OtherFamily(String),
    /// A range overlaps an earlier one.
    Overlap { earlier: String, later: String },
    /// A range has too many blocks.
    TooManyBlocks {
        range: String,
        length: u8,
        mask: i64,
    },
}

impl SettingFault {
    /// The setting that is wrong.
    pub fn key(&self, family: Family) -> &'static str {
        match self {
            SettingFault::Switch(_) => switch_key(family),
            SettingFault::Mask(_) | SettingFault::MaskTooLong(_) => mask_key(family),
            SettingFault::NoRange
            | SettingFault::RangeWithoutFamily
            | SettingFault::Range(_)
            | SettingFault::OtherFamily(_)
            | SettingFault::Overlap { .. }
            | SettingFault::TooManyBlocks { .. } => ranges_key(family),
        }
    }
}

/// `enable-ipv4` or its twin.
pub const fn switch_key(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => setting_key::ENABLE_IPV4,
        Family::Ipv6 => setting_key::ENABLE_IPV6,
    }
}

/// `cluster-pool-ipv4-cidr` or its twin.
pub const fn ranges_key(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => setting_key::CLUSTER_POOL_IPV4_CIDR,
        Family::Ipv6 => setting_key::CLUSTER_POOL_IPV6_CIDR,
    }
}

/// `cluster-pool-ipv4-mask-size` or its twin.
pub const fn mask_key(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => setting_key::CLUSTER_POOL_IPV4_MASK_SIZE,
        Family::Ipv6 => setting_key::CLUSTER_POOL_IPV6_MASK_SIZE,
    }
}
