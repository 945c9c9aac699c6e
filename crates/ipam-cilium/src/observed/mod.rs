//! The observed cluster: the few fields of its objects that a plan needs.
//!
//! Reads raw JSON objects and never fetches them. Hidden kinds are data too ([`BlindSpot`]).
//! Invalid fields are kept as unreadable rather than dropped.

mod announced;
mod announced_services;
mod balancers;
mod bgp;
mod bgp_view;
mod chaining;
mod cilium;
mod claimed;
mod cluster_cidrs;
mod controller_process;
mod distribution;
mod go;
mod holding;
mod identify;
mod installation;
mod kind;
mod load_balancing;
mod node_allocators;
mod operator;
pub mod operator_settings;
mod operator_start;
mod pod_pool_setting;
mod pod_pools;
mod ports;
mod project;
mod protobuf;
mod read;
mod read_node;
mod served;
pub mod setting_key;
mod settings;
mod slim;
mod spec_readers;
mod view;
mod view_lb;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;

use crate::lbipam::LbService;
use ipam_core::model::{Finding, Labels, NodeName, PerFamily, ServiceName};
use ipam_core::net::{Block, Family, Range, RangeIndex};

pub use announced::{Announced, BgpSpeaker, METAL_LB_FAMILIES, native_routing_setting};
pub use announced_services::{
    Protocol, ServiceAnnouncements, SpeakerPeers, read_service_annotations,
};
pub use balancers::{Balancer, OtherController};
pub use bgp::{
    Advertisement, Announcing, ClusterConfig, L2Policy, PeerFamily, PeeringPolicy, PodCidrs,
    SelectorFault, SelectorProblem,
};
pub use chaining::PodAddresses;
pub(crate) use cilium::is_true;
pub use cilium::{
    AnnotationKeys, AnnotationReads, Cilium, Evidence, FamilyUse, ModeSeen, OperatorState,
};
pub use claimed::{StoredClaims, StoredDeparted, UnfinishedMigration};
pub use cluster_cidrs::{CidrSource, ClusterCidrs};
pub use controller_process::{AllocatorStatus, CloudRoutes, ControllerProgram};
pub use distribution::Distribution;
pub use holding::{Holding, HoldingField, Reading, blocks_shown, family_of_annotation};
pub use identify::{Head, MisnamedItem, ReadError};
pub use installation::DEFAULT_CILIUM_NAMESPACE;
pub use ipam_core::model::{OWNER_LABEL, ObjectVersion};
pub use kind::{
    CLAIMS_KEY, CLAIMS_NAME, CLAIMS_REVISION_KEY, DEPARTED_KEY, MIGRATION_KEY, MIGRATION_NAME,
    OWN_NAMESPACE, ObservedKind, Query,
};
pub use load_balancing::{AddressPoolStatus, AddressPoolsServed, SeenAddressPool};
pub use node_allocators::{Allocator, AllocatorProof, KNOWN_ALLOCATORS};
pub use operator::{
    BlockAllocator, IGNORE_ANNOTATION, OperatorAttention, OperatorBlocks, OperatorComplaint,
    OperatorRefusal, OperatorRun,
};
pub use operator_start::{DuplicateHandling, Losers, Removal, RemovalCause};
pub use pod_pools::{DEFAULT_POOL_SETTING, PodPoolApi, PodRanges, SeenPodPool};
pub use ports::{SeenPorts, SeenSubnet, SeenSubnets};
pub use protobuf::{
    Encoding, ProtobufEvent, ProtobufList, ProtobufObject, ProtobufStatus, WireError,
    cheapest_encoding, value_of_protobuf,
};
pub use read::Reader;
pub use read_node::Understood;
pub use served::{
    Access, CiliumKind, Definitions, FieldSchema, ServedKind, ServedVersion, VersionRole,
};
pub use setting_key::NodeConfigs;
pub use settings::{
    Agent, NodeConfig, NodeConfigApi, NodeConfigsServed, Setting, SettingSource, range_setting,
};
pub use slim::{is_read, slim};
pub use spec_readers::{SeenSpecRouter, SpecRouter};

