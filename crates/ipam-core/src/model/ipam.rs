//! Cilium's IPAM modes and versions, and the fields through which it learns of a block.

use std::fmt;
use std::str::FromStr;

/// Cilium's `ipam` setting (`pkg/ipam/option/option.go`, 1.11 to 1.20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpamMode {
    /// The agent takes what the Node says.
    Kubernetes,
    /// The operator hands out from one cluster-wide pool.
    ClusterPool,
    /// The operator hands out from `CiliumPodIPPool`s.
    MultiPool,
    /// An external program fills `CiliumNode`.
    Crd,
    /// AWS ENI.
    Eni,
    /// Azure.
    Azure,
    /// Alibaba Cloud.
    AlibabaCloud,
    /// Another CNI plugin allocates.
    DelegatedPlugin,
}

impl IpamMode {
    /// As `cilium-config` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            IpamMode::Kubernetes => "kubernetes",
            IpamMode::ClusterPool => "cluster-pool",
            IpamMode::MultiPool => "multi-pool",
            IpamMode::Crd => "crd",
            IpamMode::Eni => "eni",
            IpamMode::Azure => "azure",
            IpamMode::AlibabaCloud => "alibabacloud",
            IpamMode::DelegatedPlugin => "delegated-plugin",
        }
    }
}

impl FromStr for IpamMode {
    type Err = ();

    fn from_str(text: &str) -> Result<IpamMode, ()> {
        Ok(match text {
            "kubernetes" => IpamMode::Kubernetes,
            "cluster-pool" | "cluster-pool-v2beta" => IpamMode::ClusterPool,
            "multi-pool" => IpamMode::MultiPool,
            "crd" => IpamMode::Crd,
            "eni" => IpamMode::Eni,
            "azure" => IpamMode::Azure,
            "alibabacloud" => IpamMode::AlibabaCloud,
            "delegated-plugin" => IpamMode::DelegatedPlugin,
            _ => return Err(()),
        })
    }
}

impl fmt::Display for IpamMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A Cilium release; the patch level is missing where the evidence does not reach that far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CiliumVersion {
    /// 1 so far.
    pub major: u16,
    /// Minor.
    pub minor: u16,
    /// Patch level.
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

    /// Whether it certainly is this minor and patch, or a later one.
    pub fn is_at_least(self, minor: u16, patch: u16) -> bool {
        (self.major, self.minor, self.patch.unwrap_or(0)) >= (1, minor, patch)
    }
}

impl FromStr for CiliumVersion {
    type Err = ();

    /// Reads `1.19.3`, `v1.19`, and what vendors append: `v1.15.19-vendor.2`.
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

/// The field through which Cilium learns of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WritePath {
    /// `Node.spec.podCIDR` and `podCIDRs`, write-once.
    NodeSpec,
    /// The pod-CIDR annotations of the Node.
    NodeAnnotation,
    /// `CiliumNode.spec.ipam.podCIDRs`.
    CiliumNode,
    /// A `CiliumPodIPPool` and a `CiliumNodeConfig` for each pool.
    PodIpPool,
    /// `ipv4-range` and `ipv6-range` in a `CiliumNodeConfig` for one node.
    NodeConfig,
}

impl WritePath {
    /// As printed, in JSON and in `Policy`.
    pub fn as_str(self) -> &'static str {
        match self {
            WritePath::NodeSpec => "node-spec",
            WritePath::NodeAnnotation => "node-annotation",
            WritePath::CiliumNode => "cilium-node",
            WritePath::PodIpPool => "pod-ip-pool",
            WritePath::NodeConfig => "node-config",
        }
    }
}

impl fmt::Display for WritePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Who chooses the write path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WritePathChoice {
    /// The planner, from the observed version and settings.
    #[default]
    Auto,
    /// The person, in `Policy`.
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
