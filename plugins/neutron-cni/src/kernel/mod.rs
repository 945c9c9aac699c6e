//! The kernel's links, addresses, routes and network namespaces, for the plugins that touch them.
//! Reads and sends; must never decide what to change.

pub(crate) mod dump;
pub(crate) mod messages;
pub(crate) mod namespace;
pub(crate) mod netlink;

use std::io;

use crate::cni::{CniError, ErrorCode};

/// An error of the kernel, with the fix.
pub(crate) fn kernel_error(what: &str, why: &io::Error) -> CniError {
    let details = match why.kind() {
        io::ErrorKind::PermissionDenied => "the plugin needs CAP_NET_ADMIN and CAP_SYS_ADMIN",
        _ => "see `ip link` on the node and in the Pod, and the kernel's log",
    };
    CniError::new(ErrorCode::Io, format!("{what}: {why}"), details)
}