/// Annotation keys of Cilium 1.13 and later (`pkg/annotation/k8s.go`).
pub const ANNOTATION_IPV4: &str = "network.cilium.io/ipv4-pod-cidr";
/// See [`ANNOTATION_IPV4`].
pub const ANNOTATION_IPV6: &str = "network.cilium.io/ipv6-pod-cidr";
/// Annotation keys up to Cilium 1.12. Later versions read them only if the newer key is absent.
pub const OLD_ANNOTATION_IPV4: &str = "io.cilium.network.ipv4-pod-cidr";
/// See [`OLD_ANNOTATION_IPV4`].
pub const OLD_ANNOTATION_IPV6: &str = "io.cilium.network.ipv6-pod-cidr";

/// All pod-CIDR annotations.
pub const ANNOTATION_KEYS: [&str; 4] = [
    ANNOTATION_IPV4,
    ANNOTATION_IPV6,
    OLD_ANNOTATION_IPV4,
    OLD_ANNOTATION_IPV6,
];

/// Our field manager in `metadata.managedFields`.
pub const FIELD_MANAGER: &str = "cilium-ipam";

/// On a Node: `"true"` protects it, even if the files do not.
pub const PROTECTED_ANNOTATION: &str = "cilium-ipam.io/protected";

/// On a Node: the migration that moves it. No plan changes such a node.
pub const MIGRATION_ANNOTATION: &str = "cilium-ipam.io/migration";

/// Everything that was observed.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The Nodes.
    pub nodes: BTreeMap<NodeName, Arc<Node>>,
    /// The CiliumNodes.
    pub cilium_nodes: BTreeMap<NodeName, Arc<CiliumNode>>,
    /// Time of the observation, by the observer's clock.
    pub at: Timestamp,
    /// The claims.
    pub claims: StoredClaims,
    /// Blocks of deleted nodes.
    pub departed: StoredDeparted,
    /// The migration that is not over, if there is one.
    pub migration: Option<UnfinishedMigration>,
    /// Cilium's version and settings.
    pub cilium: Cilium,
    /// Cilium's CustomResourceDefinitions.
    pub definitions: Definitions,
    /// Blocks of objects that belong to no known node.
    pub unattributed: Vec<Block>,
    /// Blocks that disappeared from one object, and may show in another one that is not reported
    /// yet.
    pub tombstones: BTreeSet<Block>,
    /// Other programs that give Services without a class their addresses, each with a workload of it.
    pub balancers: BTreeMap<Balancer, String>,
    /// Service CIDRs.
    pub service_ranges: Vec<Range>,
    /// The cluster's first family: that of the first CIDR of the ServiceCIDR `kubernetes`.
    pub primary_family: Option<Family>,
    /// Whether the server serves `CiliumLoadBalancerIPPool`s.
    pub address_pools_served: AddressPoolsServed,
    /// `CiliumLoadBalancerIPPool`s by name.
    pub address_pools: BTreeMap<String, SeenAddressPool>,
    /// Whether the server knows `CiliumPodIPPool`s.
    pub pod_pools_served: PodPoolsServed,
    /// `CiliumPodIPPool`s by name.
    pub pod_pools: BTreeMap<String, SeenPodPool>,
    /// Services of type LoadBalancer.
    pub services: BTreeMap<ServiceName, LbService>,
    /// Annotations of these Services that look like those of LB-IPAM and are not.
    pub unread_annotations: BTreeMap<ServiceName, Vec<String>>,
    /// Programs that may assign `spec.podCIDRs` of Nodes, by name.
    pub allocators: Vec<Arc<Allocator>>,
    /// Other programs that route or announce `spec.podCIDR` of Nodes.
    pub spec_routers: BTreeSet<SeenSpecRouter>,
    /// Whether the server serves `CiliumNodeConfig`s.
    pub node_configs_served: NodeConfigsServed,
    /// `CiliumNodeConfig`s, sorted by name. A later one wins.
    pub node_configs: NodeConfigs,
    /// BGP and L2 announcements.
    pub announcing: Announcing,
    /// Ports of the nodes' VMs; `None` if they were not requested.
    pub ports: Option<SeenPorts>,
    /// Requested subnets of Neutron.
    pub subnets: SeenSubnets,
    /// Kinds that could not be read.
    pub blind_spots: Vec<BlindSpot>,
    /// Faults of observed objects.
    pub findings: Vec<Finding>,
}

