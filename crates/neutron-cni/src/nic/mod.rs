//! NICs of the machine that are handed to Pods: which one, what it was like before, what has to be
//! done and undone in which order, and which port of Neutron it has. Pure: it is told of links, and
//! says what to change. It touches no link, no namespace, no file and no clock.

mod choice;
mod link;
mod port;
mod record;
mod settings;
mod steps;

pub use choice::{Refusal, candidates, is_to_be_had};
pub use link::{
    CHOSEN_OF_ADDRESS, Device, Kind, Link, MODES, Mac, NodeAddress, NodeRoute, PciAddress, State,
};
pub use port::{Given, given, port_of};
pub use record::{Mark, Netns, Record, Taken};
pub use settings::{Configured, NicSettings, Selection, Which};
pub use steps::{
    Change, Next, Place, Pod, Step, configure, find, find_handed, hand_over, take_back,
};

#[cfg(test)]
mod tests;
