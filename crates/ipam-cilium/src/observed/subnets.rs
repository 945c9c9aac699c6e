//! Subnets of OpenStack Neutron, as far as they were seen. One that was not seen says nothing,
//! least of all that its addresses are free.

use std::collections::BTreeMap;

use ipam_core::net::Block;
use ipam_core::neutron::Id;

/// What was seen of subnets, each by its id.
pub type SeenSubnets = BTreeMap<Id, SeenSubnet>;

/// What was seen of a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenSubnet {
    /// It is there.
    There {
        /// Its network.
        network: Id,
        /// Its addresses. Neutron never changes them (`allow_put` of `cidr`, neutron-lib
        /// `api/definitions/subnet.py` @ 5.0.1).
        range: Block,
    },
    /// Neutron has none of this id, or shows it to these credentials not.
    Missing,
    /// It could not be read, and why.
    Unread(String),
}
