//! OpenStack as the planner needs it: the addresses of the pools that are subnets of Neutron. Pure:
//! it reads only what was observed, and never asks Neutron.

mod subnets;

pub use subnets::{Overlapping, Reason, SubnetOverlap, SubnetPools, UnresolvedSubnet};
