//! Changes that must wait, with the reason and the way out.

use std::collections::BTreeSet;
use std::fmt;

use ipnet::IpNet;
use strum::IntoStaticStr;

use super::change::Target;
use super::lb::LbObstacle;
use crate::check::NeutronTrouble;
use ipam_cilium::observed::OperatorRefusal;
use ipam_core::model::{IpamMode, NodeName, Origin, PoolName, WritePath};
use ipam_core::net::{Block, BlockSize, Family};

/// A wanted change that must wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The object.
    pub target: Target,
    /// Why.
    pub reason: BlockedReason,
    /// The pin or the pool in the files.
    pub origin: Option<Origin>,
}

/// Why a change must wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum BlockedReason {
    /// Something about LoadBalancer addresses.
    LoadBalancing(Box<LbObstacle>),
    /// The addresses of a subnet of Neutron are not known, so nothing is known to be free.
    NeutronUnknown(Box<NeutronTrouble>),
    /// No `cilium-config` was seen.
    NoCilium,
    /// An IPAM mode in which somebody else allocates, by design.
    ModeOfAnotherAllocator(IpamMode),
    /// An IPAM mode that is unknown here.
    ModeUnknown(String),
    /// A write path that is not read in this IPAM mode.
    PathNotRead(WritePath, IpamMode),
    /// Cilium's operator gives the node a block itself.
    OperatorGives,
    /// Whether Cilium's operator gives blocks itself cannot be seen.
    OperatorUnseen,
    /// Cilium's operator would refuse the block.
    OperatorRefuses(Box<OperatorRefusal>),
    /// Cilium's operator hands out blocks of another size, this prefix length.
    OperatorBlockSize(Block, u8),
    /// The object belongs to a Node of that name that is gone, and is collected soon.
    StaleOwner(WritePath),
    /// The operator skips the node, and would give the block to another one.
    InsideOperatorRanges(Block),
    /// The annotation path, with the gate closed.
    AnnotationNotRead,
    /// The annotation path, on a Cilium of unknown version.
    VersionUnknown,
    /// The `node-spec` path, while kube-controller-manager allocates.
    RivalAllocator,
    /// The Node has `spec.podCIDRs` of the other family only, which cannot be extended.
    SpecIsWriteOnce(Family),
    /// A pod-CIDR field of the node is no CIDR.
    Unreadable(String),
    /// The Node has no UID or resourceVersion to guard a write with.
    NoIdentity,
    /// No pool's selector matches the node.
    NoPool,
    /// No pool that matches can serve it.
    Exhausted(Vec<(PoolName, String)>),
    /// Cilium waits for a block of this family too, and it could not be added to spec later.
    FamilyMissing(Family),
    /// A family of the pin is switched off in Cilium.
    PinFamilyOff(Family),
    /// The block that the node shows is shown by another node too.
    HeldTwice(Block, NodeName),
    /// Of the wide block that the node shows, this plan gives a part to another node.
    GivenToAnother(Block, NodeName),
    /// The block that the node shows overlaps addresses that something else uses.
    HeldNotFree(Block),
    /// The block is claimed for another node, or rests after it.
    SpokenFor(Block, NodeName),
    /// The pinned block is held by another node.
    PinHeldBy(Block, NodeName),
    /// The pinned block overlaps an address that something else uses.
    PinNotFree(Block),
    /// The pinned node holds another block.
    PinWouldMove {
        /// The pinned block.
        pinned: Block,
        /// The block that the node holds.
        held: Block,
    },
    /// The pool of the pin is disabled.
    PinPoolDisabled(PoolName),
    /// What was written by this path stays.
    CannotBeUndone(WritePath, Vec<Block>),
    /// A pin, where Cilium's operator hands out the blocks of pools.
    PinInMultiPool,
    /// The server does not know `CiliumPodIPPool`s.
    PodPoolsNotServed,
    /// `CiliumPodIPPool`s or `CiliumNodeConfig`s cannot be seen.
    PodPoolsHidden(String),
    /// A disabled pool, which Cilium does not have.
    PodPoolDisabled,
    /// Nothing is left of the pool's ranges.
    PodPoolEmpty,
    /// Another `CiliumPodIPPool` has addresses of it.
    PodPoolOverlaps(Box<(Block, String)>),
    /// The size of its blocks cannot be changed.
    PodPoolSize(BlockSize),
    /// A node has a block that would not be in it any more.
    PodPoolInUse(Block, NodeName),
    /// Its CIDRs may only be added to while this operator runs.
    PodPoolRecut,
    /// A `CiliumNodeConfig` of somebody else makes it the default of nodes.
    PodPoolChosen(String),
    /// An IPv6 CIDR has more than so many bits above its blocks.
    PodPoolTooWide(u8),
    /// What it would choose waits itself.
    ChosenPoolBlocked(PoolName),
    /// The label of the object names another owner.
    ManagedByAnother(String),
    /// Another pool is as good for a node.
    PoolsTied(Box<(PoolName, NodeName)>),
    /// This Cilium does not read which pool is the default, or its version is not known.
    DefaultPoolNotRead,
    /// The files say what it is, and nothing else takes it back.
    UndoneByFiles,
    /// `CiliumNodeConfig`s are not served, or nothing tells in which version.
    NodeConfigsNotServed,
    /// There is no selector for this node alone.
    CannotBeSelected(String),
    /// A `CiliumNodeConfig` of this name is somebody else's.
    NodeConfigOfAnother(String),
    /// Somebody else's setting wins over ours: its key and where it stands.
    SettingOfAnother(String),
    /// A block that an undo plan took away is not the node's to have any more.
    CannotBeGivenBack(Block),
    /// The node keeps these blocks, so its port goes on to let them out.
    LetsHeldOut(BTreeSet<IpNet>),
}

