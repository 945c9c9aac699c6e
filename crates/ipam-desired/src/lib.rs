//! The desired state after parsing: pools, pins, LoadBalancer pools and the policy. Plain data:
//! knows nothing about YAML or a cluster.

#![forbid(unsafe_code)]

mod custom_kind;
mod maintenance;
mod policy_difference;
mod rule_input;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::SignedDuration;

use ipam_cilium::lbipam::AddressPoolManifest;
use ipam_core::alloc::WhenFull;
use ipam_core::model::{
    AddressPoolName, Hazard, LimitName, Limited, Measure, NodeName, Origin, PerFamily, PoolName,
    Selector, ServiceName, Severity, WritePathChoice,
};
use ipam_core::net::{Block, BlockSize, Family, Range};
use ipam_core::neutron::Id;

pub use custom_kind::{CiliumManifest, CustomKind, GROUP, VERSION};
pub use maintenance::{
    MaintenanceWindow, MigrationPolicy, Schedule, ScheduleError, UnknownTimeZone, WindowState,
    time_zone, time_zone_names,
};
pub use policy_difference::{weakened, weakened_rules};
pub use rule_input::{ACTIONS, EDITS, Expectation, RuleCase, WrittenPart, rule_variables};

/// The whole desired state.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    pub pools: BTreeMap<PoolName, Pool>,
    /// Pools that are subnets of Neutron, by name. They are not in `pools`.
    pub neutron_pools: BTreeMap<PoolName, NeutronPool>,
    /// Pools with faults in the files. Only their valid parts are present.
    pub faulty: BTreeSet<PoolName>,
    pub pins: BTreeMap<NodeName, Pin>,
    pub address_pools: BTreeMap<AddressPoolName, WantedAddressPool>,
    /// Whether `address_pools` is complete.
    pub address_pools_asked: AddressPoolsAsked,
    pub service_pins: BTreeMap<ServiceName, ServicePin>,
    pub policy: Policy,
    /// Examples for the rules of the Policy, in the order of the files.
    pub rule_cases: Vec<RuleCase>,
}

impl Desired {
    /// Whether the files leave the blocks of nodes to others: they are about LoadBalancer addresses
    /// alone. Files without anything leave nothing to others.
    pub fn leaves_nodes_to_others(&self) -> bool {
        let about_nodes = !(self.pools.is_empty()
            && self.neutron_pools.is_empty()
            && self.faulty.is_empty()
            && self.pins.is_empty());
        let about_services = !(self.address_pools.is_empty() && self.service_pins.is_empty());
        about_services && !about_nodes
    }

    /// Ranges of which no node gets a new block without a pin.
    pub fn never_given(&self) -> impl Iterator<Item = Range> {
        self.pools.values().flat_map(Pool::never_given)
    }
}

/// Whether the source declares pools of LoadBalancer addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressPoolsAsked {
    /// The source declares all pools of LoadBalancer addresses.
    #[default]
    All,
    /// The source declares none, because our custom resources have no such kind. The pools exist
    /// only in the cluster.
    Elsewhere,
}

/// A declared pool of LoadBalancer addresses.
#[derive(Clone, Debug)]
pub struct WantedAddressPool {
    pub name: AddressPoolName,
    pub origin: Origin,
    pub manifest: AddressPoolManifest,
    pub ranges: Vec<AddressPoolRange>,
}

/// A range of a pool of LoadBalancer addresses.
#[derive(Clone, Debug)]
pub struct AddressPoolRange {
    pub range: Range,
    pub origin: Origin,
}

/// Pins addresses to a Service.
#[derive(Clone, Debug)]
pub struct ServicePin {
    pub service: ServiceName,
    pub to: PinnedTo,
    pub origin: Origin,
}

/// The target of a Service's pin.
#[derive(Clone, Debug)]
pub enum PinnedTo {
    /// The Service gets exactly these addresses. Not empty.
    Addresses(Vec<PinnedAddress>),
    /// An address of each of its families, chosen by the plan.
    Chosen(ChosenFrom),
}

/// The pools from which the plan chooses an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChosenFrom {
    /// The pool with this name.
    Pool(AddressPoolName),
    /// The best pool that selects the Service and has room.
    BestPool,
}

impl ServicePin {
    /// The addresses that the files name.
    pub fn addresses(&self) -> &[PinnedAddress] {
        match &self.to {
            PinnedTo::Addresses(addresses) => addresses,
            PinnedTo::Chosen(_) => &[],
        }
    }
}

/// An address of a pin.
#[derive(Clone, Debug)]
pub struct PinnedAddress {
    pub address: IpAddr,
    pub origin: Origin,
}

ipam_core::text_enum! {
    /// Whether a pool gives blocks. The text stands in records of migrations.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PoolState {
        Active = "active",
        /// The pool keeps its allocations and gives no new blocks.
        Disabled = "disabled",
    }
}

/// A CIDR of a pool.
#[derive(Clone, Debug)]
pub struct PoolRange {
    pub block: Block,
    pub origin: Origin,
}

/// A named supply of blocks for the nodes that its selector matches.
#[derive(Clone, Debug)]
pub struct Pool {
    pub name: PoolName,
    pub origin: Origin,
    /// CIDRs in the order of use.
    pub ranges: Vec<PoolRange>,
    /// Block size of exactly the families in `ranges`.
    pub block_size: PerFamily<BlockSize>,
    pub selector: Selector,
    /// Priority of the pool; of several pools, the highest wins.
    pub priority: i32,
    /// Ranges of which only pins get blocks.
    pub reserved: Vec<Range>,
    /// Parts of `ranges` of which only pins get blocks, until no node holds one.
    pub retiring: Vec<PoolRange>,
    pub state: PoolState,
    pub when_full: WhenFull,
}

