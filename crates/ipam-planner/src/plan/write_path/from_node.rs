//! Ipam `kubernetes`: agents read the Node.
//!
//! Rules: ParseNode (`pkg/k8s/node.go`, Cilium 1.9 to 1.20) prefers `spec.podCIDRs` and reads
//! annotations only for a family that spec leaves empty; the API server accepts `spec.podCIDRs`
//! only while it is empty (`pkg/apis/core/validation/validation.go` ValidateNodeUpdate @ 1.36).

use std::collections::BTreeMap;

use super::super::blocked::{BlockedReason, WritePathObstacle};
use super::super::change::Edit;
use super::{NodeField, Paths};
use ipam_cilium::observed::{
    ANNOTATION_IPV4, ANNOTATION_IPV6, AnnotationKeys, AnnotationReads, Node, OLD_ANNOTATION_IPV4,
    OLD_ANNOTATION_IPV6,
};
use ipam_core::model::PerFamily;
use ipam_core::net::{Block, Family};

impl Paths<'_> {
    pub(super) fn on_node(
        &self,
        node: &Node,
        field: NodeField,
        blocks: &PerFamily<Block>,
        unread: &[Block],
    ) -> Result<Edit, BlockedReason> {
        let reads = self.observed.annotation_reads(node);
        if let Some(first) = unread.first().filter(|_| !node.spec.is_empty()) {
            return match reads {
                AnnotationReads::Yes(keys) => Ok(annotate(unread, keys)),
                _ => Err(BlockedReason::WritePath(
                    WritePathObstacle::SpecIsWriteOnce(first.family()),
                )),
            };
        }
        // It would fill spec, and spec hides the annotation.
        if let Some(rival) = self.rival {
            let obstacle = WritePathObstacle::OtherAllocator(rival.clone());
            return Err(BlockedReason::WritePath(obstacle));
        }
        match (field, reads) {
            (NodeField::Spec, _) => Ok(Edit::NodeSpec {
                pod_cidrs: self.all_families(blocks)?,
            }),
            (NodeField::Annotation, AnnotationReads::Yes(keys)) => Ok(annotate(unread, keys)),
            (NodeField::Annotation, AnnotationReads::GateClosed) => Err(BlockedReason::WritePath(
                WritePathObstacle::AnnotationNotRead,
            )),
            (NodeField::Annotation, AnnotationReads::VersionUnknown) => {
                Err(BlockedReason::WritePath(WritePathObstacle::VersionUnknown))
            }
        }
    }
}

fn annotate(blocks: &[Block], keys: AnnotationKeys) -> Edit {
    let mut values = BTreeMap::new();
    for block in blocks {
        let (newer, older) = match block.family() {
            Family::Ipv4 => (ANNOTATION_IPV4, OLD_ANNOTATION_IPV4),
            Family::Ipv6 => (ANNOTATION_IPV6, OLD_ANNOTATION_IPV6),
        };
        values.insert(older, Some(*block));
        if keys == AnnotationKeys::Both {
            values.insert(newer, Some(*block));
        }
    }
    Edit::NodeAnnotations { values }
}
