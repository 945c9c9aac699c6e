//! What is asked of Neutron, and how it says no. The type of a fault decides, never its status: 409
//! is an exhausted subnet, a quota, an address in use and a hardware address in use (Neutron 29).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::cni::{CniError, ErrorCode, Route};
use super::identity::Owner;

/// The id of something in OpenStack: a UUID, so that it can be a part of a path whoever said it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Id(String);

/// A text that is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id of OpenStack, which looks like 782ec9ac-44f9-4318-8c67-a2fed2ccca4f")]
pub struct NotAnId;

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Id, NotAnId> {
        let has_form = |(index, byte): (usize, u8)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        let is_one = text.len() == 36 && text.bytes().enumerate().all(has_form);
        is_one.then(|| Id(text.to_ascii_lowercase())).ok_or(NotAnId)
    }
}

impl TryFrom<String> for Id {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<Id, NotAnId> {
        text.parse()
    }
}

impl From<Id> for String {
    fn from(id: Id) -> String {
        id.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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
    pub fixed_ips: Vec<Address>,
    /// When it was created; sorts as text.
    #[serde(default)]
    pub created_at: String,
}

/// An address of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Its subnet.
    pub subnet_id: Id,
    /// The address.
    pub ip_address: IpAddr,
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
    pub routes: Vec<Route>,
    /// Name servers.
    pub nameservers: Vec<IpAddr>,
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
    pub owner: Owner,
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
    pub owner: Option<Owner>,
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

impl NeutronError {
    fn code_and_way_out(&self) -> (ErrorCode, &'static str) {
        match self {
            NeutronError::Exhausted => (
                ErrorCode::TryAgainLater,
                "enlarge the subnet, or remove ports that nobody uses",
            ),
            NeutronError::Quota => (
                ErrorCode::TryAgainLater,
                "openstack quota set --ports N PROJECT",
            ),
            NeutronError::AddressInUse => (
                ErrorCode::TryAgainLater,
                "another Pod has it, perhaps one that is going",
            ),
            NeutronError::MacInUse => (ErrorCode::TryAgainLater, "somebody else's port has it"),
            NeutronError::InvalidAddress => (
                ErrorCode::InvalidConfiguration,
                "ask for an address of the network's subnets",
            ),
            NeutronError::NotFound(_) | NeutronError::NoSuchPort => (
                ErrorCode::InvalidConfiguration,
                "see the ids of networks and subnets, the region and the interface",
            ),
            NeutronError::Misconfigured(_) => (
                ErrorCode::InvalidConfiguration,
                "see the address of Keystone, the region, the interface and the certificates",
            ),
            NeutronError::Forbidden(_) => (
                ErrorCode::Refused,
                "give the role what it lacks, or leave that wish out",
            ),
            NeutronError::Unauthorized | NeutronError::UnauthorizedFor(_) => (
                ErrorCode::Refused,
                "the access rules of an application credential must allow it, with `*` for ids",
            ),
            NeutronError::Refused => (
                ErrorCode::Refused,
                "see user, password, project and domain, or whether the application credential was revoked; \
                 the plugin of 2020 kept passwords obfuscated, this one takes them as they are",
            ),
            NeutronError::Unavailable(_) | NeutronError::Unreachable(_) => {
                (ErrorCode::TryAgainLater, "it will be tried again")
            }
            NeutronError::Changed => (ErrorCode::TryAgainLater, "it will be tried again"),
            NeutronError::TooManyPairs => (
                ErrorCode::Refused,
                "raise `max_allowed_address_pair` in neutron.conf (10 unless it is set), or let out ranges instead of addresses",
            ),
            NeutronError::Other(_) => (ErrorCode::Refused, "see Neutron's log"),
        }
    }
}

impl From<NeutronError> for CniError {
    fn from(error: NeutronError) -> CniError {
        let (code, details) = error.code_and_way_out();
        CniError::new(code, error.to_string(), details)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_become_parts_of_paths() {
        assert!("782ec9ac-44f9-4318-8c67-a2fed2ccca4f".parse::<Id>().is_ok());
        for bad in [
            "",
            "pods",
            "../../v3/users/aaaaaaaaaaaaaaaaaaaaaaaa",
            "782ec9ac-44f9-4318-8c67-a2fed2ccca4f?",
            "é",
        ] {
            assert_eq!(bad.parse::<Id>(), Err(NotAnId), "{bad}");
        }
    }
}
