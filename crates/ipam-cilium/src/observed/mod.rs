//! What the cluster shows: slim views of the few fields that a plan needs.
//!
//! Reads raw JSON objects, however they were fetched, and never fetches. What could not be seen is
//! data here ([`BlindSpot`]), and what cannot be understood is kept as unreadable rather than
//! dropped.

mod announced;
mod bgp;
mod cilium;
mod claimed;
mod holding;
mod identify;
mod kind;
mod load_balancing;
mod operator;
mod pod_pools;
mod ports;
mod read;
mod read_error;
mod read_node;
mod settings;
mod slim;
mod subnets;
mod view;
mod view_lb;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;

use crate::lbipam::LbService;
use ipam_core::model::{Finding, Labels, NodeName, PerFamily, ServiceName};
use ipam_core::net::{Block, Family, Range};

pub use ipam_core::model::{OWNER_LABEL, ObjectVersion};

pub use announced::{Announced, Speaker};
pub use bgp::{Advertisement, Announcing, ClusterConfig, L2Policy, PeeringPolicy, PodCidrs};
pub use cilium::{
    AnnotationKeys, AnnotationReads, Cilium, Evidence, FamilyUse, ModeSeen, OperatorState,
};
pub use claimed::KeptClaims;
pub use holding::{Holding, HoldingField, Reading, blocks_shown, family_of_annotation};
pub use identify::{Head, MisnamedItem};
pub use kind::{CLAIMS_KEY, CLAIMS_NAME, CLAIMS_REVISION_KEY, OWN_NAMESPACE, ObservedKind, Query};
pub use load_balancing::{AddressPoolStatus, AddressPoolsServed, SeenAddressPool};
pub use operator::{BlockGiver, IGNORE_ANNOTATION, OperatorAttention, OperatorRefusal};
pub use pod_pools::{DEFAULT_POOL_SETTING, PodRanges, SeenPodPool};
pub use ports::SeenPorts;
pub use read::{Definition, Reader, Understood};
pub use read_error::{ReadError, without_type_names};
pub use settings::{
    Agent, NodeConfig, NodeConfigApi, NodeConfigsServed, Setting, SettingSource, range_setting,
};
pub use slim::slim;
pub use subnets::{SeenSubnet, SeenSubnets};

/// Annotation keys of Cilium 1.13 and later (`pkg/annotation/k8s.go`).
pub const ANNOTATION_IPV4: &str = "network.cilium.io/ipv4-pod-cidr";
/// See [`ANNOTATION_IPV4`].
pub const ANNOTATION_IPV6: &str = "network.cilium.io/ipv6-pod-cidr";
/// Annotation keys up to Cilium 1.12, an alias after that, read only where the newer key is absent.
pub const OLD_ANNOTATION_IPV4: &str = "io.cilium.network.ipv4-pod-cidr";
/// See [`OLD_ANNOTATION_IPV4`].
pub const OLD_ANNOTATION_IPV6: &str = "io.cilium.network.ipv6-pod-cidr";

/// All of them.
pub const ANNOTATION_KEYS: [&str; 4] = [
    ANNOTATION_IPV4,
    ANNOTATION_IPV6,
    OLD_ANNOTATION_IPV4,
    OLD_ANNOTATION_IPV6,
];

/// The name under which the server notes what we write (`metadata.managedFields`).
pub const FIELD_MANAGER: &str = "cilium-ipam";

/// On a Node: `"true"` protects it, whatever the files say.
pub const PROTECTED_ANNOTATION: &str = "cilium-ipam.io/protected";

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The Nodes.
    pub nodes: BTreeMap<NodeName, Arc<Node>>,
    /// The CiliumNodes.
    pub cilium_nodes: BTreeMap<NodeName, Arc<CiliumNode>>,
    /// When it was seen, by the clock of whoever looked.
    pub at: Timestamp,
    /// The claims.
    pub claims: KeptClaims,
    /// Cilium's version and settings.
    pub cilium: Cilium,
    /// Blocks of objects that could not be attributed to a node.
    pub unattributed: Vec<Block>,
    /// Addresses of Services.
    pub service_ranges: Vec<Range>,
    /// The cluster's first family: that of the first CIDR of the ServiceCIDR `kubernetes`.
    pub primary_family: Option<Family>,
    /// Whether the server knows `CiliumLoadBalancerIPPool`s.
    pub address_pools_served: AddressPoolsServed,
    /// `CiliumLoadBalancerIPPool`s by name.
    pub address_pools: BTreeMap<String, SeenAddressPool>,
    /// Whether the server knows `CiliumPodIPPool`s.
    pub pod_pools_served: PodPoolsServed,
    /// `CiliumPodIPPool`s by name.
    pub pod_pools: BTreeMap<String, SeenPodPool>,
    /// Services of type LoadBalancer.
    pub services: BTreeMap<ServiceName, LbService>,
    /// Whether kube-controller-manager hands out blocks too.
    pub controller_manager: NodeCidrAllocation,
    /// kube-controller-manager's `--cluster-cidr`, where it is visible.
    pub cluster_cidrs: Vec<Range>,
    /// Whether the server knows settings of some nodes.
    pub node_configs_served: NodeConfigsServed,
    /// Settings of some nodes, by name.
    pub node_configs: Vec<NodeConfig>,
    /// Who announces what.
    pub announcing: Announcing,
    /// Ports of the VMs that nodes are; `None` where nobody asked.
    pub ports: Option<SeenPorts>,
    /// Subnets of Neutron that were asked for.
    pub subnets: SeenSubnets,
    /// What was hidden.
    pub blind_spots: Vec<BlindSpot>,
    /// What could not be understood.
    pub findings: Vec<Finding>,
}

