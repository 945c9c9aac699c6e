//! Infers files for a cluster that runs already, so that a plan from them is empty and no block is
//! misplaced.
//!
//! Decides from the observed cluster, and from trial plans what to amend. Never reads or writes a
//! file, and knows no format.

mod amend;
mod evidence;
pub mod foreign;
mod node_pools;
mod pod_pools;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::proposal::{Remark, held};
use ipam_cilium::lbipam::{AddressPoolApi, AddressPoolManifest, ServedAddress};
use ipam_cilium::observed::{Allocator, ModeSeen, Observed, setting_key};
use ipam_core::model::{
    IpamMode, NodeName, PerFamily, PoolName, Selector, ServiceName, WritePath, WritePathChoice,
};
use ipam_core::net::{Block, BlockSize};
use ipam_desired::{Policy, PoolState};
use ipam_plan::allocators::{OtherAllocator, described, fix, reads_nodes};

pub use amend::{Judgement, judge};
pub use evidence::{Evidence, RangeSource};

/// What a person wants.
#[derive(Clone, Debug, Default)]
pub struct ImportRequest {
    pub by_label: ByLabel,
    pub objects: Objects,
    pub changes: Changes,
}

/// How nodes are divided into pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ByLabel {
    /// By a label whose values separate the held blocks, if there is one.
    #[default]
    Found,
    /// All nodes are in one pool.
    None,
    /// A pool for each value of this node label.
    Key(String),
}

/// What becomes of pools of the cluster that carry no owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objects {
    /// The pools stay unmanaged.
    #[default]
    Left,
    /// The first apply writes the ownership label.
    Adopted,
}

/// Whether the plan of the files may have changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Changes {
    #[default]
    Refused,
    Allowed,
}

/// The inferred files of a directory, as plain data.
#[derive(Clone, Debug, Default)]
pub struct Inferred {
    /// Inferred `IPPool`s, sorted by name.
    pub pools: Vec<InferredPool>,
    pub pins: BTreeMap<NodeName, InferredPin>,
    /// Nodes whose block no files keep. They have no pin.
    pub broken: BTreeMap<NodeName, BrokenNode>,
    /// Number of Services with an address of LB-IPAM.
    pub served_services: usize,
    /// Services with hostnames that LB-IPAM removes, sorted.
    pub hostnames: Vec<(ServiceName, ServedAddress)>,
    /// Inferred `CiliumLoadBalancerIPPool`s, sorted by name.
    pub address_pools: Vec<InferredAddressPool>,
    pub write_path: InferredWritePath,
    /// CIDRs that are not private address space.
    pub public: Vec<Block>,
    pub remarks: Vec<Remark>,
}

/// An inferred `IPPool`.
#[derive(Clone, Debug)]
pub struct InferredPool {
    pub name: PoolName,
    /// In the order of use. Not empty.
    pub cidrs: Vec<Block>,
    /// A size for each family of the CIDRs.
    pub sizes: PerFamily<BlockSize>,
    pub selector: Selector,
    pub priority: i32,
    pub state: PoolState,
    pub evidence: Evidence,
}

/// An inferred `NodeAssignment`.
#[derive(Clone, Debug)]
pub struct InferredPin {
    pub pool: PoolName,
    pub blocks: PerFamily<Block>,
    pub reason: PinReason,
}

/// Why the files cannot keep a node's block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenNode {
    /// The node's block that a plan of the files would not assign to it.
    pub block: Option<Block>,
    /// The reason, and what to do.
    pub why: String,
}

/// Why a node is pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinReason {
    /// Most nodes hold blocks of another size than this node.
    UnusualSize,
    /// Without the pin, the block would be misplaced for this reason.
    Misplaced(String),
}

/// A `CiliumLoadBalancerIPPool`, without the fields that the server sets.
#[derive(Clone, Debug)]
pub struct InferredAddressPool {
    pub name: String,
    pub api: AddressPoolApi,
    pub manifest: AddressPoolManifest,
    pub use_of: ManifestUse,
}

/// Whether the files declare an object of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestUse {
    Declared,
    /// The object carries no owner, and stands in a comment, which changes nothing.
    Commented,
}

/// The Policy's write path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InferredWritePath {
    /// The write path in use; `None` if the IPAM mode is unknown.
    pub used: Option<WritePath>,
    pub choice: WritePathChoice,
}

