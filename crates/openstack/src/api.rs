//! What is asked of Neutron, and how it says no. The type of a fault decides, never its status: 409
//! is an exhausted subnet, a quota, an address in use and a hardware address in use (Neutron 29).

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use ipam_core::neutron::{Id, PortAddress};

/// A port, as far as it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Its id.
    pub id: Id,
    /// Its network.
    pub network_id: Id,
    /// The container and its interface.
    #[serde(default)]
    pub device_id: String,
    /// What kind of user it has.
    #[serde(default)]
    pub device_owner: String,
    /// The node and the network's name on it.
    #[serde(default)]
    pub name: String,
    /// Which run of the plugin made it.
    #[serde(default)]
    pub description: String,
    /// Its hardware address.
    #[serde(default)]
    pub mac_address: String,
    /// Its addresses.
    #[serde(default)]
    pub fixed_ips: Vec<PortAddress>,
    /// When it was created; sorts as text.
    #[serde(default)]
    pub created_at: String,
}

/// A subnet, as far as it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// Its network.
    pub network: Id,
    /// Its range.
    pub range: IpNet,
    /// The way out of it.
    pub gateway: Option<IpAddr>,
    /// Further routes.
    pub routes: Vec<HostRoute>,
    /// Name servers.
    pub nameservers: Vec<IpAddr>,
}

/// A route that Neutron hands to the ports of a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRoute {
    /// Where it leads.
    pub destination: IpNet,
    /// The next hop. Kept under the name of CNI's field, as files of earlier versions have it.
    #[serde(rename = "gateway")]
    pub nexthop: IpAddr,
}

/// A network, as far as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Largest packet, in bytes; `None` where Neutron does not tell.
    pub mtu: Option<u32>,
}

/// A port that should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPort<'p> {
    /// Its network.
    pub network: &'p Id,
    /// What it is for.
    pub owner: &'p str,
    /// `name`.
    pub name: &'p str,
    /// `device_id`.
    pub device: &'p str,
    /// `description`.
    pub description: &'p str,
    /// `mac_address`; `None` leaves it to Neutron.
    pub mac: Option<String>,
    /// Subnets and addresses that are asked for; without any, Neutron gives one of each family.
    pub wanted: Vec<Wanted<'p>>,
    /// `security_groups`; without any, Neutron's own.
    pub security_groups: &'p [Id],
}

/// A wish for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'p> {
    /// Any of this subnet.
    Subnet(&'p Id),
    /// This one.
    Address(IpAddr),
}

/// Which ports are meant; what is absent does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortFilter<'p> {
    /// `name`.
    pub name: Option<&'p str>,
    /// `device_id`.
    pub device: Option<&'p str>,
    /// `device_owner`.
    pub owner: Option<&'p str>,
    /// `mac_address`, in small letters. Each network may have a port of it.
    pub mac: Option<&'p str>,
}

/// How Neutron, or Keystone before it, says no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NeutronError {
    /// `IpAddressGenerationFailure`.
    #[error("the network has no address left")]
    Exhausted,
    /// `OverQuota`.
    #[error("the project's quota of ports is used up")]
    Quota,
    /// `IpAddressAlreadyAllocated`, `IpAddressInUse`.
    #[error("an address that was asked for is in use")]
    AddressInUse,
    /// `MacAddressInUse`.
    #[error("the hardware address is in use")]
    MacInUse,
    /// `InvalidIpForNetwork`, `InvalidIpForSubnet`.
    #[error("an address that was asked for is of no subnet of the network")]
    InvalidAddress,
    /// Something is not there.
    #[error("OpenStack knows nothing of that name: {0}")]
    NotFound(String),
    /// `PortNotFound`.
    #[error("there is no such port")]
    NoSuchPort,
    /// The role does not allow it.
    #[error("the role of these credentials does not allow it: {0}")]
    Forbidden(String),
    /// Neutron does not take the token.
    #[error("Neutron does not accept the token")]
    Unauthorized,
    /// It does not even take a new one for this.
    #[error("Neutron does not accept the token for {0}")]
    UnauthorizedFor(String),
    /// Keystone does not take the credentials.
    #[error("Keystone does not accept the credentials")]
    Refused,
    /// Neutron gives no answer, none in time, or one that says that it does not work at the moment.
    /// What was asked for may have been done.
    #[error("Neutron does not answer: {0}")]
    Unavailable(String),
    /// Keystone does not answer, or there is no time left, so Neutron was asked for nothing.
    #[error("OpenStack cannot be asked: {0}")]
    Unreachable(String),
    /// The address, the region or the certificates that are configured cannot be right.
    #[error("OpenStack cannot be reached as configured: {0}")]
    Misconfigured(String),
    /// `RevisionNumberConstraintFailed`: somebody else has written in between.
    #[error("somebody else changes it all the time")]
    Changed,
    /// `AllowedAddressPairExhausted`.
    #[error("the port would have more `allowed_address_pairs` than Neutron allows")]
    TooManyPairs,
    /// Another no.
    #[error("OpenStack refused it: {0}")]
    Other(String),
}

/// What is known of subnets and networks.
pub trait NetworkFacts {
    /// A subnet; what it was minutes ago will do.
    ///
    /// # Errors
    /// Its no.
    fn subnet(&self, id: &Id) -> Result<Subnet, NeutronError>;

    /// A network; what it was minutes ago will do.
    ///
    /// # Errors
    /// Its no.
    fn network(&self, id: &Id) -> Result<Network, NeutronError>;
}

/// Neutron.
pub trait Neutron: NetworkFacts {
    /// Makes a port.
    ///
    /// # Errors
    /// Its no.
    fn create_port(&self, port: &NewPort<'_>) -> Result<Port, NeutronError>;

    /// All ports of that kind. Databases compare texts in their own way, so there may be more.
    ///
    /// # Errors
    /// Its no; a part of a list is no list.
    fn ports(&self, filter: &PortFilter<'_>) -> Result<Vec<Port>, NeutronError>;

    /// Removes a port; one that is not there is no fault.
    ///
    /// # Errors
    /// Its no.
    fn delete_port(&self, id: &Id) -> Result<(), NeutronError>;
}