impl Observed {
    /// Why a kind could not be read, if it could not.
    pub fn blind_spot(&self, kind: ObservedKind) -> Option<&BlindSpot> {
        self.blind_spots.iter().find(|spot| spot.kind == kind)
    }

    /// Whether one of these kinds could not be read.
    pub fn is_blind_to_any(&self, kinds: &[ObservedKind]) -> bool {
        kinds.iter().any(|kind| self.blind_spot(*kind).is_some())
    }

    /// Addresses in the cluster that something else than nodes' Pods uses.
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
        services.chain(balancers).chain(machines)
    }
}

/// What uses addresses that no node's Pods may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OtherUser<'o> {
    /// A `CiliumLoadBalancerIPPool`, by its name.
    AddressPool(&'o str),
    /// The machine of a node.
    Machine(&'o NodeName),
    /// Services.
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
        }
    }
}

/// Whether kube-controller-manager runs with `--allocate-node-cidrs=true`
/// (`cmd/kube-controller-manager/app/core.go` @ 1.36).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeCidrAllocation {
    /// Its Pod says so.
    On,
    /// Its Pod says it does not.
    Off,
    /// No Pod of it is visible, as with hosted control planes.
    #[default]
    Unseen,
}

/// Whether the server knows `CiliumPodIPPool`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPoolsServed {
    /// Nothing speaks against it.
    #[default]
    Yes,
    /// It does not.
    No,
}

/// A kind that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlindSpot {
    /// The kind.
    pub kind: ObservedKind,
    /// Why, in the server's words.
    pub why: String,
}

/// The fields of a Node that matter.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name.
    pub name: NodeName,
    /// UID, which a re-created Node does not keep.
    pub uid: String,
    /// Version of the object as it was read.
    pub resource_version: String,
    /// RFC 3339, as Kubernetes writes it: sorts as text.
    pub created: String,
    /// Labels.
    pub labels: Labels,
    /// `spec.podCIDRs`, or `spec.podCIDR` where only that is set.
    pub spec: PerFamily<Block>,
    /// The newer annotation keys.
    pub annotation: PerFamily<Block>,
    /// The older annotation keys.
    pub old_annotation: PerFamily<Block>,
    /// Every block that any of its fields shows, whatever Cilium makes of it.
    pub shown: Vec<Block>,
    /// What is wrong with `spec.podCIDRs`, when Cilium could not use it.
    pub unreadable_spec: Option<String>,
    /// What is wrong with an annotation, when Cilium could not use it.
    pub unreadable_annotation: Option<String>,
    /// Whether Cilium's operator is told to leave it alone.
    pub attention: OperatorAttention,
    /// Whether the Node protects itself.
    pub protection: Protection,
    /// Addresses of the machine.
    pub addresses: Vec<IpAddr>,
    /// `spec.providerID`: what the machine is to its cloud.
    pub provider_id: Option<String>,
    /// Who wrote the pod-CIDR fields.
    pub authors: Vec<Author>,
}

/// Whether a Node carries [`PROTECTED_ANNOTATION`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// It does.
    Protected,
    /// It does not.
    #[default]
    None,
}

/// Who wrote a pod-CIDR field, from `metadata.managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The field manager.
    pub manager: String,
    /// RFC 3339.
    pub time: String,
    /// What of it.
    pub field: HoldingField,
}

/// The fields of a CiliumNode that matter.
#[derive(Clone, Debug)]
pub struct CiliumNode {
    /// Name, which is the Node's.
    pub name: NodeName,
    /// Version of the object as it was read.
    pub version: ObjectVersion,
    /// Whether Cilium's operator is told to leave it alone.
    pub attention: OperatorAttention,
    /// `spec.ipam.podCIDRs`.
    pub pod_cidrs: Vec<Block>,
    /// Entries that are no CIDR.
    pub unreadable: Vec<String>,
    /// `spec.ipam.pools.allocated`: pool and blocks.
    pub allocated: Vec<(String, Vec<Block>)>,
    /// `status.ipam.operator-status.error`.
    pub operator_error: Option<String>,
    /// UID of the Node that owns it, if one does.
    pub owner: Option<String>,
    /// Whether it stays when nothing refers to it: it has an owner, or an annotation says so.
    pub keeper: Option<String>,
    /// Who wrote `spec.ipam.podCIDRs`.
    pub authors: Vec<Author>,
}
