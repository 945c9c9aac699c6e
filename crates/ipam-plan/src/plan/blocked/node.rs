//! Obstacles of a node: no pool serves it, or others have the block that it shows.
//!
//! Obstacles of a pin: the node cannot get the blocks that a NodeAssignment names.
//!
//! Obstacles of a write path: this Cilium does not read the field, or the field cannot be written.
//!
//! Obstacles of a CiliumNodeConfig, which sets the blocks of one node or the default pool of many.

use std::collections::BTreeMap;
use std::sync::Arc;

use strum::{IntoStaticStr, VariantNames};

use super::Explanation;
use crate::allocators::{described, fix};
use crate::plan::owners::ClaimedBlocks;
use ipam_cilium::observed::Allocator;
use ipam_core::alloc::{PassedOver, PassedOverPool, PassedOverPools};
use ipam_core::model::{IpamMode, NodeName, PoolName, WritePath};
use ipam_core::net::{Block, Family};

/// Why a node gets no block, or a block that it shows is not written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum NodeObstacle {
    /// No pool's selector matches the node.
    NoPool,
    /// No pool that matches can serve it: each with the reason.
    NodePoolsExhausted {
        passed_over: PassedOverPools,
        /// Claimed and quarantined blocks of each pool that has such blocks.
        claimed: Arc<BTreeMap<PoolName, ClaimedBlocks>>,
    },
    /// A field of another node has the block too.
    DuplicateBlock(Block, NodeName),
    /// This plan gives a part of the wide block that the node shows to another node.
    BlockSplitConflict(Block, NodeName),
    /// The block that the node shows overlaps addresses that something else uses.
    HeldNotFree(Block),
    /// The block is claimed for another node, or quarantined after it.
    #[strum(serialize = "block-claimed-or-quarantined")]
    Claimed(Block, NodeName),
    /// The migration with this id moves the node.
    Migrating(String),
}

