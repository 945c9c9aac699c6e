//! Where a block is written: the field that the running Cilium reads, or the reason why there is none.
//!
//! Rules: ParseNode (`pkg/k8s/node.go`, Cilium 1.9 to 1.20) prefers `spec.podCIDRs` and reads annotations only for a
//! family that spec leaves empty; the API server accepts `spec.podCIDRs` only while it is empty
//! (`pkg/apis/core/validation/validation.go` ValidateNodeUpdate @ 1.36).

use std::collections::BTreeMap;

use super::blocked::BlockedReason;
use super::change::Edit;
use crate::model::{IpamMode, PerFamily, WritePath, WritePathChoice};
use crate::net::{Block, Family};
use crate::observed::{
    ANNOTATION_IPV4, ANNOTATION_IPV6, AnnotationKeys, AnnotationReads, FamilyUse, Holding, ModeSeen, Node,
    NodeCidrAllocation, OLD_ANNOTATION_IPV4, OLD_ANNOTATION_IPV6, Observed, Reading,
};

/// What holds for every node of the cluster.
pub(super) struct Paths {
    mode: Result<(), BlockedReason>,
    choice: WritePathChoice,
    annotation: AnnotationReads,
    rival: NodeCidrAllocation,
    primary: Family,
    /// Families that an agent waits for.
    required: Vec<Family>,
}

/// What to do so that Cilium reads a node's blocks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// It reads them already.
    AlreadyRead,
    /// This write.
    Write(Edit),
}

impl Paths {
    pub(super) fn new(observed: &Observed, choice: WritePathChoice) -> Paths {
        let is_required = |family: &Family| observed.cilium.use_of(*family) == FamilyUse::Required;
        Paths {
            mode: served(&observed.cilium.mode()),
            choice,
            annotation: observed.cilium.annotation_reads(),
            rival: observed.controller_manager,
            primary: observed.primary_family.unwrap_or(Family::Ipv4),
            required: Family::BOTH.into_iter().filter(is_required).collect(),
        }
    }

    /// How the node comes to show `blocks`, which must include everything that it holds of a family that is in use.
    pub(super) fn route(
        &self,
        node: &Node,
        held: &PerFamily<Holding>,
        blocks: &PerFamily<Block>,
    ) -> Result<Route, BlockedReason> {
        self.mode.clone()?;
        let is_read = |block: &Block| held.get(block.family()).is_some_and(|holding| holding.reading == Reading::Read);
        let unread: Vec<Block> = blocks.iter().filter(|block| !is_read(block)).copied().collect();
        let Some(first) = unread.first() else { return Ok(Route::AlreadyRead) };
        if !node.spec.is_empty() {
            return match self.annotation {
                AnnotationReads::Yes(keys) => Ok(Route::Write(annotate(&unread, keys))),
                _ => Err(BlockedReason::SpecIsWriteOnce(first.family())),
            };
        }
        match self.choice {
            WritePathChoice::Auto | WritePathChoice::Forced(WritePath::NodeSpec) => self.write_spec(blocks),
            WritePathChoice::Forced(WritePath::NodeAnnotation) => self.write_annotation(&unread),
        }
    }

    fn write_spec(&self, blocks: &PerFamily<Block>) -> Result<Route, BlockedReason> {
        if self.rival == NodeCidrAllocation::On {
            return Err(BlockedReason::RivalAllocator);
        }
        if let Some(family) = self.required.iter().find(|family| blocks.get(**family).is_none()) {
            return Err(BlockedReason::FamilyMissing(*family));
        }
        let mut pod_cidrs: Vec<Block> = blocks.iter().copied().collect();
        pod_cidrs.sort_by_key(|block| block.family() != self.primary);
        Ok(Route::Write(Edit::NodeSpec { pod_cidrs }))
    }

    fn write_annotation(&self, blocks: &[Block]) -> Result<Route, BlockedReason> {
        match self.annotation {
            // kube-controller-manager would fill spec, and spec hides the annotation.
            _ if self.rival == NodeCidrAllocation::On => Err(BlockedReason::RivalAllocator),
            AnnotationReads::Yes(keys) => Ok(Route::Write(annotate(blocks, keys))),
            AnnotationReads::GateClosed => Err(BlockedReason::AnnotationNotRead),
            AnnotationReads::VersionUnknown => Err(BlockedReason::VersionUnknown),
        }
    }
}

fn served(mode: &ModeSeen) -> Result<(), BlockedReason> {
    match mode {
        ModeSeen::Known(IpamMode::Kubernetes) => Ok(()),
        ModeSeen::Known(mode @ (IpamMode::ClusterPool | IpamMode::MultiPool)) => {
            Err(BlockedReason::ModeNotServed(*mode))
        }
        ModeSeen::Known(mode) => Err(BlockedReason::ModeOfAnotherAllocator(*mode)),
        ModeSeen::Unknown(text) => Err(BlockedReason::ModeUnknown(text.clone())),
        ModeSeen::NoSettings => Err(BlockedReason::NoCilium),
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
