//! The second way into a Pod: a veth pair between the Pod and its node that borrows the addresses of
//! the Pod's interface. Decides names, routes, rules and steps. Pure: touches no link, namespace,
//! file or clock.

mod check;
mod choose;
mod names;
mod previous;
mod settings;
mod way;

pub use check::{Lack, Seen, SeenEnd};
pub use names::{WayKey, is_of_network, is_unmarked_end};
pub use previous::{Previous, ShownEnd};
pub use settings::{PtpSettings, Wanted};
pub use way::{End, Neighbour, Pair, RULE_PRIORITY, Rule, SecondWay, Step, Surroundings};

#[cfg(test)]
mod tests;
