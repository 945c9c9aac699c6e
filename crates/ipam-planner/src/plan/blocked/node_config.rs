//! Obstacles of a CiliumNodeConfig, which sets the blocks of one node or the default pool of many.

use strum::{IntoStaticStr, VariantNames};

use super::Explanation;
use ipam_core::model::{NodeName, PoolName};

/// Why a `CiliumNodeConfig` cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum NodeConfigObstacle {
    /// The pool that it would choose is blocked.
    ChosenPoolBlocked(PoolName),
    /// Another pool is as good for a node.
    PoolsTied(Box<(PoolName, NodeName)>),
    /// This Cilium does not read which pool is the default, or its version is unknown.
    DefaultPoolNotRead,
    /// `CiliumNodeConfig`s are not served, or their version is unknown.
    #[strum(serialize = "node-configs-not-served")]
    NotServed,
    /// There is no selector for this node alone.
    CannotBeSelected(String),
    /// A foreign `CiliumNodeConfig` has this name.
    #[strum(serialize = "node-config-not-managed")]
    OfAnother(String),
    /// A foreign setting wins over ours: its key and its place.
    ConfigConflict(String),
}

impl NodeConfigObstacle {
    pub(super) fn explain(&self) -> Explanation {
        match self {
            NodeConfigObstacle::ChosenPoolBlocked(pool) => Explanation::new(
                format!("pool {pool} is blocked, and is not chosen before it exists"),
                format!("unblock pool {pool}"),
            ),
            NodeConfigObstacle::PoolsTied(tied) => {
                let (pool, node) = &**tied;
                Explanation::new(
                    format!(
                        "pool {pool} is as good for node {node}, and Cilium would take the later one by name"
                    ),
                    "give one of them a higher `priority`",
                )
            }
            NodeConfigObstacle::DefaultPoolNotRead => Explanation::new(
                "ipam-default-ip-pool is read from Cilium 1.15 on, and this is older or of unknown version",
                "upgrade Cilium, or make its version visible (see `doctor`)",
            ),
            NodeConfigObstacle::NotServed => Explanation::new(
                "CiliumNodeConfigs are not served (Cilium 1.13 and later), or their version is unknown",
                "install Cilium's CRDs of 1.13 or later, or drain the node and re-create its Node object",
            ),
            NodeConfigObstacle::CannotBeSelected(why) => Explanation::new(
                format!(
                    "no CiliumNodeConfig can select it alone: {}",
                    why.escape_debug()
                ),
                "give the node a label kubernetes.io/hostname of its own",
            ),
            NodeConfigObstacle::OfAnother(name) => {
                let name = name.escape_debug();
                Explanation::new(
                    format!(
                        "CiliumNodeConfig {name} exists already, and is not ours or selects other nodes"
                    ),
                    format!("delete the CiliumNodeConfig {name} if it is not needed"),
                )
            }
            NodeConfigObstacle::ConfigConflict(setting) => Explanation::new(
                format!("a CiliumNodeConfig of ours would have no effect: {setting}"),
                "remove that setting",
            ),
        }
    }
}
