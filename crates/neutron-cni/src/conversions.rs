//! How what OpenStack and the node's files say becomes what a CNI runtime is told.

use std::io;

use crate::cni::{CniError, ErrorCode, Route, RouteDetail};
use openstack::{HostRoute, NeutronError};
use private_files::FileError;

fn code_and_way_out(error: &NeutronError) -> (ErrorCode, &'static str) {
    match error {
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

impl From<NeutronError> for CniError {
    fn from(error: NeutronError) -> CniError {
        let (code, details) = code_and_way_out(&error);
        CniError::new(code, error.to_string(), details)
    }
}

impl From<FileError> for CniError {
    fn from(error: FileError) -> CniError {
        let code = match error {
            FileError::Io { .. } => ErrorCode::Io,
            FileError::Locked(_) => ErrorCode::TryAgainLater,
            FileError::WritableFolder(_)
            | FileError::ForeignSecret(_)
            | FileError::OpenSecret(_)
            | FileError::UnknownMachine => ErrorCode::InvalidConfiguration,
        };
        CniError::new(code, error.to_string(), error.way_out())
    }
}

/// An error of the system about a file.
pub fn file_error(what: &str, why: &io::Error) -> CniError {
    FileError::of(what, why).into()
}

impl From<&HostRoute> for Route {
    fn from(route: &HostRoute) -> Route {
        Route {
            destination: route.destination,
            gateway: Some(route.nexthop),
            detail: RouteDetail::default(),
        }
    }
}
