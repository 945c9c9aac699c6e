//! The Container Network Interface for a plugin: requests of a runtime, and answers in each version
//! of the specification (SPEC.md of containernetworking/cni, 1.1.0). Must never know Neutron, and
//! reads no environment itself.

mod arguments;
mod attachment;
mod environment;
mod error;
mod outcome;
mod version;

pub use arguments::Arguments;
pub use arguments::address_of;
pub use attachment::{Attachment, ContainerId, InterfaceName};
pub use environment::{Command, Environment};
pub use error::{CniError, ErrorCode};
pub use outcome::{Address, Dns, Interface, IpamOutcome, Route, RouteDetail};
pub use version::SpecVersion;
