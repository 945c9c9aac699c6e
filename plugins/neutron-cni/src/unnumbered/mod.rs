//! The secondary route into a Pod: a veth pair between the Pod and its node that borrows the addresses of
//! the Pod's interface. Decides names, routes, rules and steps. Pure: touches no link, namespace,
//! file or clock.

mod choose;
mod previous;
mod secondary_route;
mod settings;

pub use choose::{WayKey, is_of_network, is_unmarked_end};
pub use previous::{Lack, Previous, Seen, SeenEnd, ShownEnd};
pub use secondary_route::{
    End, Neighbour, Pair, RULE_PRIORITY, Rule, SecondaryRoute, Step, Surroundings,
};
pub use settings::{PtpSettings, Wanted};

#[cfg(test)]
mod tests;
