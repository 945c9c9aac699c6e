//! Cilium's IPAM modes and versions, and the fields through which it learns of a block.
//!
//! What a change means for running workloads.
//!
//! The version of an object.
//!
//! One optional value for each address family.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::net::{Block, Family};

crate::text_enum! {
    /// Cilium's `ipam` setting, as `cilium-config` spells it (`pkg/ipam/option/option.go`, 1.11 to
    /// 1.20).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum IpamMode {
        /// The agent reads its block from the Node.
        Kubernetes = "kubernetes",
        /// The operator allocates from one cluster-wide pool.
        ClusterPool = "cluster-pool" | "cluster-pool-v2beta",
        /// The operator allocates from `CiliumPodIPPool`s.
        MultiPool = "multi-pool",
        /// An external program fills `CiliumNode`.
        Crd = "crd",
        /// Addresses of AWS ENIs.
        Eni = "eni",
        /// Addresses of Azure's virtual networks.
        Azure = "azure",
        /// Addresses of Alibaba Cloud's ENIs.
        AlibabaCloud = "alibabacloud",
        /// Another CNI plugin allocates addresses.
        DelegatedPlugin = "delegated-plugin",
    }
}

impl IpamMode {
    /// The spelling of the cluster pool in which a node has several blocks (1.11 to 1.14).
    pub const V2BETA: &str = "cluster-pool-v2beta";
}

/// A Cilium release. The patch level is absent if the evidence does not tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CiliumVersion {
    pub major: u16,
    pub minor: u16,
    pub patch: Option<u16>,
    pub stage: Stage,
}

/// How finished a release is. All come before the release itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// A development version, with its number.
    Snapshot(u16),
    Pre(u16),
    Candidate(u16),
    Release,
}

impl CiliumVersion {
    /// A minor release whose patch level is unknown.
    pub const fn minor(minor: u16) -> CiliumVersion {
        CiliumVersion {
            major: 1,
            minor,
            patch: None,
            stage: Stage::Release,
        }
    }
}

impl FromStr for CiliumVersion {
    type Err = ();

    /// Accepts `1.19.3`, `v1.19`, pre-releases such as `1.18.0-rc.1`, and vendors' suffixes:
    /// `v1.15.19-vendor.2`.
    fn from_str(text: &str) -> Result<CiliumVersion, ()> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (numbers, suffix) = text.split_once(['-', '+']).unwrap_or((text, ""));
        let mut parts = numbers
            .split('.')
            .map(|part| part.parse::<u16>().map_err(|_| ()));
        let (Some(major), Some(minor)) = (parts.next(), parts.next()) else {
            return Err(());
        };
        Ok(CiliumVersion {
            major: major?,
            minor: minor?,
            patch: parts.next().transpose()?,
            stage: Stage::of_suffix(suffix),
        })
    }
}

impl fmt::Display for CiliumVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))?;
        match self.stage {
            Stage::Snapshot(number) => write!(f, "-snapshot.{number}"),
            Stage::Pre(number) => write!(f, "-pre.{number}"),
            Stage::Candidate(number) => write!(f, "-rc.{number}"),
            Stage::Release => Ok(()),
        }
    }
}

impl Stage {
    /// Reads `rc.1`, `rc1`, `pre.2`, `snapshot.3` and `dev`. Other suffixes are those of vendors.
    fn of_suffix(suffix: &str) -> Stage {
        let number = |word: &str| -> Option<u16> {
            let rest = suffix.strip_prefix(word)?;
            let rest = rest.strip_prefix('.').unwrap_or(rest);
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            if rest.is_empty() {
                Some(0)
            } else {
                digits.parse().ok()
            }
        };
        let snapshot = || number("snapshot").or_else(|| number("dev"));
        let pre = || ["pre", "alpha", "beta"].into_iter().find_map(number);
        let stage = number("rc").map(Stage::Candidate);
        let stage = stage.or_else(|| pre().map(Stage::Pre));
        stage
            .or_else(|| snapshot().map(Stage::Snapshot))
            .unwrap_or(Stage::Release)
    }
}

crate::text_enum! {
    /// The field through which Cilium learns of a block. The text is printed, and stands in JSON
    /// and in `IPAMPolicy`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum WritePath {
        /// `Node.spec.podCIDR` and `podCIDRs`, write-once.
        NodeSpec = "node-spec",
        /// The pod-CIDR annotations of the Node.
        NodeAnnotation = "node-annotation",
        /// `spec.ipam.podCIDRs` of the CiliumNode.
        CiliumNode = "cilium-node",
        /// A `CiliumPodIPPool` and a `CiliumNodeConfig` for each pool.
        PodIpPool = "pod-ip-pool",
        /// `ipv4-range` and `ipv6-range` in a `CiliumNodeConfig` for one node.
        NodeConfig = "node-config",
    }
}

