//! Blocked changes: why each must wait, and what unblocks it. Decides nothing; a reason is only
//! data with a stable code and two texts.
//!
//! The two texts of a blocked change.

mod node;
mod pod_pool;

use std::fmt;

use strum::{IntoStaticStr, VariantNames};

use super::change::Target;
use super::lb::LbObstacle;
use crate::openstack::{SubnetOverlap, UnresolvedSubnet};
use ipam_cilium::observed::CiliumKind;
use ipam_core::model::{OWNER_LABEL, Origin};
use ipam_core::net::Family;

pub use node::{NodeConfigObstacle, NodeObstacle, PinObstacle, WritePathObstacle};
pub use pod_pool::{OperatorObstacle, PodPoolObstacle, UndoObstacle};

/// A wanted change that must wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The object of the change.
    pub target: Target,
    pub reason: BlockedReason,
    /// The pin or the pool in the files.
    pub origin: Option<Origin>,
}

/// Declares [`BlockedReason`]: one variant for each enum of obstacles. An obstacle has a code and
/// an explanation of its own.
macro_rules! obstacles {
    ($($(#[$doc:meta])* $variant:ident($obstacle:ident),)*) => {
        /// Why a change must wait.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum BlockedReason {
            $($(#[$doc])* $variant($obstacle),)*
        }

        $(impl From<$obstacle> for BlockedReason {
            fn from(obstacle: $obstacle) -> BlockedReason {
                BlockedReason::$variant(obstacle)
            }
        })*

        impl BlockedReason {
            /// Stable code of the reason, in kebab case.
            pub fn code(&self) -> &'static str {
                match self {
                    $(BlockedReason::$variant(obstacle) => obstacle.into(),)*
                }
            }

            /// The reason and the fix.
            pub(super) fn explain(&self) -> Explanation {
                match self {
                    $(BlockedReason::$variant(obstacle) => obstacle.explain(),)*
                }
            }
        }

        /// Every code of a blocked change.
        pub(super) fn codes() -> impl Iterator<Item = &'static str> {
            [$($obstacle::VARIANTS),*].into_iter().flatten().copied()
        }
    };
}

obstacles! {
    /// The write path cannot be used.
    WritePath(WritePathObstacle),
    /// Cilium's operator is in the way.
    Operator(OperatorObstacle),
    /// The node cannot get or keep its blocks.
    Node(NodeObstacle),
    /// The pin of a node cannot be fulfilled.
    Pin(PinObstacle),
    /// A `CiliumPodIPPool` cannot be written.
    PodPool(PodPoolObstacle),
    /// A `CiliumNodeConfig` cannot be written.
    NodeConfig(NodeConfigObstacle),
    /// An earlier apply cannot be undone.
    Undo(UndoObstacle),
    /// LoadBalancer addresses cannot be assigned as requested in the files.
    LoadBalancing(LbObstacle),
    /// Something that objects of several kinds depend on is missing or in the way.
    Common(CommonObstacle),
}

/// What stops changes of several kinds of objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum CommonObstacle {
    /// The addresses of a Neutron subnet are unknown, so no block is known to be free.
    NeutronUnknown(Box<UnresolvedSubnet>),
    /// The block would overlap a Neutron subnet, or a better pool is full because of one. The
    /// overlap in one sentence.
    NeutronOverlap(String),
    /// `cilium-config` was not found.
    NoCilium,
    /// A pod-CIDR field of the object is no CIDR.
    PodCidrUnreadable(String),
    /// The object has no UID or resourceVersion to guard a write with.
    MissingUid,
    /// Cilium waits for a block of this family too, and it could not be added to spec later.
    FamilyMissing(Family),
    /// The label of the object names another owner.
    ManagedByOther(String),
    /// The API server would drop fields of the write.
    FieldsNotKept(Box<NotKept>),
}

/// What the API server does not keep of a write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotKept {
    pub kind: CiliumKind,
    /// The version of the write, such as `cilium.io/v2`.
    pub api: String,
    /// Fields that its schema lacks; none if the version is not served.
    pub fields: Vec<String>,
}

impl NotKept {
    fn explain(&self) -> Explanation {
        let NotKept { kind, api, fields } = self;
        let reason = match fields.is_empty() {
            true => format!("the API server does not serve {kind} in {api}"),
            false => format!(
                "the API server would drop {}: {kind} in {api} has no such field",
                fields.join(", ").escape_debug()
            ),
        };
        Explanation::new(
            reason,
            format!(
                "install the CustomResourceDefinitions of the Cilium that runs: its operator does when it starts; `kubectl get crd {kind}.cilium.io -o yaml` shows the present one"
            ),
        )
    }
}

impl BlockedReason {
    /// Whether the addresses of a Neutron subnet are unknown.
    pub fn is_neutron_unknown(&self) -> bool {
        matches!(
            self,
            BlockedReason::Common(CommonObstacle::NeutronUnknown(_))
        )
    }

    /// What would unblock the change: a sentence for people.
    pub fn unblock(&self) -> String {
        self.explain().unblock
    }
}

