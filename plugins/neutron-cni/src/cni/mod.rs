//! The Container Network Interface for a plugin: requests of a runtime, and answers in each version
//! of the specification (SPEC.md of containernetworking/cni, 1.1.0). Must never know Neutron, and
//! reads no environment itself.

mod environment;
mod outcome;

pub use environment::{
    Arguments, Attachment, Command, ContainerId, Environment, InterfaceName, SpecVersion,
    address_of,
};
pub use outcome::{Address, CniError, Dns, ErrorCode, Interface, IpamOutcome, Route, RouteDetail};
