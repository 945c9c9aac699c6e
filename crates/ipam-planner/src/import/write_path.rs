//! The write path in use.

use super::InferredWritePath;
use ipam_cilium::observed::{BlockAllocator, HoldingField, ModeSeen, Observed, Reading};
use ipam_core::model::{IpamMode, WritePath, WritePathChoice};

pub(super) fn infer(observed: &Observed) -> InferredWritePath {
    let ModeSeen::Known(mode) = observed.cilium.mode() else {
        return InferredWritePath::default();
    };
    let forced = |path| InferredWritePath {
        used: Some(path),
        choice: WritePathChoice::Forced(path),
    };
    match mode {
        IpamMode::Kubernetes => forced(of_nodes(observed)),
        IpamMode::MultiPool => forced(WritePath::PodIpPool),
        IpamMode::ClusterPool => {
            let is_external = |node| observed.block_allocator(node) == BlockAllocator::External;
            match observed.nodes.values().all(|node| is_external(node)) {
                true => forced(WritePath::CiliumNode),
                // By its name, this path is used even beside an operator that allocates.
                false => InferredWritePath {
                    used: Some(WritePath::CiliumNode),
                    choice: WritePathChoice::Auto,
                },
            }
        }
        _ => InferredWritePath::default(),
    }
}

/// In ipam `kubernetes`: the field from which agents read the blocks that nodes hold.
fn of_nodes(observed: &Observed) -> WritePath {
    let held = observed.nodes.values().flat_map(|node| {
        let held = observed.holds(node);
        held.iter().copied().collect::<Vec<_>>()
    });
    let read: Vec<HoldingField> = held
        .filter(|holding| holding.reading == Reading::Read)
        .map(|holding| holding.field)
        .collect();
    let is_annotation = |field: &HoldingField| {
        matches!(
            field,
            HoldingField::Annotation | HoldingField::OldAnnotation
        )
    };
    if read.contains(&HoldingField::Setting) {
        WritePath::NodeConfig
    } else if !read.is_empty() && read.iter().all(is_annotation) {
        WritePath::NodeAnnotation
    } else {
        WritePath::NodeSpec
    }
}
