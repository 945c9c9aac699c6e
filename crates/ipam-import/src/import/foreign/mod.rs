//! Reads the pools of other address managers: Calico, MetalLB and node-ipam-controller. Nothing is
//! renumbered, and everything that is inferred or left out has a remark.
//!
//! Pure functions of parsed objects. They know neither YAML nor clients; only `object` knows the
//! cluster.

mod calico;
mod calico_blocks;
mod calico_pool;
mod calico_selector;
mod metallb;
mod metallb_announcing;
mod metallb_controller;
mod metallb_peers;
mod metallb_pool;
mod node_ipam;
mod object;
mod services;

use serde_json::Value;

use ipam_cilium::lbipam::AddressPoolManifest;
use ipam_core::model::{
    AddressPoolName, NodeName, Operator, PerFamily, PoolName, Requirement, Selector, ServiceName,
    first_of,
};
use ipam_core::net::{Address, Block, BlockSize, Range};
use ipam_desired::PoolState;

pub use calico::calico;
pub use metallb::{config_text, legacy_config, metallb};
pub use node_ipam::node_ipam_controller;
pub use object::{Amended, Remark, RemarkKind, RemarkName};

/// Label of nodes that may use an imported pool which selects no nodes by itself. Its value is the
/// name of the pool.
pub const POOL_LABEL: &str = "cilium-ipam.io/pool";

/// Label of Services that may use an imported address pool which gives no addresses by itself. Its
/// value is the name of the pool.
pub const ADDRESS_POOL_LABEL: &str = "cilium-ipam.io/address-pool";

/// What another address manager has.
#[derive(Clone, Debug, Default)]
pub struct ForeignPools {
    /// Sorted by name. Their CIDRs do not overlap.
    pub pools: Vec<ForeignPool>,
    /// Sorted by node. Each block lies in its pool and has its size.
    pub pins: Vec<ForeignPin>,
    /// `CiliumLoadBalancerIPPool`s, sorted by name.
    pub address_pools: Vec<ForeignAddressPool>,
    /// Pins of Services, sorted by Service.
    pub service_pins: Vec<ForeignServicePin>,
    /// Objects of Cilium that no directory of pools can have, such as `CiliumL2AnnouncementPolicy`.
    pub announcements: Vec<Announcement>,
    /// Remarks on no pool and no pin.
    pub remarks: Vec<Remark>,
}

/// An `IPPool` that replaces a pool of another address manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignPool {
    pub name: PoolName,
    /// In the order of use. Not empty.
    pub cidrs: Vec<Block>,
    /// A size for each family of the CIDRs.
    pub block_size: PerFamily<BlockSize>,
    pub selector: Selector,
    pub priority: i32,
    /// Parts of the CIDRs that only pins may use.
    pub reserved: Vec<Range>,
    pub state: PoolState,
    pub remarks: Vec<Remark>,
}

/// A `NodeAssignment` for a block of another address manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignPin {
    pub node: NodeName,
    pub pool: PoolName,
    pub blocks: PerFamily<Block>,
    pub remarks: Vec<Remark>,
}

/// A `CiliumLoadBalancerIPPool` that replaces a pool of another address manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignAddressPool {
    pub name: AddressPoolName,
    pub manifest: AddressPoolManifest,
    pub remarks: Vec<Remark>,
}

/// A `ServiceAssignment` for addresses of another address manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignServicePin {
    pub service: ServiceName,
    pub addresses: Vec<Address>,
    pub remarks: Vec<Remark>,
}

/// An object by which Cilium announces addresses. A person applies it.
#[derive(Clone, Debug, PartialEq)]
pub struct Announcement {
    pub object: Value,
    pub remarks: Vec<Remark>,
}

impl ForeignPools {
    /// The remarks of all parts, in the order of the fields.
    pub fn all_remarks(&self) -> impl Iterator<Item = &Remark> {
        let pools = self.pools.iter().flat_map(|pool| &pool.remarks);
        let pins = self.pins.iter().flat_map(|pin| &pin.remarks);
        let address_pools = self.address_pools.iter().flat_map(|pool| &pool.remarks);
        let service_pins = self.service_pins.iter().flat_map(|pin| &pin.remarks);
        let announcements = self.announcements.iter().flat_map(|one| &one.remarks);
        pools
            .chain(pins)
            .chain(address_pools)
            .chain(service_pins)
            .chain(announcements)
            .chain(&self.remarks)
    }
}

/// Selects objects by a label that a person sets; `None` if no label can have the pool's name as
/// its value.
fn by_own_label(key: &str, pool: &str) -> Option<Selector> {
    let value = Operator::In([pool.to_owned()].into());
    let requirement = Requirement::new(key, value).ok()?;
    Some(Selector::all_of([requirement]))
}

/// The first items as text, and the number of the others.
fn listed<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    first_of(4, items.into_iter().map(|item| format!("`{item}`")))
}

#[cfg(test)]
mod tests;
