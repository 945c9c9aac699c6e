//! Requests to Neutron, their retries, and their errors. The type of an error decides, never its
//! status: 409 means an exhausted subnet, a quota, an address in use or a hardware address in use
//! (Neutron 29).

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use ipam_core::neutron::{Id, PortAddress};

/// A port of Neutron. Only these fields are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    pub id: Id,
    pub network_id: Id,
    #[serde(default)]
    pub project_id: String,
    /// The port's user: the container and its interface.
    #[serde(default)]
    pub device_id: String,
    /// Kind of the port's user.
    #[serde(default)]
    pub device_owner: String,
    /// The node, and the network's name on the node.
    #[serde(default)]
    pub name: String,
    /// The run of the plugin that created the port.
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub mac_address: String,
    #[serde(default)]
    pub fixed_ips: Vec<PortAddress>,
    /// When the port was created; sorts as text.
    #[serde(default)]
    pub created_at: String,
}

/// A subnet. Only these fields are read, with the names of Neutron or our own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    #[serde(rename(deserialize = "network_id"), alias = "network")]
    pub network: Id,
    #[serde(rename(deserialize = "cidr"), alias = "range")]
    pub range: IpNet,
    #[serde(rename(deserialize = "gateway_ip"), alias = "gateway")]
    pub gateway: Option<IpAddr>,
    #[serde(rename(deserialize = "host_routes"), alias = "routes", default)]
    pub routes: Vec<HostRoute>,
    #[serde(
        rename(deserialize = "dns_nameservers"),
        alias = "nameservers",
        default
    )]
    pub nameservers: Vec<IpAddr>,
}

/// A host route of a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRoute {
    pub destination: IpNet,
    pub nexthop: IpAddr,
}

/// A network of Neutron. Only these fields are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Largest packet in bytes; `None` if Neutron does not report it.
    pub mtu: Option<u32>,
}

/// A port to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPort<'p> {
    pub network: &'p Id,
    /// Value of the port's `device_owner`.
    pub owner: &'p str,
    pub name: &'p str,
    /// Value of the port's `device_id`.
    pub device: &'p str,
    pub description: &'p str,
    /// `mac_address`; `None` lets Neutron choose.
    pub mac: Option<String>,
    /// Requested subnets and addresses. Empty: Neutron gives one address of each family.
    pub wanted: Vec<Wanted<'p>>,
    /// `security_groups`. Empty: Neutron's default.
    pub security_groups: &'p [Id],
}

/// A requested address of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'p> {
    /// Any address of this subnet.
    Subnet(&'p Id),
    /// Exactly this address.
    Address(IpAddr),
}

/// A filter of ports. An absent field matches every port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortFilter<'p> {
    pub name: Option<&'p str>,
    /// Value of `device_id`.
    pub device: Option<&'p str>,
    /// Value of `device_owner`.
    pub owner: Option<&'p str>,
    /// `mac_address` in lower case. Each network may have one port with it.
    pub mac: Option<&'p str>,
}

/// An error of Neutron, or of Keystone before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NeutronError {
    /// Neutron's error `IpAddressGenerationFailure`.
    #[error("the network has no address left")]
    Exhausted,
    /// Neutron's error `OverQuota`.
    #[error("the project's quota of ports is used up")]
    Quota,
    /// Neutron's errors `IpAddressAlreadyAllocated` and `IpAddressInUse`.
    #[error("a requested address is in use")]
    AddressInUse,
    /// Neutron's error `MacAddressInUse`.
    #[error("the hardware address is in use")]
    MacInUse,
    /// Neutron's errors `InvalidIpForNetwork` and `InvalidIpForSubnet`.
    #[error("a requested address is in no subnet of the network")]
    InvalidAddress,
    /// An object does not exist, or these credentials cannot see it.
    #[error("not found in OpenStack: {0}")]
    NotFound(String),
    /// Neutron's error `PortNotFound`.
    #[error("the port does not exist")]
    NoSuchPort,
    #[error("the role of these credentials does not allow it: {0}")]
    Forbidden(String),
    #[error("Neutron does not accept the token")]
    Unauthorized,
    /// Neutron does not accept a new token for this request either.
    #[error("Neutron does not accept the token for {0}")]
    UnauthorizedFor(String),
    #[error("Keystone does not accept the credentials")]
    Refused,
    /// No answer, a late answer, or a temporary failure. Neutron may have done the request.
    #[error("Neutron does not answer: {0}")]
    Unavailable(String),
    /// Keystone does not answer, or no time is left. Neutron did not get the request.
    #[error("cannot reach OpenStack: {0}")]
    Unreachable(String),
    /// The configured address, region or certificates are wrong.
    #[error("wrong configuration of OpenStack: {0}")]
    Misconfigured(String),
    /// `RevisionNumberConstraintFailed`: another client wrote in between.
    #[error("another client changed it at the same time")]
    Changed,
    /// Neutron's error `AllowedAddressPairExhausted`.
    #[error("the port would have more `allowed_address_pairs` than Neutron allows")]
    TooManyPairs,
    /// A refusal that no other variant covers.
    #[error("OpenStack refused it: {0}")]
    Other(String),
}

/// Facts about subnets and networks.
pub trait NetworkFacts {
    /// A subnet as it was in the last minutes.
    ///
    /// # Errors
    /// Fails if Neutron refuses or does not answer.
    fn subnet(&self, id: &Id) -> Result<Subnet, NeutronError>;

    /// A network as it was in the last minutes.
    ///
    /// # Errors
    /// Fails if Neutron refuses or does not answer.
    fn network(&self, id: &Id) -> Result<Network, NeutronError>;
}

/// Neutron's requests about ports.
pub trait Neutron: NetworkFacts {
    /// Creates a port.
    ///
    /// # Errors
    /// Fails if Neutron refuses or does not answer.
    fn create_port(&self, port: &NewPort<'_>) -> Result<Port, NeutronError>;

    /// Lists the ports that match. There may be more: databases compare text in their own way.
    ///
    /// # Errors
    /// Fails if Neutron does not return the complete list.
    fn ports(&self, filter: &PortFilter<'_>) -> Result<Vec<Port>, NeutronError>;

    /// Deletes a port. Succeeds if the port does not exist.
    ///
    /// # Errors
    /// Fails if Neutron refuses or does not answer.
    fn delete_port(&self, id: &Id) -> Result<(), NeutronError>;
}

/// The time for retries.
pub trait Retries {
    /// Waits before the next attempt, longer after each failure. `failed` counts the failures so
    /// far, from 1.
    fn next_attempt(&self, failed: u32) -> NextAttempt;
}

/// Whether there is time for another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAttempt {
    /// The pause is over: retry.
    Now,
    /// The time is over: give up.
    Never,
}

/// Retries until OpenStack answers, or until the time is over.
///
/// # Errors
/// Fails if Neutron refuses the request, or with the last failure once the time is over.
pub fn retry_until_answered<N: Retries, T>(
    neutron: &N,
    ask: impl Fn(&N) -> Result<T, NeutronError>,
) -> Result<T, NeutronError> {
    let mut failed = 0;
    loop {
        match ask(neutron) {
            Err(error @ (NeutronError::Unavailable(_) | NeutronError::Unreachable(_))) => {
                failed += 1;
                if neutron.next_attempt(failed) == NextAttempt::Never {
                    return Err(error);
                }
            }
            answer => return answer,
        }
    }
}
