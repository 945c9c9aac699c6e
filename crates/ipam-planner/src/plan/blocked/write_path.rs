//! Obstacles of a write path: this Cilium does not read the field, or the field cannot be written.

use std::sync::Arc;

use strum::{IntoStaticStr, VariantNames};

use super::Explanation;
use crate::allocators::{described, fix};
use ipam_cilium::observed::Allocator;
use ipam_core::model::{IpamMode, WritePath};
use ipam_core::net::Family;

/// Why no field that this Cilium reads can be written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum WritePathObstacle {
    /// An IPAM mode in which another component allocates, by design.
    UnsupportedIpamMode(IpamMode),
    /// An unknown IPAM mode.
    ModeUnknown(String),
    /// A write path that is not read in this IPAM mode.
    WritePathNotRead(WritePath, IpamMode),
    /// The object belongs to a deleted Node of that name, and is collected soon.
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
                    "Cilium runs with the unknown ipam `{}`",
                    mode.escape_debug()
                ),
                OTHER_MODE,
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
