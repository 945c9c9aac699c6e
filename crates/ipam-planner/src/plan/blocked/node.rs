//! Obstacles of a node: no pool serves it, or others have the block that it shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use strum::{IntoStaticStr, VariantNames};

use super::Explanation;
use crate::plan::claimed_blocks::ClaimedBlocks;
use ipam_core::alloc::{PassedOver, PassedOverPool, PassedOverPools};
use ipam_core::model::{NodeName, PoolName};
use ipam_core::net::Block;

/// Why a node gets no block, or a block that it shows is not written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum NodeObstacle {
    /// No pool's selector matches the node.
    NoPool,
    /// No pool that matches can serve it: each with the reason.
    NodePoolsExhausted {
        passed_over: PassedOverPools,
        /// For each pool that has some.
        claimed: Arc<BTreeMap<PoolName, ClaimedBlocks>>,
    },
    /// Another node shows the block too.
    DuplicateBlock(Block, NodeName),
    /// This plan gives a part of the wide block that the node shows to another node.
    BlockSplitConflict(Block, NodeName),
    /// The block that the node shows overlaps addresses that something else uses.
    HeldNotFree(Block),
    /// The block is claimed for another node, or quarantined after it.
    #[strum(serialize = "block-claimed-or-quarantined")]
    Claimed(Block, NodeName),
    /// This migration moves the node.
    Migrating(String),
}

/// How to get a block where none of these pools gives one.
fn room_for(passed_over: &PassedOverPools) -> String {
    let change = match &passed_over[..] {
        [only] => match only.why {
            PassedOver::Full => "widen the pool".to_owned(),
            PassedOver::Disabled => "enable the pool".to_owned(),
            PassedOver::Lacks(family) => format!("add an {family} CIDR to the pool"),
        },
        _ => "widen or enable one of them".to_owned(),
    };
    format!("{change}, or add a further pool that matches")
}

impl NodeObstacle {
    pub(super) fn explain(&self) -> Explanation {
        match self {
            NodeObstacle::NoPool => Explanation::new(
                "no pool matches its labels",
                "label the node, widen a pool's nodeSelector, or add a pool without one as a fallback",
            ),
            NodeObstacle::NodePoolsExhausted {
                passed_over,
                claimed,
            } => {
                let text = |PassedOverPool { pool, why }: &PassedOverPool| {
                    let claimed = claimed.get(pool).filter(|_| *why == PassedOver::Full);
                    let hint = claimed.map(|blocks| {
                        let blocks = blocks.in_flight + blocks.quarantined;
                        format!(" (claimed or quarantined blocks: {blocks})")
                    });
                    format!("{pool} {why}{}", hint.unwrap_or_default())
                };
                let full = passed_over
                    .iter()
                    .filter(|passed| passed.why == PassedOver::Full);
                let mut all = ClaimedBlocks::default();
                for blocks in full.filter_map(|passed| claimed.get(&passed.pool)) {
                    all.in_flight += blocks.in_flight;
                    all.quarantined += blocks.quarantined;
                }
                Explanation::new(
                    format!("no pool can serve it: {}", passed_over.in_words(text)),
                    format!("{}{}", room_for(passed_over), all.until()),
                )
            }
            NodeObstacle::DuplicateBlock(block, node) => Explanation::new(
                format!("it shows {block}, which node {node} shows too"),
                "find out which of the two has pods in it, and clear the field of the other one",
            ),
            NodeObstacle::BlockSplitConflict(block, node) => Explanation::new(
                format!(
                    "it shows {block}, which no agent reads, and a part of it goes to node {node}"
                ),
                "clear the field, and the node gets a block of its pool; if its Pods have addresses of it, reserve the block in its pool first",
            ),
            NodeObstacle::HeldNotFree(block) => Explanation::new(
                format!("it shows {block}, which overlaps addresses that something else uses"),
                "clear the field, and the node gets a block of its pool",
            ),
            NodeObstacle::Claimed(block, node) => Explanation::new(
                format!(
                    "{block} is claimed for node {node} by an unfinished apply, or quarantined after that node"
                ),
                "wait for the other apply, or until the block's `quarantine` in the Policy is over, and plan again",
            ),
            NodeObstacle::Migrating(migration) => Explanation::new(
                format!("migration {} moves it", migration.escape_debug()),
                "wait until the migration ends (`cilium-ipam migrate status`); without one, remove the Node's annotation cilium-ipam.io/migration",
            ),
        }
    }
}