impl fmt::Display for BlockedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockedReason::LoadBalancing(obstacle) => obstacle.fmt(f),
            BlockedReason::NeutronUnknown(trouble) => trouble.fmt(f),
            BlockedReason::NoCilium => {
                write!(
                    f,
                    "no cilium-config was seen, so it is not known where Cilium would read a block"
                )
            }
            BlockedReason::ModeOfAnotherAllocator(mode) => {
                write!(
                    f,
                    "Cilium runs with ipam `{mode}`, in which another allocator decides"
                )
            }
            BlockedReason::ModeUnknown(mode) => {
                write!(
                    f,
                    "Cilium runs with the unknown ipam `{}`",
                    mode.escape_debug()
                )
            }
            BlockedReason::PathNotRead(path, mode) => {
                write!(
                    f,
                    "the Policy says `writePath: {path}`, which is not read in ipam `{mode}`"
                )
            }
            BlockedReason::OperatorGives => {
                write!(
                    f,
                    "Cilium's operator hands out blocks itself (ipam `cluster-pool`)"
                )
            }
            BlockedReason::OperatorUnseen => {
                write!(
                    f,
                    "what Cilium's operator does cannot be told (its Deployment was not seen, is being changed, or its ranges are not known), so it may hand out the same block itself"
                )
            }
            BlockedReason::OperatorRefuses(refusal) => {
                write!(f, "Cilium's operator would refuse it: {refusal}")?;
                refusal
                    .holder()
                    .map_or(Ok(()), |holder| write!(f, " (by node {holder})"))
            }
            BlockedReason::OperatorBlockSize(block, mask) => {
                write!(
                    f,
                    "{block} is not of the size that Cilium's operator keeps account of, which is /{mask}"
                )
            }
            BlockedReason::StaleOwner(path) => {
                let kind = if *path == WritePath::CiliumNode {
                    "CiliumNode"
                } else {
                    "CiliumNodeConfig"
                };
                write!(
                    f,
                    "its {kind} belongs to an earlier Node of that name and is about to be collected"
                )
            }
            BlockedReason::InsideOperatorRanges(block) => {
                write!(
                    f,
                    "Cilium's operator skips this node and does not know that {block} is taken, which lies in its ranges"
                )
            }
            BlockedReason::AnnotationNotRead => {
                write!(
                    f,
                    "this Cilium does not read the annotation: annotate-k8s-node is not \"true\""
                )
            }
            BlockedReason::VersionUnknown => write!(
                f,
                "Cilium's version is not known, and annotate-k8s-node is not \"true\": the annotation may not be read"
            ),
            BlockedReason::RivalAllocator => {
                write!(
                    f,
                    "kube-controller-manager runs with --allocate-node-cidrs=true and fills spec.podCIDRs itself"
                )
            }
            BlockedReason::SpecIsWriteOnce(family) => {
                write!(
                    f,
                    "spec.podCIDRs is write-once: {family} cannot be added to it, and the annotation is not read"
                )
            }
            BlockedReason::Unreadable(text) => {
                write!(f, "the node shows a block that cannot be read ({text})")
            }
            BlockedReason::NoIdentity => {
                write!(
                    f,
                    "it has no uid or no resourceVersion, so a write could not be guarded"
                )
            }
            BlockedReason::NoPool => write!(f, "no pool matches its labels"),
            BlockedReason::Exhausted(pools) => {
                let each: Vec<String> = pools
                    .iter()
                    .map(|(pool, why)| format!("{pool} {why}"))
                    .collect();
                write!(f, "no pool can serve it: {}", each.join(", "))
            }
            BlockedReason::FamilyMissing(family) => {
                write!(
                    f,
                    "Cilium has {family} switched on and waits for an {family} block too, which could not be added later"
                )
            }
            BlockedReason::PinFamilyOff(family) => {
                write!(
                    f,
                    "its pin has an {family} block, but Cilium has {family} switched off"
                )
            }
            BlockedReason::HeldTwice(block, node) => {
                write!(f, "it shows {block}, which node {node} shows too")
            }
            BlockedReason::GivenToAnother(block, node) => {
                write!(
                    f,
                    "it shows {block}, which no agent reads, and a part of it goes to node {node}"
                )
            }
            BlockedReason::HeldNotFree(block) => {
                write!(
                    f,
                    "it shows {block}, which overlaps addresses that something else uses"
                )
            }
            BlockedReason::SpokenFor(block, node) => {
                write!(
                    f,
                    "{block} is claimed for node {node} by an apply that has not finished, or rests after that node"
                )
            }
            BlockedReason::PinHeldBy(block, node) => {
                write!(f, "its pinned block {block} is held by node {node}")
            }
            BlockedReason::PinNotFree(block) => {
                write!(
                    f,
                    "its pinned block {block} overlaps addresses that something else uses"
                )
            }
            BlockedReason::PinWouldMove { pinned, held } => {
                write!(
                    f,
                    "it is pinned to {pinned} but holds {held}, and a held block never moves by itself"
                )
            }
            BlockedReason::CannotBeGivenBack(block) => {
                write!(
                    f,
                    "{block} cannot be given back: another has it by now, or no pool gives it"
                )
            }
            BlockedReason::LetsHeldOut(blocks) => {
                let blocks: Vec<String> = blocks.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "it goes on to let {} out, which its node keeps",
                    blocks.join(" ")
                )
            }
            BlockedReason::CannotBeUndone(path, blocks) => {
                let blocks: Vec<String> = blocks.iter().map(ToString::to_string).collect();
                let why = match path {
                    WritePath::NodeSpec | WritePath::NodeAnnotation | WritePath::PodIpPool => {
                        "spec.podCIDRs is write-once"
                    }
                    WritePath::CiliumNode => {
                        "its agent may have started on what its CiliumNode shows"
                    }
                    WritePath::NodeConfig => {
                        "its agent may have started on what its CiliumNodeConfig says"
                    }
                };
                write!(f, "it keeps {}: {why}", blocks.join(" "))
            }
            BlockedReason::PinInMultiPool => {
                write!(
                    f,
                    "in ipam `multi-pool` Cilium's operator picks the blocks of a node, so a pin cannot be kept"
                )
            }
            BlockedReason::PodPoolsNotServed => {
                write!(f, "CiliumPodIPPools are not served (Cilium 1.14 and later)")
            }
            BlockedReason::PodPoolsHidden(why) => {
                write!(f, "what is there cannot be seen: {}", why.escape_debug())
            }
            BlockedReason::PodPoolDisabled => {
                write!(
                    f,
                    "a CiliumPodIPPool cannot be disabled: agents take of it as long as it is there"
                )
            }
            BlockedReason::PodPoolEmpty => write!(
                f,
                "nothing is left of its ranges for the families that are in use"
            ),
            BlockedReason::PodPoolOverlaps(other) => {
                let (block, pool) = &**other;
                write!(
                    f,
                    "CiliumPodIPPool {} has or gave {block} too",
                    pool.escape_debug()
                )
            }
            BlockedReason::PodPoolSize(size) => {
                write!(
                    f,
                    "its blocks have the size {size}, and maskSize of a CiliumPodIPPool cannot be changed"
                )
            }
            BlockedReason::PodPoolInUse(block, node) => {
                write!(
                    f,
                    "node {node} has {block} of it, and would keep it while the operator complains"
                )
            }
            BlockedReason::PodPoolRecut => {
                write!(
                    f,
                    "other CIDRs than further ones would make this operator (before 1.19, or of unknown version) forget what it gave of them"
                )
            }
            BlockedReason::PodPoolChosen(config) => {
                write!(
                    f,
                    "CiliumNodeConfig {} makes it the default of nodes, and is not ours",
                    config.escape_debug()
                )
            }
            BlockedReason::PodPoolTooWide(bits) => {
                write!(
                    f,
                    "Cilium takes no IPv6 CIDR that has more than 2^{bits} blocks"
                )
            }
            BlockedReason::ChosenPoolBlocked(pool) => {
                write!(
                    f,
                    "pool {pool} has to wait, and is not chosen before it is there"
                )
            }
            BlockedReason::ManagedByAnother(owner) => {
                write!(
                    f,
                    "its label app.kubernetes.io/managed-by says that `{}` manages it",
                    owner.escape_debug()
                )
            }
            BlockedReason::PoolsTied(tied) => {
                let (pool, node) = &**tied;
                write!(
                    f,
                    "pool {pool} is as good for node {node}, and Cilium would take the later one by name"
                )
            }
            BlockedReason::DefaultPoolNotRead => {
                write!(
                    f,
                    "ipam-default-ip-pool is read from Cilium 1.15 on, and this is older or of unknown version"
                )
            }
            BlockedReason::UndoneByFiles => write!(f, "it is as the files say"),
            BlockedReason::NodeConfigsNotServed => {
                write!(
                    f,
                    "CiliumNodeConfigs are not served (Cilium 1.13 and later), or its version is not known"
                )
            }
            BlockedReason::CannotBeSelected(why) => {
                write!(
                    f,
                    "no CiliumNodeConfig can select it alone: {}",
                    why.escape_debug()
                )
            }
            BlockedReason::NodeConfigOfAnother(name) => {
                write!(
                    f,
                    "CiliumNodeConfig {} is there already, and somebody else's, or selects other nodes",
                    name.escape_debug()
                )
            }
            BlockedReason::SettingOfAnother(setting) => {
                write!(
                    f,
                    "a CiliumNodeConfig of ours would have no effect: {setting}"
                )
            }
            BlockedReason::PinPoolDisabled(pool) => {
                write!(f, "it is pinned into pool {pool}, which is disabled")
            }
        }
    }
}

