//! Observed subnets of OpenStack Neutron. A subnet that was not read does not mean that its
//! addresses are free.

use std::collections::BTreeMap;

use ipam_core::net::Block;
use ipam_core::neutron::Id;

/// Results of reading subnets, by id.
pub type SeenSubnets = BTreeMap<Id, SeenSubnet>;

/// Result of reading a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenSubnet {
    /// It exists.
    There {
        network: Id,
        /// Its CIDR. Neutron never changes it (`allow_put` of `cidr`, neutron-lib
        /// `api/definitions/subnet.py` @ 5.0.1).
        range: Block,
    },
    /// Neutron has no subnet of this id, or hides it from these credentials.
    Missing,
    /// Reading failed, with the reason.
    Unread(String),
}
