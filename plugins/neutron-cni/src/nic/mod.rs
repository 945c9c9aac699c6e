//! NICs of the machine that move to Pods: which NIC, its state before, the steps there and back in
//! their order, and its port of Neutron. Pure: links in, changes out. Touches no link, namespace,
//! file or clock.

mod choice;
mod link;
mod port;
mod record;
mod settings;
mod steps;

pub(crate) use link::{Gateway, MAIN_TABLE};

pub use choice::{Refusal, candidates, is_available};
pub use link::{
    CHOSEN_OF_ADDRESS, Device, Kind, Link, MODES, Mac, NodeAddress, NodeRoute, PciAddress, State,
};
pub use port::{PortConfig, port_config, port_of};
pub use record::{AttachmentKey, Netns, Record, TakenNic};
pub use settings::{Configured, NicSettings, Selection, Which};
pub use steps::{
    Change, Next, Pod, Side, Step, configure, find, find_moved, give_back, move_to_pod,
};

#[cfg(test)]
mod tests;
