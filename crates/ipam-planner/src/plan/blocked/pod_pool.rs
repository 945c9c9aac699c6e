//! Obstacles of a CiliumPodIPPool (ipam `multi-pool`).

use strum::{IntoStaticStr, VariantNames};

use super::Explanation;
use ipam_core::model::NodeName;
use ipam_core::net::{Block, BlockSize, Range};

/// Why a `CiliumPodIPPool` cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum PodPoolObstacle {
    /// The server does not know `CiliumPodIPPool`s.
    #[strum(serialize = "pod-pools-not-served")]
    NotServed,
    /// The server does not show `CiliumPodIPPool`s or `CiliumNodeConfig`s.
    #[strum(serialize = "pod-pools-hidden")]
    Hidden(String),
    /// A disabled pool, which Cilium does not have.
    #[strum(serialize = "pod-pool-disabled")]
    Disabled,
    /// Nothing is left of the pool's ranges.
    #[strum(serialize = "pod-pool-empty")]
    Empty,
    /// Another `CiliumPodIPPool` has addresses of it.
    #[strum(serialize = "pod-pool-overlaps")]
    Overlaps(Box<(Block, String)>),
    /// The size of its blocks cannot be changed.
    #[strum(serialize = "pod-pool-size")]
    Size(BlockSize),
    /// A node has a block that would not be in it any more.
    #[strum(serialize = "pod-pool-in-use")]
    InUse(Block, NodeName),
    /// Its CIDRs may only be added to while this operator runs.
    #[strum(serialize = "pod-pool-cidr-change-unsupported")]
    Recut,
    /// Its `reservedRanges` would lie outside its CIDRs.
    #[strum(serialize = "pod-pool-reserved")]
    Reserved(Range),
    /// A foreign `CiliumNodeConfig` makes it the default of nodes.
    #[strum(serialize = "pod-pool-chosen")]
    Chosen(String),
    /// An IPv6 CIDR has more than this number of bits above its blocks.
    #[strum(serialize = "pod-pool-too-wide")]
    TooWide(u8),
}

impl PodPoolObstacle {
    pub(super) fn explain(&self) -> Explanation {
        match self {
            PodPoolObstacle::NotServed => Explanation::new(
                "CiliumPodIPPools are not served (Cilium 1.14 and later)",
                "let Cilium's operator install its CRDs first",
            ),
            PodPoolObstacle::Hidden(why) => Explanation::new(
                format!("existing objects cannot be read: {}", why.escape_debug()),
                "allow `list` on ciliumpodippools and ciliumnodeconfigs",
            ),
            PodPoolObstacle::Disabled => Explanation::new(
                "a CiliumPodIPPool cannot be disabled: agents take addresses of it while it exists",
                "remove its file once no node has a block of it",
            ),
            PodPoolObstacle::Empty => Explanation::new(
                "nothing is left of its ranges for the families that are in use",
                "widen the pool, or remove ranges from `reserved` and `excluded`",
            ),
            PodPoolObstacle::Overlaps(other) => {
                let (block, pool) = &**other;
                let pool = pool.escape_debug();
                Explanation::new(
                    format!("CiliumPodIPPool {pool} has or gave {block} too"),
                    format!(
                        "remove the CIDR from one of them; `kubectl get ciliumpodippool {pool} -o yaml`"
                    ),
                )
            }
            PodPoolObstacle::Size(size) => Explanation::new(
                format!(
                    "its blocks have the size {size}, and maskSize of a CiliumPodIPPool cannot be changed"
                ),
                format!("keep blockSize {size}, or make another pool for it"),
            ),
            PodPoolObstacle::InUse(block, node) => Explanation::new(
                format!(
                    "node {node} has {block} of it, and would keep it while the operator complains"
                ),
                format!(
                    "drain node {node}, delete its CiliumNode and restart its agent, or leave the CIDR in the pool"
                ),
            ),
            PodPoolObstacle::Recut => Explanation::new(
                "with CIDRs that are not only appended, this operator (before 1.19, or of unknown version) would forget the blocks that it gave",
                "append CIDRs only; or stop the operator, drain the pool's nodes and delete their CiliumNodes first, as Cilium's guide for multi-pool says",
            ),
            PodPoolObstacle::Reserved(range) => Explanation::new(
                format!(
                    "its reservedRanges contain {range}, which would no longer lie in its CIDRs"
                ),
                "leave the CIDR in the pool, or remove the range from `reservedRanges` of the CiliumPodIPPool",
            ),
            PodPoolObstacle::Chosen(config) => Explanation::new(
                format!(
                    "CiliumNodeConfig {} makes it the default of nodes, and is not ours",
                    config.escape_debug()
                ),
                "remove that CiliumNodeConfig first",
            ),
            PodPoolObstacle::TooWide(bits) => Explanation::new(
                format!("Cilium takes no IPv6 CIDR that has more than 2^{bits} blocks"),
                "write narrower `cidrs`, or a smaller prefix length as blockSize",
            ),
        }
    }
}