impl WritePath {
    /// The field as users find it in the object, such as `spec.podCIDRs`.
    pub const fn field(self) -> &'static str {
        match self {
            WritePath::NodeSpec => "spec.podCIDRs",
            WritePath::NodeAnnotation => "pod-CIDR annotation",
            WritePath::CiliumNode => "spec.ipam.podCIDRs",
            WritePath::PodIpPool => "CiliumPodIPPool",
            WritePath::NodeConfig => "CiliumNodeConfig",
        }
    }
}

/// Who chooses the write path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WritePathChoice {
    /// The planner, from the observed version and settings.
    #[default]
    Auto,
    /// The user, in `IPAMPolicy`.
    Forced(WritePath),
}

crate::text_enum! {
    /// What a change means for running workloads. The text stands in JSON and in metrics.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Hazard {
        /// No running workload is affected.
        None = "none",
        /// The change takes effect only after the node's agent restarts.
        Disruptive = "disruptive",
        /// Pods may lose their addresses, or a Service may lose one.
        Destructive = "destructive",
    }
}

crate::serde_as_text! { Hazard: "hazard" }

/// Identity and version of an object, which a write depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObjectVersion {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

impl ObjectVersion {
    /// Whether UID and resourceVersion are known, so that they can guard a write.
    pub fn is_known(&self) -> bool {
        !self.uid.is_empty() && !self.resource_version.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerFamily<T> {
    pub ipv4: Option<T>,
    pub ipv6: Option<T>,
}

impl<T> PerFamily<T> {
    /// The value in which neither family is present.
    pub const NONE: PerFamily<T> = PerFamily {
        ipv4: None,
        ipv6: None,
    };

    pub fn get(&self, family: Family) -> Option<&T> {
        match family {
            Family::Ipv4 => self.ipv4.as_ref(),
            Family::Ipv6 => self.ipv6.as_ref(),
        }
    }

    pub fn get_mut(&mut self, family: Family) -> &mut Option<T> {
        match family {
            Family::Ipv4 => &mut self.ipv4,
            Family::Ipv6 => &mut self.ipv6,
        }
    }

    /// The present values, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.ipv4.iter().chain(&self.ipv6)
    }

    /// The families that have a value.
    pub fn families(&self) -> impl Iterator<Item = Family> + '_ {
        Family::BOTH
            .into_iter()
            .filter(|family| self.get(*family).is_some())
    }

    /// Whether neither family has a value.
    pub fn is_empty(&self) -> bool {
        self.ipv4.is_none() && self.ipv6.is_none()
    }
}

impl<T> Default for PerFamily<T> {
    fn default() -> PerFamily<T> {
        PerFamily::NONE
    }
}

impl PerFamily<Block> {
    /// Sets the value of the block's family, unless it is set already.
    pub fn offer(&mut self, block: Block) {
        self.get_mut(block.family()).get_or_insert(block);
    }
}

impl FromIterator<Block> for PerFamily<Block> {
    fn from_iter<I: IntoIterator<Item = Block>>(blocks: I) -> PerFamily<Block> {
        let mut all = PerFamily::NONE;
        blocks.into_iter().for_each(|block| all.offer(block));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let v = |text: &str| text.parse::<CiliumVersion>();
        assert_eq!(v("v1.19.3").map(|v| v.to_string()), Ok("1.19.3".into()));
        assert_eq!(
            v("1.15.19-vendor.2").map(|v| v.to_string()),
            Ok("1.15.19".into())
        );
        for (text, read) in [
            ("1.18.0-rc.1", "1.18.0-rc.1"),
            ("v1.11.0-rc1", "1.11.0-rc.1"),
            ("1.21.0-pre.2", "1.21.0-pre.2"),
            ("1.21.0-dev", "1.21.0-snapshot.0"),
            ("1.15.19-rcloud", "1.15.19"),
        ] {
            assert_eq!(v(text).map(|v| v.to_string()), Ok(read.into()), "{text}");
        }
        assert!(v("1.18.0-pre.3") < v("1.18.0-rc.1") && v("1.18.0-rc.1") < v("1.18.0"));
        assert_eq!(v("v1.13"), Ok(CiliumVersion::minor(13)));
        assert!(v("latest").is_err() && v("1").is_err() && v("").is_err() && v("1.x.3").is_err());
    }
}
