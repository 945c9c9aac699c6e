//! Obstacles of a pin: the node cannot get the blocks that a NodeAssignment names.

use strum::{IntoStaticStr, VariantNames};

use super::Explanation;
use ipam_core::model::{NodeName, PoolName};
use ipam_core::net::{Block, Family};

/// Why the pin of a node cannot be fulfilled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum PinObstacle {
    /// A family of the pin is switched off in Cilium.
    #[strum(serialize = "pin-family-off")]
    FamilyOff(Family),
    /// Another node holds the pinned block.
    #[strum(serialize = "pin-held-by")]
    HeldBy(Block, NodeName),
    /// The pinned block overlaps an address that something else uses.
    #[strum(serialize = "pin-not-free")]
    NotFree(Block),
    /// The pinned node holds another block.
    #[strum(serialize = "pin-would-move")]
    WouldMove {
        /// The pinned block.
        pinned: Block,
        /// The block that the node holds.
        held: Block,
    },
    /// The pool of the pin is disabled.
    #[strum(serialize = "pin-pool-disabled")]
    PoolDisabled(PoolName),
    /// Cilium's operator hands out the blocks of pools.
    #[strum(serialize = "pin-in-multi-pool")]
    InMultiPool,
}

impl PinObstacle {
    pub(super) fn explain(&self) -> Explanation {
        match self {
            PinObstacle::FamilyOff(family) => Explanation::new(
                format!("its pin has an {family} block, but Cilium has {family} switched off"),
                format!("switch {family} on in cilium-config, or remove the block from the pin"),
            ),
            PinObstacle::HeldBy(block, node) => Explanation::new(
                format!("its pinned block {block} is held by node {node}"),
                format!("pin another block, or free it by removing node {node}"),
            ),
            PinObstacle::NotFree(block) => Explanation::new(
                format!("its pinned block {block} overlaps addresses that something else uses"),
                "pin a block that is free",
            ),
            PinObstacle::WouldMove { pinned, held } => Explanation::new(
                format!(
                    "it is pinned to {pinned} but holds {held}, and a held block never moves by itself"
                ),
                "set `writePath: node-config`, which moves it by a setting of Cilium (ipam `kubernetes`, 1.13 and later); or drain the node and re-create its Node object, or pin the block that it holds",
            ),
            PinObstacle::PoolDisabled(pool) => Explanation::new(
                format!("it is pinned into pool {pool}, which is disabled"),
                "enable the pool, or pin a block of another pool",
            ),
            PinObstacle::InMultiPool => Explanation::new(
                "in ipam `multi-pool` Cilium's operator picks the blocks of a node, so a pin cannot be kept",
                "make a pool for this node alone, with a nodeSelector on its kubernetes.io/hostname",
            ),
        }
    }
}