impl Observed {
    /// The blind spot of a kind, if it has one.
    pub fn blind_spot(&self, kind: ObservedKind) -> Option<&BlindSpot> {
        self.blind_spots.iter().find(|spot| spot.kind == kind)
    }

    /// The migration that still moves the node.
    pub fn migration_of(&self, node: &NodeName) -> Option<&UnfinishedMigration> {
        (self.migration.as_ref()).filter(|migration| migration.moves(node))
    }

    /// Whether one of these kinds is a blind spot.
    pub fn is_blind_to_any(&self, kinds: &[ObservedKind]) -> bool {
        kinds.iter().any(|kind| self.blind_spot(*kind).is_some())
    }

    /// Addresses in use by anything but Pods of nodes.
    pub fn used_by_others(&self) -> impl Iterator<Item = (Range, OtherUser<'_>)> {
        let services = self
            .service_ranges
            .iter()
            .map(|range| (*range, OtherUser::ServiceCidr));
        let balancers = self
            .load_balancer_ranges()
            .map(|(name, range)| (range, OtherUser::AddressPool(name)));
        let machines = self.nodes.values().flat_map(|node| {
            node.addresses
                .iter()
                .map(|address| (Range::from(*address), OtherUser::Machine(&node.name)))
        });
        let of_services = self.addresses_of_other_balancers().into_iter();
        let of_services =
            of_services.map(|(address, name)| (Range::from(address), OtherUser::Service(name)));
        services.chain(balancers).chain(machines).chain(of_services)
    }

    /// Addresses that Services have from another load balancer than LB-IPAM. Not those of machines,
    /// which such a load balancer may show.
    fn addresses_of_other_balancers(&self) -> BTreeMap<IpAddr, &ServiceName> {
        let services = self.services.iter();
        let shown =
            services.flat_map(|(name, service)| service.ingress.iter().map(move |ip| (*ip, name)));
        let mut addresses: BTreeMap<IpAddr, &ServiceName> = shown.collect();
        if addresses.is_empty() {
            return addresses;
        }
        for machine in self.nodes.values().flat_map(|node| &node.addresses) {
            addresses.remove(machine);
        }
        let pools = RangeIndex::new(self.load_balancer_ranges().map(|(_, range)| (range, ())));
        addresses.retain(|ip, _| pools.overlapping(&Range::from(*ip)).next().is_none());
        addresses
    }
}

/// A user of addresses that Pods must not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OtherUser<'o> {
    /// A `CiliumLoadBalancerIPPool`, by its name.
    AddressPool(&'o str),
    Machine(&'o NodeName),
    /// A Service with an address of another load balancer.
    Service(&'o ServiceName),
    ServiceCidr,
}

impl fmt::Display for OtherUser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OtherUser::ServiceCidr => f.write_str("the Service CIDR"),
            OtherUser::AddressPool(name) => {
                write!(f, "CiliumLoadBalancerIPPool `{}`", name.escape_debug())
            }
            OtherUser::Machine(name) => write!(f, "an address of node `{name}`"),
            OtherUser::Service(name) => write!(f, "an address of Service `{name}`"),
        }
    }
}

/// Whether the server knows `CiliumPodIPPool`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPoolsServed {
    /// The kind is served, or nothing tells.
    #[default]
    Yes,
    /// The kind is not served.
    No,
}

