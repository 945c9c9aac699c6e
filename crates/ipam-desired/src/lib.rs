//! What the files ask for, once they are parsed: pools, pins, LoadBalancer pools and the policy.
//! Plain data, so that the planner needs no parser. Knows nothing of YAML or of a cluster.
#![forbid(unsafe_code)]

mod custom_kind;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::SignedDuration;

use ipam_cilium::lbipam::AddressPoolManifest;
use ipam_core::model::{
    AddressPoolName, Hazard, LimitName, Limited, Measure, NodeName, Origin, PerFamily, PoolName,
    Selector, ServiceName, WritePathChoice,
};
use ipam_core::net::{Block, BlockSize, Family, Range};
use ipam_core::neutron::Id;

pub use custom_kind::{CustomKind, GROUP, VERSION};

/// Everything the files ask for.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// The pools by name.
    pub pools: BTreeMap<PoolName, Pool>,
    /// The pools that are subnets of Neutron, by name; none of them is among the others.
    pub neutron_pools: BTreeMap<PoolName, NeutronPool>,
    /// Those of the pools that have faults; of them only what could be read is there.
    pub faulty: BTreeSet<PoolName>,
    /// The pins by node.
    pub pins: BTreeMap<NodeName, Pin>,
    /// The pools of LoadBalancer addresses.
    pub address_pools: BTreeMap<AddressPoolName, WantedAddressPool>,
    /// Whether those are all that should be there.
    pub address_pools_asked: AddressPoolsAsked,
    /// The pins of LoadBalancer addresses.
    pub service_pins: BTreeMap<ServiceName, ServicePin>,
    /// The policy, or its defaults.
    pub policy: Policy,
}

/// Whether it can be told from what is asked for which pools of LoadBalancer addresses should be
/// there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressPoolsAsked {
    /// Those, and none besides.
    #[default]
    All,
    /// Custom resources of ours say nothing of them: they are in the cluster themselves.
    Elsewhere,
}

/// A pool of LoadBalancer addresses that should be there.
#[derive(Clone, Debug)]
pub struct WantedAddressPool {
    /// Name.
    pub name: AddressPoolName,
    /// Where it is declared.
    pub origin: Origin,
    /// As it is written.
    pub manifest: AddressPoolManifest,
    /// Its ranges.
    pub ranges: Vec<AddressPoolRange>,
}

/// A range of a pool of LoadBalancer addresses, with its place.
#[derive(Clone, Debug)]
pub struct AddressPoolRange {
    /// The addresses.
    pub range: Range,
    /// Where it stands.
    pub origin: Origin,
}

/// This Service, these addresses.
#[derive(Clone, Debug)]
pub struct ServicePin {
    /// The Service.
    pub service: ServiceName,
    /// What it asks for.
    pub addresses: Vec<PinnedAddress>,
    /// Where it is declared.
    pub origin: Origin,
}

/// An address of a pin, with its place.
#[derive(Clone, Debug)]
pub struct PinnedAddress {
    /// The address.
    pub address: IpAddr,
    /// Where it stands.
    pub origin: Origin,
}

/// Whether a pool gives blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// It gives blocks.
    Active,
    /// It keeps what it gave and gives nothing new.
    Disabled,
}

/// A CIDR of a pool, with its place.
#[derive(Clone, Debug)]
pub struct PoolRange {
    /// The CIDR.
    pub block: Block,
    /// Where it stands.
    pub origin: Origin,
}

/// A named supply of blocks for the nodes that its selector matches.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Name.
    pub name: PoolName,
    /// Where it is declared.
    pub origin: Origin,
    /// Its CIDRs, used in this order.
    pub ranges: Vec<PoolRange>,
    /// Size of the blocks; present for exactly the families that `ranges` has.
    pub block_size: PerFamily<BlockSize>,
    /// The nodes it is for.
    pub selector: Selector,
    /// Higher wins.
    pub priority: i32,
    /// Never handed out by itself; a pin may lie here.
    pub reserved: Vec<Range>,
    /// Whether it gives blocks.
    pub state: PoolState,
}

impl Pool {
    /// What decides between pools that select a node, more first: priority, then number of
    /// requirements. Equal ones are taken by name.
    pub fn rank(&self) -> (i32, usize) {
        (self.priority, self.selector.specificity())
    }

