//! The nouns of OpenStack Neutron that plans use: ids, a port's addresses, and its allowed address
//! pairs. Knows nothing of HTTP, logins or CNI.

mod id;
mod pairs;

pub use id::{Id, NotAnId};
pub use pairs::{Pair, PairsChange, PortAddress, PortSecurity, VmPort};
