//! Changes of LoadBalancer pools, and of what Services ask for.

use std::net::IpAddr;

use ipam_cilium::lbipam::{AddressPoolApi, AddressPoolManifest, Translation};
use ipam_core::model::{AddressPoolName, Hazard, ObjectVersion, Origin, ServiceName};

ipam_core::text_enum! {
    /// What a change does to a pool, in the order in which changes are sent. The text stands in
    /// JSON.
    ///
    /// Changes that take addresses away go before those that add them, so that a pool that moves to
    /// another name never overlaps itself.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PoolAction {
        /// The pool is ours already, and changes.
        Update = "update",
        /// The pool becomes ours, and changes where it differs.
        Adopt = "adopt",
        /// The pool is deleted.
        Delete = "delete",
        /// The pool is created.
        Create = "create",
    }
}

/// One change of one `CiliumLoadBalancerIPPool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPoolChange {
    /// What it does.
    pub action: PoolAction,
    /// The pool.
    pub name: AddressPoolName,
    /// The version in which it is written.
    pub api: AddressPoolApi,
    /// What it shows now, of labels and annotations only those that are written; `None` for one
    /// that is made.
    pub before: Option<AddressPoolManifest>,
    /// What it will show; `None` for one that is deleted.
    pub after: Option<AddressPoolManifest>,
    /// Whether the files say it in another field.
    pub translation: Translation,
    /// Who wrote its spec last, and when.
    pub author: Option<(String, String)>,
    /// What it means for workloads.
    pub hazard: Hazard,
    /// The object that was seen; the write must fail when it is another one by now. Empty for one
    /// that is made: then there must be none.
    pub guard: ObjectVersion,
    /// Where the files have it.
    pub origin: Option<Origin>,
}

/// One change of one Service: the annotation by which it asks for the addresses of its pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceChange {
    /// The Service.
    pub service: ServiceName,
    /// Key of the annotation.
    pub key: &'static str,
    /// Its value now.
    pub before: Option<String>,
    /// Its value afterwards.
    pub after: Option<String>,
    /// What it means for workloads.
    pub hazard: Hazard,
    /// The object that was seen.
    pub guard: ObjectVersion,
    /// The pin.
    pub origin: Option<Origin>,
}

/// Addresses as the annotation has them.
pub(super) fn annotation_value(addresses: &[IpAddr]) -> String {
    addresses
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}