impl From<LbObstacle> for BlockedReason {
    fn from(obstacle: LbObstacle) -> BlockedReason {
        BlockedReason::LoadBalancing(Box::new(obstacle))
    }
}

impl BlockedReason {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            BlockedReason::LoadBalancing(obstacle) => obstacle.code(),
            other => other.into(),
        }
    }

    /// What would unblock it.
    pub fn unblock(&self) -> String {
        match self {
            BlockedReason::LoadBalancing(obstacle) => obstacle.unblock(),
            BlockedReason::NeutronUnknown(trouble) => trouble.unblock().into(),
            BlockedReason::NoCilium => "install Cilium first, or include its DaemonSet and ConfigMap in the cluster file".into(),
            BlockedReason::ModeOfAnotherAllocator(_) | BlockedReason::ModeUnknown(_) => "nothing here: this mode does not take blocks from a Node".into(),
            BlockedReason::PathNotRead(..) => "use `writePath: auto`".into(),
            BlockedReason::OperatorGives | BlockedReason::OperatorUnseen => "run the operator with --ipam=kubernetes (Helm: operator.extraArgs) or scale it to zero meanwhile, or, from Cilium 1.18 on, annotate the Node with `ipam.cilium.io/ignore: \"true\"` before its agent starts; or, at the risk that it gives the same block away at the same moment, ask for `writePath: cilium-node` before the node's agent starts".into(),
            BlockedReason::OperatorRefuses(refusal) if refusal.holder().is_some() => "pin a block that is free".into(),
            BlockedReason::OperatorRefuses(_) => "add the pool's `cidrs` to the operator's ranges (cluster-pool-ipv4-cidr, cluster-pool-ipv6-cidr) and restart it, or run it with --ipam=kubernetes".into(),
            BlockedReason::OperatorBlockSize(_, mask) => format!("set the pool's blockSize to {mask}, or run the operator with --ipam=kubernetes"),
            BlockedReason::StaleOwner(_) => "wait until it is collected or its agent makes it its own, and plan again".into(),
            BlockedReason::InsideOperatorRanges(_) => "give the pool addresses outside of the operator's ranges, or take the annotation `ipam.cilium.io/ignore` away".into(),
            BlockedReason::AnnotationNotRead => "set `annotate-k8s-node: \"true\"` in cilium-config (Helm: annotateK8sNode=true), or use `writePath: auto`".into(),
            BlockedReason::VersionUnknown => "set `annotate-k8s-node: \"true\"` in cilium-config, or use `writePath: auto`".into(),
            BlockedReason::RivalAllocator => "run kube-controller-manager with --allocate-node-cidrs=false".into(),
            BlockedReason::SpecIsWriteOnce(_) => "set `annotate-k8s-node: \"true\"` in cilium-config, or re-create the Node with both families".into(),
            BlockedReason::Unreadable(_) => "mend the field by hand; until then nothing is known about what the node holds".into(),
            BlockedReason::NoIdentity => "take the cluster file with `kubectl get … -o json` or `cilium-ipam snapshot`".into(),
            BlockedReason::NoPool => "label the node, widen a pool's nodeSelector, or add a pool without one as a fallback".into(),
            BlockedReason::Exhausted(_) => "widen or enable one of them, or add a further pool that matches".into(),
            BlockedReason::FamilyMissing(family) => {
                format!("give its pool {family} `cidrs` and a block size, or switch {family} off in cilium-config")
            }
            BlockedReason::PinFamilyOff(family) => format!("switch {family} on in cilium-config, or take the block out of the pin"),
            BlockedReason::HeldTwice(..) => "find out which of the two has pods in it, and clear the field of the other one".into(),
            BlockedReason::GivenToAnother(..) => "clear the field, and the node gets a block of its pool; if its Pods have addresses of it, reserve the block in its pool first".into(),
            BlockedReason::HeldNotFree(_) => "clear the field, and the node gets a block of its pool".into(),
            BlockedReason::SpokenFor(..) => "wait for the other apply, or until the block has rested (`quarantine` in the Policy), and plan again".into(),
            BlockedReason::PinHeldBy(_, node) => format!("pin another block, or free it by removing node {node}"),
            BlockedReason::PinNotFree(_) => "pin a block that is free".into(),
            BlockedReason::PinWouldMove { .. } => "ask for `writePath: node-config`, which moves it by a setting of Cilium (ipam `kubernetes`, 1.13 and later); or drain the node and re-create its Node object, or pin the block that it holds".into(),
            BlockedReason::CannotBeGivenBack(_) => "plan from the files, and the node gets a block of its pool".into(),
            BlockedReason::LetsHeldOut(..) => "take the block from the node first, and the next plan closes the port to it".into(),
            BlockedReason::CannotBeUndone(WritePath::NodeConfig, _) => "drain the node, delete its CiliumNodeConfig `cilium-ipam-NODE`, and restart its agent".into(),
            BlockedReason::CannotBeUndone(WritePath::CiliumNode, _) => "drain the node, delete its CiliumNode, and restart its agent".into(),
            BlockedReason::CannotBeUndone(..) => "drain the node and re-create its Node object".into(),
            BlockedReason::PinInMultiPool => "make a pool for this node alone, with a nodeSelector on its kubernetes.io/hostname".into(),
            BlockedReason::PodPoolsNotServed => "let Cilium's operator install its CRDs first".into(),
            BlockedReason::PodPoolsHidden(_) => "allow `list` on ciliumpodippools and ciliumnodeconfigs".into(),
            BlockedReason::PodPoolDisabled => "take its file away once no node has a block of it".into(),
            BlockedReason::PodPoolEmpty => "widen the pool, or take something off `reserved` and `excluded`".into(),
            BlockedReason::PodPoolOverlaps(other) => format!("take the CIDR out of one of them; `kubectl get ciliumpodippool {} -o yaml`", other.1.escape_debug()),
            BlockedReason::PodPoolSize(size) => format!("keep blockSize {size}, or make another pool for it"),
            BlockedReason::PodPoolInUse(_, node) => format!("drain node {node}, delete its CiliumNode and restart its agent, or leave the CIDR in the pool"),
            BlockedReason::PodPoolRecut => "append CIDRs only; or stop the operator, drain the pool's nodes and delete their CiliumNodes before, as Cilium's guide for multi-pool has it".into(),
            BlockedReason::PodPoolChosen(_) => "take that one away first".into(),
            BlockedReason::PodPoolTooWide(_) => "write narrower `cidrs`, or a smaller prefix length as blockSize".into(),
            BlockedReason::ChosenPoolBlocked(_) => "see there".into(),
            BlockedReason::ManagedByAnother(_) => "take it away there, or remove the label".into(),
            BlockedReason::PoolsTied(..) => "give one of them a higher `priority`".into(),
            BlockedReason::DefaultPoolNotRead => "upgrade Cilium, or make its version visible (see `doctor`)".into(),
            BlockedReason::UndoneByFiles => "take the change of the files back, and apply".into(),
            BlockedReason::NodeConfigsNotServed => "install Cilium's CRDs of 1.13 or later, or drain the node and re-create its Node object".into(),
            BlockedReason::CannotBeSelected(_) => "give the node a label kubernetes.io/hostname of its own".into(),
            BlockedReason::NodeConfigOfAnother(name) => format!("delete the CiliumNodeConfig {}, if nobody needs it", name.escape_debug()),
            BlockedReason::SettingOfAnother(..) => "take it away there".into(),
            BlockedReason::PinPoolDisabled(_) => "enable the pool, or pin a block of another pool".into(),
        }
    }
}