/// How to make room for a block if none of these pools has one.
fn room_for(passed_over: &PassedOverPools) -> String {
    let change = match &passed_over[..] {
        [.., last] if last.why == PassedOver::AwaitsRoom => {
            return format!(
                "widen pool {}, or set its `whenFull` to `NextPool`",
                last.pool
            );
        }
        [only] => match only.why {
            PassedOver::Full | PassedOver::AwaitsRoom => "widen the pool".to_owned(),
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
                    let claimed = claimed.get(pool).filter(|_| why.is_full());
                    let hint = claimed.map(|blocks| {
                        let blocks = blocks.in_flight + blocks.quarantined;
                        format!(" (claimed or quarantined blocks: {blocks})")
                    });
                    format!("{pool} {why}{}", hint.unwrap_or_default())
                };
                let full = passed_over.iter().filter(|passed| passed.why.is_full());
                let mut all = ClaimedBlocks::default();
                for blocks in full.filter_map(|passed| claimed.get(&passed.pool)) {
                    all.in_flight += blocks.in_flight;
                    all.quarantined += blocks.quarantined;
                }
                let waits = passed_over
                    .last()
                    .is_some_and(|last| last.why == PassedOver::AwaitsRoom);
                let outcome = match waits {
                    true => "it waits for a block",
                    false => "no pool can serve it",
                };
                Explanation::new(
                    format!("{outcome}: {}", passed_over.in_words(text)),
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

/// Why the pin of a node cannot be fulfilled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum PinObstacle {
    /// A family of the pin is switched off in Cilium.
    #[strum(serialize = "pin-family-off")]
    FamilyOff(Family),
    /// Another node already has the pinned block.
    #[strum(serialize = "pin-held-by")]
    HeldBy(Block, NodeName),
    /// The pinned block overlaps an address that something else uses.
    #[strum(serialize = "pin-not-free")]
    NotFree(Block),
    /// The pinned node holds another block.
    #[strum(serialize = "pin-would-move")]
    WouldMove {
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
                    "it is pinned to {pinned} but holds {held}, and the block of a node never moves automatically"
                ),
                "move the node with `cilium-ipam migrate plan` and `cilium-ipam migrate apply`, or pin the block that it holds",
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

/// Why no field that this Cilium reads can be written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum WritePathObstacle {
    /// An IPAM mode in which another component allocates, by design.
    UnsupportedIpamMode(IpamMode),
    /// The IPAM mode of the cluster is unknown.
    ModeUnknown(String),
    /// Cilium does not read this write path in this IPAM mode.
    WritePathNotRead(WritePath, IpamMode),
    /// The object belongs to a deleted Node of the same name, and is garbage-collected soon.
    StaleOwner(WritePath),
    /// The annotation path, with the gate closed.
    AnnotationNotRead,
    /// The annotation path, on a Cilium of unknown version.
    VersionUnknown,
    /// The `node-spec` path, while another allocator assigns.
    OtherAllocator(Arc<Allocator>),
    /// The Node has `spec.podCIDRs` of the other family only, which cannot be extended.
    SpecIsWriteOnce(Family),
}

impl WritePathObstacle {
    pub(super) fn explain(&self) -> Explanation {
        const OTHER_MODE: &str = "nothing to do: this mode does not take blocks from a Node";
        match self {
            WritePathObstacle::UnsupportedIpamMode(mode) => Explanation::new(
                format!("Cilium runs with ipam `{mode}`, in which another allocator decides"),
                OTHER_MODE,
            ),
            WritePathObstacle::ModeUnknown(mode) => Explanation::new(
                format!(
                    "ipam `{}` of Cilium is unknown to this version of cilium-ipam",
                    mode.escape_debug()
                ),
                "correct `ipam` in cilium-config, or upgrade cilium-ipam",
            ),
            WritePathObstacle::WritePathNotRead(path, mode) => Explanation::new(
                format!("the Policy says `writePath: {path}`, which is not read in ipam `{mode}`"),
                "use `writePath: auto`",
            ),
            WritePathObstacle::StaleOwner(path) => {
                let kind = if *path == WritePath::CiliumNode {
                    "CiliumNode"
                } else {
                    "CiliumNodeConfig"
                };
                Explanation::new(
                    format!(
                        "its {kind} belongs to an earlier Node of that name and is about to be collected"
                    ),
                    "wait until it is collected or its agent makes it its own, and plan again",
                )
            }
            WritePathObstacle::AnnotationNotRead => Explanation::new(
                "this Cilium does not read the annotation: annotate-k8s-node is not \"true\"",
                "set `annotate-k8s-node: \"true\"` in cilium-config (Helm: annotateK8sNode=true), or use `writePath: auto`",
            ),
            WritePathObstacle::VersionUnknown => Explanation::new(
                "Cilium's version is unknown, and annotate-k8s-node is not \"true\": the annotation may not be read",
                "set `annotate-k8s-node: \"true\"` in cilium-config, or use `writePath: auto`",
            ),
            WritePathObstacle::OtherAllocator(rival) => Explanation::new(
                format!("{} and fills spec.podCIDRs itself", described(rival)),
                fix(rival),
            ),
            WritePathObstacle::SpecIsWriteOnce(family) => Explanation::new(
                format!(
                    "spec.podCIDRs is write-once: {family} cannot be added to it, and the annotation is not read"
                ),
                "set `annotate-k8s-node: \"true\"` in cilium-config, or re-create the Node with both families",
            ),
        }
    }
}

/// Why a `CiliumNodeConfig` cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum NodeConfigObstacle {
    /// The pool that the `CiliumNodeConfig` would choose is blocked.
    ChosenPoolBlocked(PoolName),
    /// This other pool is equally good for this node; Cilium would use the later one by name.
    PoolsTied(Box<(PoolName, NodeName)>),
    /// The running Cilium does not read a default pool, or its version is unknown.
    DefaultPoolNotRead,
    /// The API server does not serve `CiliumNodeConfig`s, or their API version is unknown.
    #[strum(serialize = "node-configs-not-served")]
    NotServed,
    /// No label selector selects this node alone.
    CannotBeSelected(String),
    /// A foreign `CiliumNodeConfig` has this name.
    #[strum(serialize = "node-config-not-managed")]
    OfAnother(String),
    /// A foreign setting overrides the one that would be written: its key and its place.
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