impl Pool {
    /// Rank among pools that select a node: priority, then number of requirements. Higher wins;
    /// between equals, the name decides.
    pub fn rank(&self) -> (i32, usize) {
        (self.priority, self.selector.specificity())
    }

    /// Orders pools by preference, the best first.
    pub fn best_first(a: &Pool, b: &Pool) -> Ordering {
        b.rank().cmp(&a.rank()).then_with(|| a.name.cmp(&b.name))
    }

    /// Whether the block lies in one of the pool's ranges.
    pub fn contains(&self, block: Block) -> bool {
        self.ranges.iter().any(|range| range.block.contains(block))
    }

    /// Ranges of which no node gets a new block without a pin.
    pub fn never_given(&self) -> impl Iterator<Item = Range> {
        let reserved = self.reserved.iter().copied();
        reserved.chain(self.retiring_ranges())
    }

    pub fn retiring_ranges(&self) -> impl Iterator<Item = Range> {
        self.retiring.iter().map(|range| range.block.range())
    }

    pub fn families(&self) -> impl Iterator<Item = Family> + '_ {
        self.block_size.families()
    }
}

/// A pool whose addresses Neutron allocates port by port. Only Neutron knows its range.
#[derive(Clone, Debug)]
pub struct NeutronPool {
    pub name: PoolName,
    pub origin: Origin,
    /// The expected network of the subnet.
    pub network: Id,
    pub subnet: Id,
    pub subnet_origin: Origin,
}

/// Pins blocks to a node.
#[derive(Clone, Debug)]
pub struct Pin {
    pub node: NodeName,
    pub pool: PoolName,
    pub blocks: PerFamily<Block>,
    pub origin: Origin,
}

/// Settings of the whole directory.
#[derive(Clone, Debug)]
pub struct Policy {
    pub origin: Option<Origin>,
    /// Who chooses the write path.
    pub write_path: WritePathChoice,
    /// Other allocators of pod CIDRs that an administrator takes responsibility for.
    pub acknowledged_allocators: BTreeSet<String>,
    /// Never given, not even by a pin.
    pub excluded: Vec<Range>,
    /// Public address space that belongs to the user.
    pub own_address_space: Vec<Range>,
    /// How long a freed block, or that of a deleted node, is given to no other node.
    pub quarantine: SignedDuration,
    pub limits: BTreeMap<LimitName, u32>,
    /// Node label whose values are the failure domains.
    pub failure_domain: String,
    /// Nodes and pools that must not change.
    pub protected: Protected,
    /// The worst hazard of changes that `watch` and the operator apply.
    pub auto_apply: Hazard,
    /// Whether unattended changes are allowed.
    pub activity: Activity,
    pub address_pairs: AddressPairs,
    /// When `migrate` changes nodes, and how many at a time.
    pub migration: MigrationPolicy,
    /// What must be true of the changes that are applied together, in the order of the file.
    pub rules: Vec<PolicyRule>,
}

/// A rule of the Policy over a plan.
#[derive(Clone, Debug)]
pub struct PolicyRule {
    /// Name of the rule, unique in the Policy.
    pub name: String,
    /// Place of the rule's expression.
    pub origin: Origin,
    /// `Error` refuses the plan.
    pub severity: Severity,
    pub rule: ipam_rules::Rule,
}

ipam_core::text_enum! {
    /// Management of `allowed_address_pairs` of VMs' ports. The text stands in records of
    /// migrations.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum AddressPairs {
        #[default]
        Ignored = "ignored",
        /// Each port allows the pod CIDRs of its node, and no pod CIDR of another node.
        PodCidrs = "pod-cidrs",
    }
}

ipam_core::serde_as_text! {
    PoolState: "state of a pool",
    AddressPairs: "use of address pairs",
}

/// Whether unattended changes are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// Changes up to the hazard `auto_apply` are allowed.
    #[default]
    Active,
    /// The Policy allows no unattended changes.
    Paused,
}

/// Nodes and pools that lose no blocks. Their agents need no restart because of us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protected {
    pub nodes: BTreeSet<NodeName>,
    /// Places in the Policy. Nodes from the command line have none.
    pub node_origins: BTreeMap<NodeName, Origin>,
    /// Pools. They must not vanish from the directory either.
    pub pools: BTreeSet<PoolName>,
}

impl Policy {
    /// Default quarantine of a freed block: longer than other systems remember routes to it.
    pub const QUARANTINE: SignedDuration = SignedDuration::from_mins(10);
    /// Default limits. A limit in the Policy replaces the one of the same name.
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
    /// Default label key of failure domains.
    pub const FAILURE_DOMAIN: &str = "topology.kubernetes.io/zone";
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            origin: None,
            write_path: WritePathChoice::default(),
            acknowledged_allocators: BTreeSet::new(),
            excluded: Vec::new(),
            own_address_space: Vec::new(),
            quarantine: Policy::QUARANTINE,
            limits: Policy::LIMITS.into(),
            failure_domain: Policy::FAILURE_DOMAIN.to_owned(),
            protected: Protected::default(),
            auto_apply: Hazard::None,
            activity: Activity::Active,
            address_pairs: AddressPairs::Ignored,
            migration: MigrationPolicy::default(),
            rules: Vec::new(),
        }
    }
}