/// A kind that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlindSpot {
    /// The kind.
    pub kind: ObservedKind,
    /// The server's message.
    pub why: String,
}

/// A Node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name.
    pub name: NodeName,
    /// UID. A re-created Node has another one.
    pub uid: String,
    pub resource_version: String,
    /// RFC 3339 in the form of Kubernetes, so it sorts as text.
    pub created: String,
    /// Labels.
    pub labels: Labels,
    /// `spec.podCIDRs`, or `spec.podCIDR` if only that is set.
    pub spec: PerFamily<Block>,
    /// The newer annotation keys.
    pub annotation: PerFamily<Block>,
    /// Blocks in annotations with the older keys.
    pub old_annotation: PerFamily<Block>,
    /// Blocks of all fields, even those that Cilium ignores.
    pub shown: Vec<Block>,
    /// Why Cilium cannot use `spec.podCIDRs`.
    pub unreadable_spec: Option<String>,
    /// Why Cilium cannot use an annotation.
    pub unreadable_annotation: Option<String>,
    /// Whether Cilium's operator ignores it.
    pub attention: OperatorAttention,
    pub protection: Protection,
    /// The migration that moves it, by [`MIGRATION_ANNOTATION`].
    pub migration: Option<String>,
    /// Addresses of the machine.
    pub addresses: Vec<IpAddr>,
    /// `spec.providerID`: the machine's identity in its cloud.
    pub provider_id: Option<String>,
    /// Authors of the pod-CIDR fields.
    pub authors: Vec<Author>,
    /// The distribution of Kubernetes, if the Node shows it.
    pub distribution: Option<Distribution>,
    /// The ranges of the kube-controller-manager in its k3s server.
    pub cluster_cidrs: Option<Box<ClusterCidrs>>,
    /// `status.allocatable.pods`: the number of Pods that its kubelet accepts.
    pub pod_limit: Option<u64>,
}

/// Whether a Node carries [`PROTECTED_ANNOTATION`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    Protected,
    #[default]
    None,
}

/// Who wrote a pod-CIDR field, from `metadata.managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    pub manager: String,
    /// RFC 3339.
    pub time: String,
    pub field: HoldingField,
}

/// Whether the agent of a CiliumNode has started. When it starts, it writes `spec.addresses`, and
/// only then it reads its blocks (`pkg/nodediscovery/nodediscovery.go` mutateNodeResource @ 1.20).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentTrace {
    Started,
    #[default]
    Unseen,
}

/// A CiliumNode.
#[derive(Clone, Debug)]
pub struct CiliumNode {
    /// Name, equal to the Node's.
    pub name: NodeName,
    pub version: ObjectVersion,
    /// Whether Cilium's operator ignores it.
    pub attention: OperatorAttention,
    /// `spec.ipam.podCIDRs`.
    pub pod_cidrs: Vec<Block>,
    /// Entries that are not CIDRs.
    pub unreadable: Vec<String>,
    /// The addresses at the start of these values.
    pub near: Vec<Block>,
    /// `spec.ipam.pools.allocated`: pool and blocks.
    pub allocated: Vec<(String, Vec<Block>)>,
    /// `spec.ipam.pools.requested`: pool and number of addresses, the allocated ones included.
    pub requested: Vec<(String, PerFamily<u64>)>,
    pub agent: AgentTrace,
    /// `status.ipam.operator-status.error`.
    pub operator_error: Option<String>,
    /// UID of the owning Node.
    pub owner: Option<String>,
    /// The label of the program that created it. Agents replace all labels by those of the Node.
    pub managed_by: Option<String>,
    /// What protects it from garbage collection: an owner or an annotation.
    pub keeper: Option<String>,
    /// Authors of `spec.ipam.podCIDRs`.
    pub authors: Vec<Author>,
}

impl CiliumNode {
    /// Whether it carries our label: we created it, and no agent has written it since.
    pub fn is_ours(&self) -> bool {
        self.managed_by.as_deref() == Some(OWNER_LABEL.1)
    }
}
