//! Cilium's IPAM modes and versions, and the fields through which it learns of a block.

use std::fmt;
use std::str::FromStr;

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
        /// AWS ENI.
        Eni = "eni",
        /// Azure.
        Azure = "azure",
        /// Alibaba Cloud.
        AlibabaCloud = "alibabacloud",
        /// Another CNI plugin allocates.
        DelegatedPlugin = "delegated-plugin",
    }
}

/// A Cilium release. The patch level is absent if the evidence does not tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CiliumVersion {
    pub major: u16,
    pub minor: u16,
    pub patch: Option<u16>,
}

impl CiliumVersion {
    /// A minor release whose patch level is unknown.
    pub const fn minor(minor: u16) -> CiliumVersion {
        CiliumVersion {
            major: 1,
            minor,
            patch: None,
        }
    }

    /// Whether it is certainly `1.minor.patch` or later. An unknown patch level counts as 0.
    pub fn is_at_least(self, minor: u16, patch: u16) -> bool {
        (self.major, self.minor, self.patch.unwrap_or(0)) >= (1, minor, patch)
    }
}

impl FromStr for CiliumVersion {
    type Err = ();

    /// Accepts `1.19.3`, `v1.19`, and vendors' suffixes: `v1.15.19-vendor.2`.
    fn from_str(text: &str) -> Result<CiliumVersion, ()> {
        let numbers = text
            .strip_prefix('v')
            .unwrap_or(text)
            .split(['-', '+'])
            .next()
            .unwrap_or_default();
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
        })
    }
}

impl fmt::Display for CiliumVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

crate::text_enum! {
    /// The field through which Cilium learns of a block. The text is printed, and stands in JSON
    /// and in `Policy`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum WritePath {
        /// `Node.spec.podCIDR` and `podCIDRs`, write-once.
        NodeSpec = "node-spec",
        /// The pod-CIDR annotations of the Node.
        NodeAnnotation = "node-annotation",
        /// `CiliumNode.spec.ipam.podCIDRs`.
        CiliumNode = "cilium-node",
        /// A `CiliumPodIPPool` and a `CiliumNodeConfig` for each pool.
        PodIpPool = "pod-ip-pool",
        /// `ipv4-range` and `ipv6-range` in a `CiliumNodeConfig` for one node.
        NodeConfig = "node-config",
    }
}

/// Who chooses the write path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WritePathChoice {
    /// The planner, from the observed version and settings.
    #[default]
    Auto,
    /// The user, in `Policy`.
    Forced(WritePath),
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
        assert_eq!(v("v1.13"), Ok(CiliumVersion::minor(13)));
        assert!(v("latest").is_err() && v("1").is_err() && v("").is_err() && v("1.x.3").is_err());
        assert!(v("1.12.8").unwrap().is_at_least(12, 8) && !v("1.12").unwrap().is_at_least(12, 8));
    }
}