/// Why nothing can be inferred.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    #[error(
        "no node has a block, and no setting names a range of Pods: `cilium-ipam init` proposes pools for a new cluster"
    )]
    NothingToImport,
    #[error(
        "the cluster has pools of LoadBalancers alone, and none has an owner, so the files would declare nothing: pass --adopt to take these pools over"
    )]
    NothingOwned,
    /// No node has the label; labels that divide the nodes.
    #[error("no node has the label `{}`: {}", .0.escape_debug(), other_labels(.1))]
    UnknownLabel(String, Vec<String>),
    /// No file can express any pool of the cluster: the first name and why.
    #[error("CiliumPodIPPool `{}` {}", .0.escape_debug(), .1)]
    Inexpressible(String, String),
}

fn other_labels(labels: &[String]) -> String {
    match labels.is_empty() {
        true => "omit --by-label".to_owned(),
        false => format!(
            "use one that divides the nodes, such as {}",
            labels.join(", ")
        ),
    }
}

/// Infers the files for a cluster.
///
/// # Errors
/// Fails if the cluster shows neither blocks nor ranges, or no node has the wished label.
pub fn infer(observed: &Observed, request: &ImportRequest) -> Result<Inferred, Obstacle> {
    let mut inferred = match of_nodes(observed, request) {
        // LoadBalancer pools work in every mode.
        Err(Obstacle::NothingToImport) if !observed.address_pools.is_empty() => Inferred::default(),
        inferred => inferred?,
    };
    inferred.pools.sort_by(|a, b| a.name.cmp(&b.name));
    separate_overlapping(&mut inferred);
    inferred.write_path = pod_pools::infer_write_path(observed);
    if let Some(allocator) = active_allocator(observed) {
        let remark = Remark::AssignsItself {
            does: described(allocator),
            fix: fix(allocator),
        };
        inferred.remarks.insert(0, remark);
    }
    let setting = observed.common_setting(setting_key::IPAM);
    if setting.is_some_and(|setting| setting.value == IpamMode::V2BETA) {
        inferred.remarks.insert(0, Remark::SeveralBlocks);
    }
    let chained = observed.chaining_mode();
    let chained = chained.map(|mode| Remark::Chained(mode.to_owned()));
    inferred.remarks.extend(chained);
    pod_pools::infer_services(observed, request, &mut inferred);
    let is_declared = |pool: &InferredAddressPool| pool.use_of == ManifestUse::Declared;
    if inferred.pools.is_empty() && !inferred.address_pools.iter().any(is_declared) {
        return Err(Obstacle::NothingOwned);
    }
    Ok(inferred)
}

/// The other program that assigns pod CIDRs to new nodes.
fn active_allocator(observed: &Observed) -> Option<&Arc<Allocator>> {
    let allocator = OtherAllocator::of(observed, &Policy::default()).active();
    allocator.filter(|_| reads_nodes(observed))
}

fn of_nodes(observed: &Observed, request: &ImportRequest) -> Result<Inferred, Obstacle> {
    match observed.cilium.mode() {
        ModeSeen::Known(IpamMode::MultiPool) => pod_pools::infer(observed, request),
        ModeSeen::Known(IpamMode::Kubernetes | IpamMode::ClusterPool) | ModeSeen::NoSettings => {
            node_pools::infer(observed, request)
        }
        ModeSeen::Known(_) | ModeSeen::Unknown(_) => Err(Obstacle::NothingToImport),
    }
}

/// Nodes whose blocks overlap those of other nodes are broken: no pool has both.
fn separate_overlapping(inferred: &mut Inferred) {
    let remarks = std::mem::take(&mut inferred.remarks);
    for remark in remarks {
        match remark {
            Remark::Overlapping(node, block) => {
                let broken = BrokenNode {
                    block: Some(block),
                    why: "another node holds an overlapping block; drain one of the two and give it another block".to_owned(),
                };
                inferred.pins.remove(&node);
                inferred.broken.insert(node, broken);
            }
            other => inferred.remarks.push(other),
        }
    }
}

/// Blocks that several nodes hold. Files can pin a block for one node only, and the others would be
/// misplaced.
fn shared_blocks(observed: &Observed) -> BTreeSet<Block> {
    let mut seen = BTreeSet::new();
    let held = held(observed).map(|(_, block)| block);
    held.filter(|block| !seen.insert(*block)).collect()
}