impl CommonObstacle {
    fn explain(&self) -> Explanation {
        match self {
            CommonObstacle::NeutronUnknown(subnet) => {
                Explanation::new(subnet.to_string(), subnet.help())
            }
            CommonObstacle::NeutronOverlap(overlap) => {
                Explanation::new(overlap.clone(), SubnetOverlap::HELP)
            }
            CommonObstacle::FieldsNotKept(not_kept) => not_kept.explain(),
            CommonObstacle::NoCilium => Explanation::new(
                "no cilium-config was found, so the field that Cilium reads is unknown",
                "install Cilium first, pass --cilium-namespace if it runs elsewhere, or include its DaemonSet and ConfigMap in the cluster file",
            ),
            CommonObstacle::PodCidrUnreadable(text) => Explanation::new(
                format!("it shows a block that cannot be read ({text})"),
                "fix the field by hand; until then the blocks that it holds are unknown",
            ),
            CommonObstacle::MissingUid => Explanation::new(
                "it has no uid or no resourceVersion, so a write could not be guarded",
                "take the cluster file with `kubectl get … -o json` or `cilium-ipam snapshot`",
            ),
            CommonObstacle::FamilyMissing(family) => Explanation::new(
                format!(
                    "Cilium has {family} switched on and waits for an {family} block too, which could not be added later"
                ),
                format!(
                    "give its pool {family} `cidrs` and a block size, or switch {family} off in cilium-config"
                ),
            ),
            CommonObstacle::ManagedByOther(owner) => Explanation::new(
                format!(
                    "its label {} names another manager: `{}`",
                    OWNER_LABEL.0,
                    owner.escape_debug()
                ),
                "remove it from that manager and remove the label, or remove it from these files",
            ),
        }
    }
}

impl fmt::Display for BlockedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.explain().reason)
    }
}

impl From<UnresolvedSubnet> for BlockedReason {
    fn from(subnet: UnresolvedSubnet) -> BlockedReason {
        CommonObstacle::NeutronUnknown(Box::new(subnet)).into()
    }
}

/// Why a change must wait, and what unblocks it.
pub(in crate::plan) struct Explanation {
    pub(in crate::plan) reason: String,
    pub(in crate::plan) unblock: String,
}

impl Explanation {
    pub(in crate::plan) fn new(
        reason: impl Into<String>,
        unblock: impl Into<String>,
    ) -> Explanation {
        Explanation {
            reason: reason.into(),
            unblock: unblock.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_stay() {
        let mut codes: Vec<&str> = codes().collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(
            codes,
            [
                "annotation-not-read",
                "another-controller",
                "block-claimed-or-quarantined",
                "block-split-conflict",
                "cannot-be-given-back",
                "cannot-be-selected",
                "cannot-be-undone",
                "chosen-pool-blocked",
                "config-conflict",
                "default-pool-not-read",
                "duplicate-block",
                "family-missing",
                "fields-not-kept",
                "held-not-free",
                "inside-operator-ranges",
                "lb-ipam-disabled",
                "managed-by-other",
                "migrating",
                "missing-uid",
                "mode-unknown",
                "neutron-overlap",
                "neutron-unknown",
                "no-cilium",
                "no-pool",
                "node-config-not-managed",
                "node-configs-not-served",
                "node-pools-exhausted",
                "not-served",
                "operator-allocates",
                "operator-block-size",
                "operator-refuses",
                "operator-unseen",
                "other-allocator",
                "outside-pools",
                "pin-family-off",
                "pin-held-by",
                "pin-in-multi-pool",
                "pin-not-free",
                "pin-pool-disabled",
                "pin-would-move",
                "pod-cidr-unreadable",
                "pod-pool-chosen",
                "pod-pool-cidr-change-unsupported",
                "pod-pool-disabled",
                "pod-pool-empty",
                "pod-pool-in-use",
                "pod-pool-overlaps",
                "pod-pool-reserved",
                "pod-pool-size",
                "pod-pool-too-wide",
                "pod-pools-hidden",
                "pod-pools-not-served",
                "pool-field-not-read",
                "pool-gives-none",
                "pool-range-in-use",
                "pools-hidden",
                "pools-tied",
                "service-address-held",
                "service-no-free-address",
                "service-no-pool",
                "services-hidden",
                "spec-is-write-once",
                "spec-requests-other-address",
                "stale-owner",
                "undo-agent-started",
                "undo-not-ours",
                "undo-operator-keeps",
                "unsupported-ipam-mode",
                "version-unknown",
                "write-path-not-read",
            ]
        );
    }

    #[test]
    fn each_reason_uses_the_code_of_its_family() {
        let block = "10.0.0.0/24".parse().unwrap();
        let code = |reason: BlockedReason| reason.code();
        assert_eq!(code(PinObstacle::NotFree(block).into()), "pin-not-free");
        assert_eq!(code(CommonObstacle::NoCilium.into()), "no-cilium");
        assert_eq!(
            code(NodeObstacle::Claimed(block, "n".parse().unwrap()).into()),
            "block-claimed-or-quarantined"
        );
        assert_eq!(code(LbObstacle::NotServed.into()), "not-served");
    }
}
