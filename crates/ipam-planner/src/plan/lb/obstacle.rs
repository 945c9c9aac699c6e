//! Why a change about LoadBalancer addresses must wait.

use std::fmt;
use std::net::IpAddr;

use strum::IntoStaticStr;

use crate::check::NeutronTrouble;
use ipam_cilium::lbipam::NotRead;
use ipam_core::model::{NodeName, OWNER_LABEL, PoolName, ServiceName};
use ipam_core::net::Range;

/// Who has addresses that a pool would give.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressUser {
    /// A node's pod CIDR.
    PodCidr(NodeName),
    /// A node itself.
    Machine(NodeName),
    /// The Service CIDR.
    ServiceCidr,
    /// A block that is claimed for a node, or rests after it.
    Claimed(NodeName),
    /// A block of an object whose node cannot be told.
    Unattributed,
    /// A subnet of Neutron, by the pool that names it.
    NeutronPool(PoolName),
}

/// Why a pool or a pin must wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum LbObstacle {
    /// The server does not know the kind.
    NotServed,
    /// The server does not show the kind.
    PoolsHidden(String),
    /// The server does not show Services.
    ServicesHidden(String),
    /// Which Cilium runs is not known, and so not what it reads.
    VersionUnknown,
    /// LB-IPAM is switched off, or not for Services without a class.
    SwitchedOff,
    /// The running version cannot be given this spec.
    NotRead(NotRead),
    /// The label says that somebody else manages the pool.
    ManagedByAnother(String),
    /// The addresses of a subnet of Neutron are not known.
    NeutronUnknown(NeutronTrouble),
    /// A range reaches into addresses that something else has.
    InUse(Range, Range, AddressUser),
    /// The Service is for another controller.
    AnotherController(String),
    /// `spec.loadBalancerIP` asks for an address that the pin has not.
    AsksInSpec(IpAddr),
    /// No pool in use that selects the Service gives the address.
    OutsidePools(IpAddr),
    /// Another Service has the address, or is pinned to it, and the two cannot share it.
    HeldBy(IpAddr, ServiceName),
    /// An undo plan names something that is not as it left it.
    NotAsLeft,
}

impl fmt::Display for AddressUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressUser::PodCidr(node) => write!(f, "a pod CIDR of node {node}"),
            AddressUser::Machine(node) => write!(f, "an address of node {node}"),
            AddressUser::ServiceCidr => write!(f, "the Service CIDR"),
            AddressUser::Claimed(node) => write!(f, "claimed for node {node} or at rest after it"),
            AddressUser::Unattributed => write!(f, "a pod CIDR of a node that cannot be told"),
            AddressUser::NeutronPool(pool) => write!(f, "a subnet of Neutron, pool {pool}"),
        }
    }
}

impl fmt::Display for LbObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LbObstacle::NotServed => {
                write!(
                    f,
                    "the server does not know CiliumLoadBalancerIPPools: their CustomResourceDefinition is not installed"
                )
            }
            LbObstacle::PoolsHidden(why) => write!(
                f,
                "ciliumloadbalancerippools.cilium.io cannot be read: {why}"
            ),
            LbObstacle::ServicesHidden(why) => write!(f, "services cannot be read: {why}"),
            LbObstacle::VersionUnknown => {
                write!(
                    f,
                    "Cilium's version is not known, and with it what Cilium reads of a pool"
                )
            }
            LbObstacle::SwitchedOff => {
                write!(
                    f,
                    "LB-IPAM does not take it: it is switched off, or not for Services without a loadBalancerClass"
                )
            }
            LbObstacle::NotRead(why) => why.fmt(f),
            LbObstacle::ManagedByAnother(owner) => {
                write!(
                    f,
                    "its label {} says that `{}` manages it",
                    OWNER_LABEL.0,
                    owner.escape_debug()
                )
            }
            LbObstacle::NeutronUnknown(trouble) => trouble.fmt(f),
            LbObstacle::InUse(range, used, user) => write!(f, "{range} overlaps {used}, {user}"),
            LbObstacle::AnotherController(class) => {
                write!(
                    f,
                    "LB-IPAM does not take it: its loadBalancerClass is `{}`",
                    class.escape_debug()
                )
            }
            LbObstacle::AsksInSpec(address) => {
                write!(
                    f,
                    "its spec.loadBalancerIP asks for {address}, which Cilium adds to what the annotation says"
                )
            }
            LbObstacle::OutsidePools(address) => {
                write!(f, "no pool in use that selects it gives {address}")
            }
            LbObstacle::HeldBy(address, other) => {
                write!(
                    f,
                    "Service {other} has {address} or is pinned to it, and the two cannot share it"
                )
            }
            LbObstacle::NotAsLeft => write!(f, "it is not as the apply left it"),
        }
    }
}

impl LbObstacle {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        self.into()
    }

    /// What would unblock it.
    pub fn unblock(&self) -> String {
        match self {
            LbObstacle::NotServed => {
                "start Cilium's operator once, which installs it, and plan again".into()
            }
            LbObstacle::PoolsHidden(_) | LbObstacle::ServicesHidden(_) => {
                "allow `list` on it; see the README for the rights that are needed".into()
            }
            LbObstacle::VersionUnknown => {
                "let Cilium's DaemonSet be listed, or include it in the cluster file".into()
            }
            LbObstacle::SwitchedOff => {
                "see `enable-lb-ipam` and `default-lb-service-ipam` in cilium-config".into()
            }
            LbObstacle::NotRead(NotRead::FirstLast) => {
                "take `allowFirstLastIPs` out, or upgrade Cilium to 1.15 or later".into()
            }
            LbObstacle::NotRead(NotRead::StartStop(_)) => {
                "write it as CIDRs, or upgrade Cilium to 1.15 or later".into()
            }
            LbObstacle::ManagedByAnother(_) => {
                "take it out there and remove the label, or take it out of these files".into()
            }
            LbObstacle::NeutronUnknown(trouble) => trouble.unblock().into(),
            LbObstacle::InUse(..) => "give the pool addresses that nothing else has".into(),
            LbObstacle::AnotherController(_) => {
                "take the pin out, or change the Service's class".into()
            }
            LbObstacle::AsksInSpec(address) => {
                format!("remove spec.loadBalancerIP, or add {address} to the pin")
            }
            LbObstacle::OutsidePools(_) => {
                "pin an address of a pool that selects the Service, or mend the pool".into()
            }
            LbObstacle::HeldBy(_, other) => {
                format!(
                    "pin another address, or give both the same sharing key and other ports, or move {other} first"
                )
            }
            LbObstacle::NotAsLeft => "plan from the files, or mend it by hand".into(),
        }
    }
}
