//! Why a change about LoadBalancer addresses must wait.

use std::fmt;
use std::net::IpAddr;

use strum::{IntoStaticStr, VariantNames};

use crate::plan::blocked::Explanation;
use ipam_cilium::lbipam::NotRead;
use ipam_core::model::{AddressPoolName, NodeName, PoolName, ServiceName};
use ipam_core::net::{Family, Range};

/// Who has addresses that a pool would give.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressUser {
    /// The pod CIDR of a node.
    PodCidr(NodeName),
    /// An address of the node itself.
    Machine(NodeName),
    /// A Service CIDR.
    ServiceCidr,
    /// A block that is claimed for a node, or quarantined after it.
    Claimed(NodeName),
    /// A block of an object whose node is unknown.
    Unattributed,
    /// A Neutron subnet, by the pool that names it.
    NeutronPool(PoolName),
}

/// Why a pool or a pin must wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum LbObstacle {
    /// The server does not know the kind.
    NotServed,
    /// The server does not show the kind.
    PoolsHidden(String),
    /// The server does not show Services.
    ServicesHidden(String),
    /// The version of Cilium is unknown, and with it the fields that it reads.
    VersionUnknown,
    /// LB-IPAM is switched off, or not for Services without a class.
    LbIpamDisabled,
    /// The running version cannot be given this spec.
    PoolFieldNotRead(NotRead),
    /// A range overlaps addresses that something else has: both ranges and the user.
    PoolRangeInUse(Range, Box<(Range, AddressUser)>),
    /// The Service is for another controller.
    AnotherController(String),
    /// `spec.loadBalancerIP` asks for an address that is not in the pin.
    SpecRequestsOtherAddress(IpAddr),
    /// No pool in use that selects the Service gives the address.
    OutsidePools(IpAddr),
    /// Another Service has the address, or is pinned to it, and the two cannot share it.
    ServiceAddressHeld(IpAddr, ServiceName),
    /// The named pool gives the Service no address of this family.
    PoolGivesNone(AddressPoolName, Family),
    /// No pool gives the Service an address of this family.
    ServiceNoPool(Family),
    /// The pools that give the Service addresses of this family have no free one.
    ServiceNoFreeAddress(Family),
}

impl fmt::Display for AddressUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressUser::PodCidr(node) => write!(f, "a pod CIDR of node {node}"),
            AddressUser::Machine(node) => write!(f, "an address of node {node}"),
            AddressUser::ServiceCidr => write!(f, "the Service CIDR"),
            AddressUser::Claimed(node) => {
                write!(f, "claimed for node {node} or quarantined after it")
            }
            AddressUser::Unattributed => write!(f, "a pod CIDR of an unknown node"),
            AddressUser::NeutronPool(pool) => write!(f, "a subnet of Neutron, pool {pool}"),
        }
    }
}

impl LbObstacle {
    /// The reason and the fix.
    pub(in crate::plan) fn explain(&self) -> Explanation {
        const ALLOW_LIST: &str =
            "allow `list` on it; `cilium-ipam schema --rbac` prints the required roles";
        match self {
            LbObstacle::NotServed => Explanation::new(
                "the server does not know CiliumLoadBalancerIPPools: their CustomResourceDefinition is not installed",
                "start Cilium's operator once, which installs it, and plan again",
            ),
            LbObstacle::PoolsHidden(why) => Explanation::new(
                format!("ciliumloadbalancerippools.cilium.io cannot be read: {why}"),
                ALLOW_LIST,
            ),
            LbObstacle::ServicesHidden(why) => {
                Explanation::new(format!("services cannot be read: {why}"), ALLOW_LIST)
            }
            LbObstacle::VersionUnknown => Explanation::new(
                "Cilium's version is unknown, so the fields of a pool that it reads are unknown",
                "let Cilium's DaemonSet be listed, or include it in the cluster file",
            ),
            LbObstacle::LbIpamDisabled => Explanation::new(
                "LB-IPAM does not take it: it is switched off, or not for Services without a loadBalancerClass",
                "see `enable-lb-ipam` and `default-lb-service-ipam` in cilium-config",
            ),
            LbObstacle::PoolFieldNotRead(why) => {
                let unblock = match why {
                    NotRead::FirstLast => {
                        "remove `allowFirstLastIPs`, or upgrade Cilium to 1.15 or later"
                    }
                    NotRead::StartStop(_) => {
                        "write it as CIDRs, or upgrade Cilium to 1.15 or later"
                    }
                };
                Explanation::new(why.to_string(), unblock)
            }
            LbObstacle::PoolRangeInUse(range, used) => {
                let (used, user) = &**used;
                Explanation::new(
                    format!("{range} overlaps {used}, {user}"),
                    "give the pool addresses that nothing else has",
                )
            }
            LbObstacle::AnotherController(class) => Explanation::new(
                format!(
                    "LB-IPAM does not take it: its loadBalancerClass is `{}`",
                    class.escape_debug()
                ),
                "remove the pin, or change the Service's class",
            ),
            LbObstacle::SpecRequestsOtherAddress(address) => Explanation::new(
                format!(
                    "its spec.loadBalancerIP asks for {address}, which Cilium adds to the addresses of the annotation"
                ),
                format!("remove spec.loadBalancerIP, or add {address} to the pin"),
            ),
            LbObstacle::OutsidePools(address) => Explanation::new(
                format!("no pool in use that selects it gives {address}"),
                "pin an address of a pool that selects the Service, or fix the pool",
            ),
            LbObstacle::ServiceAddressHeld(address, other) => Explanation::new(
                format!(
                    "Service {other} has {address} or is pinned to it, and the two cannot share it"
                ),
                format!(
                    "pin another address, or give both the same sharing key and other ports, or move {other} first"
                ),
            ),
            LbObstacle::PoolGivesNone(pool, family) => Explanation::new(
                format!("pool {pool} gives it no {family} address"),
                format!(
                    "create {pool} with {family} addresses and a selector for the Service, enable it, or name another pool"
                ),
            ),
            LbObstacle::ServiceNoPool(family) => Explanation::new(
                format!("no pool in use that selects it has {family} addresses"),
                "add a pool of this family, or fix the selector of one",
            ),
            LbObstacle::ServiceNoFreeAddress(family) => Explanation::new(
                format!("its pools have no free {family} address"),
                "add a block to a pool, or release Services",
            ),
        }
    }
}
