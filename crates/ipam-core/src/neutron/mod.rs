//! The nouns of OpenStack Neutron that a plan speaks of: ids, a port's addresses, and the address
//! pairs that it allows. Knows nothing of HTTP, logins or CNI.

mod id;
mod pairs;

pub use id::{Id, NotAnId};
pub use pairs::{GuardedPort, Pair, PairsChange, PortAddress, PortSecurity};