    /// The better one first.
    pub fn best_first(a: &Pool, b: &Pool) -> Ordering {
        b.rank().cmp(&a.rank()).then_with(|| a.name.cmp(&b.name))
    }

    /// Whether the block lies in one of the pool's ranges.
    pub fn contains(&self, block: Block) -> bool {
        self.ranges.iter().any(|range| range.block.contains(block))
    }

    /// The families that the pool gives.
    pub fn families(&self) -> impl Iterator<Item = Family> + '_ {
        self.block_size.families()
    }
}

/// A pool whose addresses Neutron gives, port by port. Its range is not in the files: only Neutron
/// says it.
#[derive(Clone, Debug)]
pub struct NeutronPool {
    /// Name.
    pub name: PoolName,
    /// Where it is declared.
    pub origin: Origin,
    /// The network that the subnet must be of.
    pub network: Id,
    /// The subnet.
    pub subnet: Id,
    /// Where the subnet stands.
    pub subnet_origin: Origin,
}

/// This node, these blocks.
#[derive(Clone, Debug)]
pub struct Pin {
    /// The node.
    pub node: NodeName,
    /// The pool that the blocks belong to.
    pub pool: PoolName,
    /// The blocks.
    pub blocks: PerFamily<Block>,
    /// Where it is declared.
    pub origin: Origin,
}

/// What holds for the whole directory.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Where it is declared.
    pub origin: Option<Origin>,
    /// Who chooses the write path.
    pub write_path: WritePathChoice,
    /// Never handed out, not even by a pin.
    pub excluded: Vec<Range>,
    /// Address space that is not private, but ours.
    pub own_address_space: Vec<Range>,
    /// How long a freed block is not given to another node.
    pub quarantine: SignedDuration,
    /// How much one apply may change.
    pub limits: BTreeMap<LimitName, u32>,
    /// Label key whose values tell failure domains apart.
    pub failure_domain: String,
    /// What is kept from changes.
    pub protected: Protected,
    /// The worst that is done while nobody looks.
    pub unattended: Hazard,
    /// Whether anything is done while nobody looks.
    pub activity: Activity,
    /// What is done with the pairs of VMs' ports.
    pub address_pairs: AddressPairs,
}

/// What is done with `allowed_address_pairs` of VMs' ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressPairs {
    /// Nothing.
    #[default]
    Ignored,
    /// Each port lets the pod CIDRs of its node out, and none of another node.
    PodCidrs,
}

/// Whether anything is done while nobody looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// What is not too bad.
    #[default]
    Active,
    /// Nothing.
    Paused,
}

/// Nodes and pools from which nothing is taken, and whose agents need no restart because of us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protected {
    /// The nodes.
    pub nodes: BTreeSet<NodeName>,
    /// Where the Policy names them; those of the command line have no place.
    pub node_origins: BTreeMap<NodeName, Origin>,
    /// The pools; they may not vanish from the directory either.
    pub pools: BTreeSet<PoolName>,
}

impl Policy {
    /// How long a freed block rests unless the Policy says otherwise: longer than routes to it are
    /// remembered elsewhere.
    pub const QUARANTINE: SignedDuration = SignedDuration::from_mins(10);
    /// Limits that hold unless the Policy names the same ones.
    pub const LIMITS: [(LimitName, u32); 2] = [
        (
            LimitName {
                limited: Limited::Disruptive,
                measure: Measure::Percent,
            },
            20,
        ),
        (
            LimitName {
                limited: Limited::Release,
                measure: Measure::Percent,
            },
            20,
        ),
    ];
    /// Label key of failure domains unless the Policy says otherwise.
    pub const FAILURE_DOMAIN: &str = "topology.kubernetes.io/zone";
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            origin: None,
            write_path: WritePathChoice::default(),
            excluded: Vec::new(),
            own_address_space: Vec::new(),
            quarantine: Policy::QUARANTINE,
            limits: Policy::LIMITS.into(),
            failure_domain: Policy::FAILURE_DOMAIN.to_owned(),
            protected: Protected::default(),
            unattended: Hazard::None,
            activity: Activity::Active,
            address_pairs: AddressPairs::Ignored,
        }
    }
}
