//! The Container Network Interface as a plugin sees it: what a runtime asks, and how it is answered
//! in each version of the specification (SPEC.md of containernetworking/cni, 1.1.0). Knows nothing
//! of Neutron, and reads no environment by itself.

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
