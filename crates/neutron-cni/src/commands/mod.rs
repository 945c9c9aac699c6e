//! The CNI commands at Neutron. After each command, Neutron has what the answer says, wherever an
//! earlier attempt ended. Must never know files or the environment.

mod add;
mod check;
mod delete;
mod garbage;
mod outcome;

use crate::identity::Identity;
use openstack::{Neutron, NeutronError, Port, PortFilter};

pub use add::{Added, Leftover, NotAdded, add};
pub use check::check;
pub use delete::delete;
pub use garbage::{Collected, collect_garbage};
pub use outcome::outcome;

/// The ports of an attachment or of a slot in a pool, oldest first.
fn ports_of(neutron: &impl Neutron, identity: &Identity) -> Result<Vec<Port>, NeutronError> {
    let (name, device) = (Some(identity.name.as_str()), Some(identity.device.as_str()));
    let filter = PortFilter {
        name,
        device,
        owner: Some(identity.owner.as_str()),
        mac: None,
    };
    let mut ports = neutron.ports(&filter)?;
    ports.retain(|port| identity.is_of(port));
    ports.sort_by(|a, b| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
    Ok(ports)
}

#[cfg(test)]
mod tests;
